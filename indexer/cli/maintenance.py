"""`isthmus clear`, `quarantine`, `repair`, `rebuild` and `forget`."""

import sys
from contextlib import ExitStack, closing

import click

from indexer.cli.base import operator_command


@click.command()
@click.argument("chain")
@click.argument("subject")
@operator_command
def clear(chain: str, subject: str) -> int:
    """Clear the alarms about a subject, as `status` prints it, once its cause is fixed."""
    from indexer.config.warehouse import open_warehouse
    from indexer.facts.alarms import clear_alarms_about
    from warehouse_schema.identifiers import ChainId

    with open_warehouse() as (settings, engine), engine.begin() as conn:
        cleared = clear_alarms_about(conn, settings.network.chain(ChainId(chain)).id, subject)
    print(f"{cleared} alarms cleared")
    return 0 if cleared else 1


@click.command()
@click.option(
    "--retry", "retries", is_flag=True, help="Decode them again, from kept bytes or their source."
)
@operator_command
def quarantine(*, retries: bool) -> int:
    """List ledgers that could not be decoded; 1 if there are any."""
    from indexer.config.warehouse import open_warehouse
    from indexer.decode.build import decoder_build
    from indexer.facts.quarantine import list_ledgers
    from indexer.ingest.quarantine import retry
    from indexer.ingest.readers import open_reader

    with ExitStack() as stack:
        settings, engine = stack.enter_context(open_warehouse())
        chain = settings.network.stellar
        if retries:
            reader = None
            if settings.nodes[chain.id]:
                reader = stack.enter_context(closing(open_reader(settings, chain)))
            with engine.connect() as conn:
                ledgers = list_ledgers(conn, chain.id)
            for attempt in retry(engine, settings.network, ledgers, reader):
                print(attempt, flush=True)
        with engine.connect() as conn:
            remaining = list_ledgers(conn)
    for ledger in remaining:
        print(ledger)
    print(f"{len(remaining)} in quarantine; this build is {decoder_build()}")
    return 1 if remaining else 0


@click.command()
@operator_command
def repair() -> int:
    """Read ledgers again where providers' events have gaps; 1 if a gap is left."""
    from indexer.cli.progress_bar import Bar
    from indexer.config.warehouse import open_warehouse
    from indexer.ingest.gap_repair import repair_gaps
    from indexer.ingest.readers import open_history

    with (
        open_warehouse() as (settings, engine),
        closing(open_history(settings, settings.network.stellar)) as reader,
        Bar(sys.stdout) as bar,
    ):
        repaired = repair_gaps(engine, reader, settings.network, bar)
    print(repaired)
    return 1 if repaired.remaining else 0


@click.command()
@operator_command
def rebuild() -> int:
    """Rebuild the projections from the facts."""
    from indexer.config.warehouse import open_warehouse
    from indexer.ingest.rebuild import rebuild as rebuild_projections

    with open_warehouse() as (settings, engine):
        print(rebuild_projections(engine, settings.network))
    return 0


@click.command()
@operator_command
def forget() -> int:
    """Delete old outbox events and unused quotes."""
    from indexer.config.warehouse import open_warehouse
    from indexer.ingest.retention import delete_old_rows

    with open_warehouse() as (_, engine), engine.begin() as conn:
        deleted = delete_old_rows(conn)
    print(f"forgotten: {deleted.events} events, {deleted.quotes} quotes")
    return 0
