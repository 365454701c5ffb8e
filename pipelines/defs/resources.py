"""Doors to the warehouse and to the chains. What is behind them belongs to the indexer."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager

import dagster as dg
from sqlalchemy import Engine

from indexer.chains.ports import ChainReader
from indexer.chains.services.circle import Iris
from indexer.chains.services.layerzero_scan import LzScan
from indexer.config.networks import Chain
from indexer.config.settings import Settings, load_settings
from indexer.config.warehouse import open_engine
from indexer.errors import ConfigurationError
from warehouse_schema.identifiers import ChainId


class WarehouseResource(dg.ConfigurableResource[Engine]):
    """The warehouse, as the indexer's role. Where it is, the environment says."""

    @contextmanager
    def engine(self) -> Iterator[Engine]:
        """An engine for as long as the block runs."""
        engine = open_engine(load_settings(), "indexer")
        try:
            yield engine
        finally:
            engine.dispose()


class ChainNodes(dg.ConfigurableResource[ChainReader]):
    """The nodes of the chains, as the environment and the network file name them."""

    @contextmanager
    def reader(self, chain: ChainId) -> Iterator[ChainReader]:
        """A reader of one chain for as long as the block runs."""
        # Here, not above: the code server evaluates sensors all day and never reads a chain.
        from indexer.ingest.readers import open_reader

        with _opened(open_reader, chain) as reader:
            yield reader

    @contextmanager
    def history(self, chain: ChainId) -> Iterator[ChainReader]:
        """A reader of what one chain said before, from whatever proves it best."""
        from indexer.ingest.readers import open_history

        with _opened(open_history, chain) as reader:
            yield reader


@contextmanager
def _opened(
    opens: Callable[[Settings, Chain], ChainReader], chain: ChainId
) -> Iterator[ChainReader]:
    settings = load_settings()
    with closing(opens(settings, settings.network.chain(chain))) as reader:
        yield reader


class AttestationServices(dg.ConfigurableResource[Iris]):
    """Services that say whether a message is attested, as the network file names them."""

    @contextmanager
    def services(self) -> Iterator[tuple[Iris, LzScan | None]]:
        """Circle's service, and LayerZero's explorer if one is named, while the block runs."""
        network = load_settings().network
        if network.iris is None:
            raise ConfigurationError(f"{network.name} names no attestation service (`iris`)")
        with closing(Iris(network.iris)) as iris, ExitStack() as doors:
            scan = None
            if network.lz_scan is not None:
                scan = doors.enter_context(closing(LzScan(network.lz_scan)))
            yield iris, scan
