"""`isthmus status`, `check` and `reconcile`: what is wrong, if anything is."""

import click

from indexer.cli.base import operator_command


@click.command()
@operator_command
def status() -> int:
    """Show each chain's height, lag and alarms; 1 if an operator is needed."""
    from indexer.config.warehouse import open_warehouse
    from indexer.facts.alarms import open_alarms
    from indexer.facts.backfills import unfinished_backfills
    from indexer.facts.health import assess
    from indexer.facts.status import chain_status_on

    is_good = True
    with open_warehouse() as (settings, engine), engine.connect() as conn:
        for found in chain_status_on(conn, settings.network):
            chain = settings.network.chain(found.chain)
            if found.height is None and chain not in settings.followed:
                print(f"{found.chain}: nothing ingested, no node set")
                continue
            health = assess(chain, found)
            is_good = is_good and not health.needs_operator
            parts = list(health.warnings)
            if found.height is not None:
                where = f"at {found.height} of {found.head_height}"
                parts = [where, f"{found.lag_seconds} s behind", *parts]
            if not health.is_well:
                parts.append(f"{health.reason}: {health.detail}")
            print(f"{found.chain}: {', '.join(parts)}")
        for alarm in open_alarms(conn):
            print(f"{alarm.kind} {alarm.chain} {alarm.subject}: {alarm.detail}")
        for backfill in unfinished_backfills(conn):
            print(
                f"{backfill.chain}: a backfill of {backfill.first} to {backfill.last} is at "
                f"{backfill.done}, folded to {backfill.folded}"
            )
    return 0 if is_good else 1


@click.command()
@operator_command
def check() -> int:
    """Compare facts and projections with a rebuild; 1 on a difference."""
    from indexer.config.warehouse import open_warehouse
    from indexer.facts.checks import alarm_lines, block_faults
    from indexer.ingest.rebuild import differences

    with open_warehouse() as (settings, engine):
        problems = differences(engine, settings.network)
        for chain in settings.network.chains:
            problems += block_faults(engine, chain.id) + alarm_lines(engine, chain.id)
    for problem in problems:
        print(problem)
    print("no differences" if not problems else f"{len(problems)} problems")
    return 1 if problems else 0


@click.command()
@operator_command
def reconcile() -> int:
    """Check that the money adds up, and store the result; 1 on a finding."""
    from indexer.analytics.reconciliation import reconcile as run_reconciliation
    from indexer.config.warehouse import open_warehouse

    with open_warehouse() as (settings, engine):
        result = run_reconciliation(engine, settings.network)
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
