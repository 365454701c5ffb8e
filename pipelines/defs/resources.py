"""Doors to the warehouse and to the chains. What is behind them belongs to the indexer."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import dagster as dg
from sqlalchemy import Engine

from indexer.chains.attestations import Iris
from indexer.chains.lz_scan import LzScan
from indexer.chains.ports import ChainReader
from indexer.errors import ConfigurationError
from indexer.settings import load_settings
from indexer.warehouse import open_engine
from warehouse_schema.identifiers import ChainId


class Warehouse(dg.ConfigurableResource[Engine]):
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
        settings = load_settings()
        configured = settings.network.chain(chain)
        # Here, not above: the code server evaluates sensors all day and never reads a chain.
        from indexer.readers import open_reader

        reader = open_reader(settings, configured)
        try:
            yield reader
        finally:
            reader.close()


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
