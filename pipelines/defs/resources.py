"""Doors to the warehouse and to the chains. What is behind them belongs to the indexer."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg
from sqlalchemy import Engine

from indexer.chains.ports import ChainReader
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
