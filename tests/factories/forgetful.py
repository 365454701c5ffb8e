"""A reader that leaves out what it should give, as a node may without contradicting itself."""

from dataclasses import replace

from indexer.chains.ports import Block, ChainReader, Range
from indexer.chains.raw import StellarEvent
from indexer.chains.watchlist import Watched
from tests.factories.stellar_lake import DEVNET
from warehouse_schema.identifiers import Height


class Forgetful:
    """A reader that leaves out our events of some ledgers, as a node may."""

    def __init__(self, reader: ChainReader, *heights: Height) -> None:
        self.chain = reader.chain
        self._reader = reader
        self.leaves_out = set(heights)

    def read(self, first: Height, last: Height, watched: Watched) -> Range:
        found = self._reader.read(first, last, watched)
        return replace(found, events=tuple(filter(self._is_given, found.events)))

    def _is_given(self, event: object) -> bool:
        assert isinstance(event, StellarEvent)
        is_of_book = event.contract in (DEVNET.escrow, DEVNET.rail_terms)
        return event.seen.height not in self.leaves_out or not is_of_book

    def head(self) -> Block:
        return self._reader.head()

    def block(self, height: Height) -> Block:
        return self._reader.block(height)

    def check_identity(self) -> None:
        self._reader.check_identity()

    def wait_for_head(self, above: Height, timeout: float) -> Block | None:
        return self._reader.wait_for_head(above, timeout)

    def close(self) -> None:
        """What it reads through is its owner's to close."""
