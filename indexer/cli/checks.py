"""`isthmus status`, `check` and `reconcile`: what is wrong, if anything is."""

import click

from indexer.cli.base import operator_command


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@operator_command
def status(*, as_json: bool) -> int:
    """Show whether transfers move, and each chain's height, lag, alarms and follower.

    Exits with 1 if an operator is needed.
    """
    from indexer.config.warehouse import open_warehouse
    from indexer.facts.alarms import open_alarms
    from indexer.facts.backfills import unfinished_totals
    from indexer.facts.health import assess
    from indexer.facts.status import all_processes, chain_status_on
    from indexer.service_status import service_status
    from indexer.service_status.silent_senders import silent_senders
    from warehouse_schema import locks
    from warehouse_schema.configuration import load_configuration

    configuration = load_configuration()
    with open_warehouse() as (settings, engine), engine.connect() as conn:
        statuses, processes = chain_status_on(conn, settings.network), all_processes(conn)
        alarms, backfills = open_alarms(conn), unfinished_totals(conn)
        service = service_status(conn, settings.network)
        silent = silent_senders(conn, settings.network, configuration)
    # Without relay or transfers, as where chains are only ingested, the chains alone decide.
    is_good = service.verdict in ("moving", "unknown") and not silent
    lines = [service.operator_sentence]
    lines += [f"{each.sender}: {configuration.explain(each.problem)}" for each in silent]
    without_node = []
    for found in statuses:
        chain = settings.network.chain(found.chain)
        if found.height is None and chain not in settings.followed:
            without_node.append(found.chain)
            continue
        health = assess(chain, found)
        is_good = is_good and not health.needs_operator
        parts = list(health.warnings)
        if found.height is not None:
            where = f"at {found.height} of {found.head_height}"
            parts = [where, f"{found.lag_seconds} s behind", *parts]
            if health.reason == "NOT_FOLLOWED":
                parts.insert(2, f"as its follower said {found.silent_seconds or 0:.0f} s ago")
        if not health.is_well:
            parts.append(f"{health.reason}: {health.detail}")
        lines.append(f"{found.chain}: {', '.join(parts)}")
    if without_node:
        lines.append(f"without a node, nothing ingested: {', '.join(without_node)}")
    named = {each.name.name for each in processes if each.name.kind == locks.FOLLOWER}
    unfollowed = [chain.id for chain in settings.followed if chain.id not in named]
    lines += [f"follower {chain}: no process" for chain in unfollowed]
    lines += [str(each) for each in processes]
    lines += [f"{alarm.kind} {alarm.chain} {alarm.subject}: {alarm.detail}" for alarm in alarms]
    lines += [
        f"{backfill.chain}: a backfill of {backfill.first} to {backfill.last} has committed "
        f"{backfill.committed} of {backfill.blocks} blocks, folded {backfill.folded}"
        for backfill in backfills
    ]
    if as_json:
        _print_json(
            is_good=is_good,
            verdict=service.verdict,
            sentence=service.operator_sentence,
            problems=service.problems,
            silent_senders=silent,
            chains=statuses,
            processes=processes,
            alarms=alarms,
            backfills=backfills,
        )
    else:
        print("\n".join(lines))
    return 0 if is_good else 1


def _print_json(**members: object) -> None:
    import orjson

    # The name of a lease is a sentence of two words for people.
    print(orjson.dumps(members, default=str, option=orjson.OPT_UTC_Z).decode())


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
