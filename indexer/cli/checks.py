"""`isthmus status`, `check` and `reconcile`: what is wrong, if anything is."""

from indexer.analytics.reconciliation import reconcile
from indexer.config.settings import load_settings
from indexer.config.warehouse import open_engine
from indexer.facts.alarms import open_alarms
from indexer.facts.backfills import unfinished_backfills
from indexer.facts.checks import alarm_lines, block_faults
from indexer.facts.health import assess
from indexer.facts.status import ChainStatus, chain_status
from indexer.ingest.rebuild import differences


def status() -> int:
    """Print a line for each chain, then alarms and backfills; 1 if an operator is needed."""
    settings = load_settings()
    engine = open_engine(settings, "indexer")
    is_good = True
    for found in chain_status(engine, settings.network):
        chain = settings.network.chain(found.chain)
        if found.height is None and chain not in settings.followed:
            print(f"{found.chain}: nothing ingested, no node set")
            continue
        health = assess(chain, found)
        is_good = is_good and not health.needs_operator
        reason = [] if health.is_well else [f"{health.reason}: {health.detail}"]
        print(f"{found.chain}: " + ", ".join([*_where(found), *health.warnings, *reason]))
    with engine.connect() as conn:
        for alarm in open_alarms(conn):
            print(f"{alarm.kind} {alarm.chain} {alarm.subject}: {alarm.detail}")
        for backfill in unfinished_backfills(conn):
            print(
                f"{backfill.chain}: a backfill of {backfill.first} to {backfill.last} is at "
                f"{backfill.done}, folded to {backfill.folded}"
            )
    return 0 if is_good else 1


def _where(status: ChainStatus) -> list[str]:
    if status.height is None:
        return []
    return [f"at {status.height} of {status.head_height}", f"{status.lag_seconds} s behind"]


def check() -> int:
    """Compare blocks, alarms and projections with a rebuild; 1 on a problem."""
    settings = load_settings()
    engine = open_engine(settings, "indexer")
    problems = differences(engine, settings.network)
    for chain in settings.network.chains:
        problems += block_faults(engine, chain.id) + alarm_lines(engine, chain.id)
    for problem in problems:
        print(problem)
    print("no differences" if not problems else f"{len(problems)} problems")
    return 1 if problems else 0


def reconcile_money() -> int:
    """Check that the money adds up, and store the result; 1 on a finding."""
    settings = load_settings()
    result = reconcile(open_engine(settings, "indexer"), settings.network)
    for flow in result.flows:
        print(
            f"{flow.mechanism} {flow.source_chain or 'elsewhere'} to "
            f"{flow.dest_chain or 'elsewhere'}: sent {flow.sent.amount}, delivered "
            f"{flow.delivered.amount}, fees {flow.fees}, on the way {flow.on_the_way.amount}, "
            f"unexplained {flow.unexplained.amount}"
        )
    for finding in result.findings:
        print(f"{finding.check}: {finding.detail}")
    print("it adds up" if not result.findings else f"{len(result.findings)} findings")
    return 1 if result.findings else 0
