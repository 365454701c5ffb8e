"""`isthmus follow`, `attest` and `transfers`: processes that run until they are interrupted."""

from contextlib import closing

import click

from indexer.cli.base import importing, operator_command, print_line


@click.command()
@click.argument("chain")
@operator_command
def follow(chain: str) -> int:
    """Follow one chain (CAIP-2 id, such as eip155:1) until interrupted."""
    with importing():
        from indexer.config.metrics import follower_metrics
        from indexer.config.networks import StellarChain
        from indexer.config.warehouse import open_warehouse
        from indexer.ingest.follow import follow as follow_chain
        from indexer.ingest.ranges import RangeProgress
        from indexer.ingest.readers import open_reader
        from indexer.loops import stop_requested
        from indexer.metrics.server import serve_loop_metrics
        from warehouse_schema.identifiers import ChainId

    def print_progress(progress: RangeProgress) -> None:
        print_line(
            f"{progress.chain} at {progress.height}, {progress.lag_blocks} blocks and "
            f"{progress.lag_seconds} s behind, {progress.events} events"
        )

    should_stop = stop_requested()
    with open_warehouse() as (settings, engine):
        network, named = settings.network, settings.network.chain(ChainId(chain))
        with (
            serve_loop_metrics(settings, follower_metrics(named.id)),
            closing(open_reader(settings, named)) as reader,
        ):
            if isinstance(named, StellarChain):
                # Imported here: it decodes ledgers, and blocks of EVM chains are never quarantined.
                from indexer.ingest.quarantine import retry_untried

                retry_untried(engine, network, named.id)
            follow_chain(
                engine, reader, network, should_stop=should_stop, on_progress=print_progress
            )
    return 0


@click.command()
@operator_command
def attest() -> int:
    """Ask the attestation service about open burns until interrupted."""
    with importing():
        from indexer.config.warehouse import open_warehouse
        from indexer.ingest.attestations import poll_attestations
        from indexer.ingest.services import open_services
        from indexer.loops import stop_requested
        from indexer.metrics.server import serve_loop_metrics

    should_stop = stop_requested()
    print_line("polling for attestations")
    with (
        open_warehouse() as (settings, engine),
        serve_loop_metrics(settings, "ISTHMUS_METRICS_ATTEST"),
        open_services(settings.network) as (iris, scan),
    ):
        poll_attestations(
            engine,
            settings.network,
            iris,
            scan=scan,
            should_stop=should_stop,
            on_progress=print_line,
        )
    return 0


@click.command()
@operator_command
def transfers() -> int:
    """Apply what clients write to transfers, and let them expire, until interrupted."""
    with importing():
        from indexer.config.warehouse import open_warehouse
        from indexer.loops import stop_requested
        from indexer.metrics.server import serve_loop_metrics
        from indexer.transfers.keeper import run_keeper

    should_stop = stop_requested()
    print_line("applying what clients write to transfers")
    with (
        open_warehouse() as (settings, engine),
        serve_loop_metrics(settings, "ISTHMUS_METRICS_TRANSFERS"),
    ):
        run_keeper(engine, settings.network, should_stop=should_stop)
    return 0
