"""`isthmus follow`, `attest` and `transfers`: processes that run until they are interrupted."""

from indexer.chains.services.circle import Iris
from indexer.chains.services.layerzero_scan import LzScan
from indexer.config.settings import load_settings
from indexer.config.warehouse import open_engine
from indexer.errors import ConfigurationError
from indexer.ingest.attestations import poll_attestations
from indexer.ingest.follow import follow
from indexer.ingest.quarantine import retry_untried
from indexer.ingest.ranges import RangeProgress
from indexer.ingest.readers import open_reader
from indexer.loops import stop_requested
from indexer.transfers.keeper import run_keeper
from warehouse_schema.identifiers import ChainId


def follow_chain(chain_id: str) -> int:
    """Follow one chain."""
    settings = load_settings()
    should_stop = stop_requested()
    chain = settings.network.chain(ChainId(chain_id))
    reader = open_reader(settings, chain)
    engine = open_engine(settings, "indexer")
    try:
        retry_untried(engine, settings.network, chain.id)
        follow(
            engine, reader, settings.network, should_stop=should_stop, on_progress=_print_progress
        )
    finally:
        reader.close()
        engine.dispose()
    return 0


def attest() -> int:
    """Ask the attestation service about open burns."""
    settings = load_settings()
    network = settings.network
    if network.iris is None:
        raise ConfigurationError(f"{network.name} names no attestation service (`iris`)")
    should_stop = stop_requested()
    iris = Iris(network.iris)
    scan = None if network.lz_scan is None else LzScan(network.lz_scan)
    engine = open_engine(settings, "indexer")
    try:
        poll_attestations(
            engine,
            network,
            iris,
            scan=scan,
            should_stop=should_stop,
            on_progress=lambda progress: print(progress, flush=True),
        )
    finally:
        iris.close()
        if scan is not None:
            scan.close()
        engine.dispose()
    return 0


def keep_transfers() -> int:
    """Fold what clients write into transfers, and let them expire."""
    settings = load_settings()
    should_stop = stop_requested()
    engine = open_engine(settings, "indexer")
    try:
        run_keeper(engine, settings.network, should_stop=should_stop)
    finally:
        engine.dispose()
    return 0


def _print_progress(progress: RangeProgress) -> None:
    print(
        f"{progress.chain} at {progress.height}, {progress.lag_blocks} blocks and "
        f"{progress.lag_seconds} s behind, {progress.events} events",
        flush=True,
    )
