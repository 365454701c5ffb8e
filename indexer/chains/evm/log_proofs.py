"""Proves that logs are in a block, as the chain's `log_proof` allows (`config.networks.LogProof`).

`receipts`: the logs stand in receipts that give the receipts root of a header that hashes to the
block's hash, and where nodes of two operators are configured, two have that hash at its height.
Where a node gives no receipts, or a type of them is unknown, two operators prove the logs instead.
Otherwise two operators have to have these logs; nodes of one alone prove nothing.
"""

from collections.abc import Collection, Sequence
from typing import Self

from indexer.chains.evm.abi import TRANSFER_TOPIC
from indexer.chains.evm.jsonrpc import MethodNotFound
from indexer.chains.evm.log_filters import EventTopics
from indexer.chains.evm.quorum import Quorum
from indexer.chains.evm.reader import EvmReader
from indexer.chains.http.operators import MIN_OPERATORS, operator_of
from indexer.chains.raw import Block, EvmLog
from indexer.config.networks import EvmChain
from indexer.errors import ConfigurationError, NodeBehind, UnsupportedProtocol

REQUEST_SECONDS = 3.0
"""Timeout of each request's pieces. The follower waits for it between two ranges."""


class LogProver:
    """The nodes of a chain, asked what a block holds. For one thread; it is asked seldom."""

    def __init__(self, chain: EvmChain, urls: Sequence[str], event_topics: EventTopics) -> None:
        self.chain = chain.id
        self._chain = chain
        self._reader = EvmReader(chain, urls, event_topics, timeout=REQUEST_SECONDS)
        operators = {operator_of(url) for url in urls if url.startswith(("http://", "https://"))}
        self._quorum: Quorum | None = None
        if len(operators) >= MIN_OPERATORS:
            self._quorum = Quorum(chain, urls, event_topics, timeout=REQUEST_SECONDS)

    @classmethod
    def for_reader(cls, reader: EvmReader) -> Self:
        """One for the same chain and nodes, with connections of its own."""
        return cls(reader.config, reader.urls, reader.event_topics)

    def missing(self, block: Block, logs: Collection[EvmLog]) -> list[EvmLog]:
        """Which of these logs the block does not hold; none when all of them are proven.

        Raises `RetryableChainError` while the nodes cannot say, `PermanentChainError` when they
        contradict each other, and `ConfigurationError` when the proof needs another operator.
        """
        proven = self._proven(block, logs)
        return [log for log in logs if log not in proven]

    def close(self) -> None:
        """Let go of every connection."""
        self._reader.close()
        if self._quorum is not None:
            self._quorum.close()

    def _proven(self, block: Block, logs: Collection[EvmLog]) -> frozenset[EvmLog]:
        if self._chain.log_proof != "receipts":
            return self._by_operators(block, logs)
        try:
            return self._by_receipts(block)
        except (MethodNotFound, UnsupportedProtocol):
            if self._quorum is None:
                raise
            return self._by_operators(block, logs)

    def _by_receipts(self, block: Block) -> frozenset[EvmLog]:
        if self._quorum is not None:
            _check_same(self._quorum.agreed_block(block.height), block)
        return frozenset(self._reader.logs_of_receipts(block))

    def _by_operators(self, block: Block, logs: Collection[EvmLog]) -> frozenset[EvmLog]:
        if self._quorum is None:
            raise ConfigurationError(
                f"{self._chain.id}: nothing but a second operator's node proves logs here; name one"
            )
        found = self._quorum.agreed_range(block.height, block.height, _recipients(logs))
        _check_same(found.blocks[0], block)
        return frozenset(event for event in found.events if isinstance(event, EvmLog))


def _check_same(named: Block, block: Block) -> None:
    """Nodes that follow another fork, or are behind ours, say nothing about this block."""
    if named != block:
        raise NodeBehind(f"{block.chain}: the nodes have {named.hash} at {block.height}")


def _recipients(logs: Collection[EvmLog]) -> list[str]:
    """Whom the transfers among these logs pay: a node is asked for transfers by recipient."""
    return sorted({f"0x{log.topics[2][-40:]}" for log in logs if log.topics[0] == TRANSFER_TOPIC})
