"""Dagster resources: the warehouse, the chains' nodes, attestation services."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import ClassVar

import dagster as dg
from sqlalchemy import Engine

from indexer.chains.ports import ChainReader
from indexer.chains.services.circle import Iris
from indexer.chains.services.layerzero_scan import LzScan
from indexer.config.networks import Chain
from indexer.config.settings import Settings, load_settings
from indexer.config.warehouse import kept_engine, open_warehouse
from warehouse_schema.engine import Role
from warehouse_schema.identifiers import ChainId


class WarehouseResource(dg.ConfigurableResource[Engine]):
    """The warehouse that the environment names, as the indexer's role."""

    role: ClassVar[Role] = "indexer"
    pool_size: ClassVar[int] = 5

    @contextmanager
    def engine(self) -> Iterator[Engine]:
        """An engine while the block runs."""
        with open_warehouse(self.role, pool_size=self.pool_size) as (_, engine):
            yield engine

    @contextmanager
    def kept_engine(self) -> Iterator[Engine]:
        """The process's engine, for sensors: it is kept for their next ticks."""
        with kept_engine(self.role) as engine:
            yield engine


class ChainNodes(dg.ConfigurableResource[ChainReader]):
    """The nodes of the chains, as the environment and the network file name them."""

    @contextmanager
    def reader(self, chain: ChainId) -> Iterator[ChainReader]:
        """A reader of one chain while the block runs."""
        # Imported here: the code server evaluates sensors all day and never reads a chain.
        from indexer.ingest.readers import open_reader

        with _reader_from(open_reader, chain) as reader:
            yield reader

    @contextmanager
    def history(self, chain: ChainId) -> Iterator[ChainReader]:
        """A reader of one chain's history, from the source with the best proof."""
        from indexer.ingest.readers import open_history

        with _reader_from(open_history, chain) as reader:
            yield reader


@contextmanager
def _reader_from(
    open_it: Callable[[Settings, Chain], ChainReader], chain: ChainId
) -> Iterator[ChainReader]:
    settings = load_settings()
    with closing(open_it(settings, settings.network.chain(chain))) as reader:
        yield reader


class AttestationServices(dg.ConfigurableResource[Iris]):
    """The attestation services that the network file names."""

    @contextmanager
    def services(self) -> Iterator[tuple[Iris, LzScan | None]]:
        """Circle's service, and LayerZero's explorer if one is named, while the block runs."""
        from indexer.ingest.services import open_services

        with open_services(load_settings().network) as services:
            yield services
