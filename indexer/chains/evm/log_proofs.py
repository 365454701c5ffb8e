"""Proves that logs are in a block, as the chain's `log_proof` allows (`config.networks.LogProof`).

`receipts`: the logs stand in receipts that give the receipts root of a header that hashes to the
block's hash, and where nodes of two operators are configured, two have that hash at its height.
Where a node gives no receipts, or a type of them is unknown, two operators prove the logs instead.
Otherwise two operators have to have these logs; nodes of one alone prove nothing.
"""

from collections.abc import Collection

from indexer.chains.evm.abi import TRANSFER_TOPIC
from indexer.chains.evm.jsonrpc import MethodNotFound
from indexer.chains.evm.quorum import Quorum
from indexer.chains.evm.reader import EvmReader
from indexer.chains.http.operators import MIN_OPERATORS
from indexer.chains.raw import Block, EvmLog
from indexer.errors import ConfigurationError, NodeBehind, UnsupportedProtocol

REQUEST_SECONDS = 3.0
"""Timeout of each request's pieces. The follower waits for it between two ranges."""


class LogProver:
    """Proves logs by the nodes of a reader, with connections of its own. For one thread."""

    def __init__(self, reader: EvmReader) -> None:
        self.chain, self._chain = reader.chain, reader.config
        nodes = (reader.config, reader.urls, reader.event_topics)
        self._reader = EvmReader(*nodes, timeout=REQUEST_SECONDS)
        self._quorum: Quorum | None = None
        if self._reader.nodes.needed >= MIN_OPERATORS:
            self._quorum = Quorum(*nodes, timeout=REQUEST_SECONDS)

    def missing(self, block: Block, logs: Collection[EvmLog]) -> list[EvmLog]:
        """The logs that the block does not hold; none when all of them are proven.

        Raises `RetryableChainError` while the nodes cannot tell, `PermanentChainError` when they
        contradict each other, and `ConfigurationError` when the proof needs another operator.
        """
        proven: Collection[EvmLog]
        try:
            if self._chain.log_proof != "receipts":
                proven = self._by_operators(block, logs)
            else:
                if self._quorum is not None:
                    _check_same(self._quorum.agreed_block(block.height), block)
                proven = frozenset(self._reader.logs_of_receipts(block))
        except (MethodNotFound, UnsupportedProtocol):
            if self._chain.log_proof != "receipts" or self._quorum is None:
                raise
            proven = self._by_operators(block, logs)
        return [log for log in logs if log not in proven]

    def close(self) -> None:
        """Close every connection."""
        self._reader.close()
        if self._quorum is not None:
            self._quorum.close()

    def _by_operators(self, block: Block, logs: Collection[EvmLog]) -> frozenset[EvmLog]:
        if self._quorum is None:
            raise ConfigurationError(
                f"{self._chain.id}: nothing but a second operator's node proves logs here; name one"
            )
        # A node is asked for transfers by their recipients.
        recipients = sorted(
            {f"0x{log.topics[2][-40:]}" for log in logs if log.topics[0] == TRANSFER_TOPIC}
        )
        found = self._quorum.agreed_range(block.height, block.height, recipients)
        _check_same(found.blocks[0], block)
        return frozenset(event for event in found.events if isinstance(event, EvmLog))


def _check_same(found: Block, block: Block) -> None:
    """Raise `NodeBehind` for nodes on another fork or behind ours: they prove nothing here."""
    if found != block:
        raise NodeBehind(f"{block.chain}: the nodes have {found.hash} at {block.height}")
