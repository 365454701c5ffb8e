"""Finality: by the node's `safe` and `finalized` tags, or by depth.

A block is final up to the final height, safe up to the safe height, and may be reorganised above
both. Both heights only grow.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from indexer.chains.raw import Block
from indexer.config.networks import Chain
from warehouse_schema.identifiers import Height


@dataclass(frozen=True, slots=True)
class Finality:
    """A node's newest safe and final blocks."""

    safe: Block
    final: Block


@runtime_checkable
class ReportsFinality(Protocol):
    """A reader whose chain may name its final blocks."""

    def finality(self) -> Finality | None:
        """The node's finality now; None where it has no tags and depth has to do.

        Raises the errors of `indexer.errors`.
        """


def final_by_depth(chain: Chain, height: Height) -> Height:
    """The final height by the chain's `confirmations`, when `height` is the newest block read.

    A head that a node only claims makes nothing final.
    """
    return Height(height - chain.confirmations)
