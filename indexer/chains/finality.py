"""How much of a chain can no longer change: what its nodes say (`safe`, `finalized`), or depth.

A block's state follows from two heights: it is final up to the final height, safe up to the safe
one, and may be taken back above. Both only ever grow.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from indexer.chains.raw import Block
from indexer.config.networks import Chain
from warehouse_schema.identifiers import Height


@dataclass(frozen=True, slots=True)
class Finality:
    """The newest blocks that a node calls safe and final, with their hashes."""

    safe: Block
    final: Block


@runtime_checkable
class ReportsFinality(Protocol):
    """A reader whose chain may name its final blocks."""

    def finality(self) -> Finality | None:
        """What the node says now; None where it has no words for it, and depth has to do.

        Raises the errors of `indexer.errors`.
        """


def final_by_depth(chain: Chain, height: Height) -> Height:
    """The highest block with the chain's confirmations on top, when `height` is the newest read.

    Counts blocks that were read and joined; a head that a node only claims buries nothing.
    """
    return Height(height - chain.confirmations)
