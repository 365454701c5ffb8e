"""Quorum of an EVM chain's nodes, for what cannot be undone.

A follower asks one node and falls back on another: enough to show, too little to pay on. A node can
serve a forged block to us alone, and its operator may silence the honest nodes, so that failover
lands on the forger. Here every node is asked:

- fewer operators than needed, for any reason, is no answer: `NotEnoughSources`;
- one contradiction is no answer, however many agree: `SourcesDisagree`;
- nodes of one operator count as one.

Ask about blocks that are final, or as final as the step needs: at the head, honest nodes differ.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from indexer.chains.evm.log_filters import EventTopics
from indexer.chains.evm.node import EvmNode
from indexer.chains.evm.reader import EvmReader
from indexer.chains.evm.responses import EvmReceipt
from indexer.chains.http.operators import MIN_OPERATORS, agreed, http_urls, operator_of
from indexer.chains.ports import Block, Range
from indexer.chains.watchlist import Watched
from indexer.config.networks import EvmChain
from indexer.errors import ConfigurationError
from warehouse_schema.identifiers import Height, TxHash

T = TypeVar("T")


class Quorum:
    """The nodes of a chain, all of which must agree. For one thread.

    Raises `ConfigurationError` when the `http(s)` URLs have fewer operators than `needed`. The
    other settings are those of `EvmReader`. Every method raises `NotEnoughSources`,
    `SourcesDisagree` and `WrongChain`.
    """

    def __init__(
        self,
        chain: EvmChain,
        urls: Sequence[str],
        event_topics: EventTopics,
        *,
        needed: int = MIN_OPERATORS,
        timeout: float = 10.0,
    ) -> None:
        self.chain = chain.id
        self._needed = needed
        operators = {operator_of(url) for url in http_urls(urls)}
        if not 1 <= needed <= len(operators):
            raise ConfigurationError(
                f"{chain.id} needs nodes of {needed} independent operators, has"
                f" {', '.join(sorted(operators)) or 'none'}"
            )
        self._reader = EvmReader(chain, http_urls(urls), event_topics, timeout=timeout)

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()

    def agreed_block(self, height: Height) -> Block:
        """The block at a height of the chain that all nodes follow."""
        return self._agreed(
            f"block {height}", lambda node: self._reader.header_from(node, height).block
        )

    def agreed_range(self, first: Height, last: Height, watched: Watched) -> Range:
        """Blocks and logs of `first … last`: same hashes, and same logs in the same order."""
        return self._agreed(
            f"blocks {first} to {last}",
            lambda node: self._reader.range_from(node, first, last, watched),
        )

    def receipt_if_mined(self, tx: TxHash) -> EvmReceipt | None:
        """Proven receipt of a transaction; None while too few operators' nodes have it."""
        about = f"the receipt of {tx}"
        answers = self._reader.nodes.quorum(
            about, lambda node: (self._reader.proven_receipt_from(node, tx),), self._needed
        )
        known = [(operator, receipt) for operator, (receipt,) in answers if receipt is not None]
        if len({operator for operator, _ in known}) < self._needed:
            return None
        return agreed(f"{self.chain}: {about}", known, self._needed)

    def _agreed(self, about: str, ask: Callable[[EvmNode], T]) -> T:
        answers = self._reader.nodes.quorum(about, ask, self._needed)
        return agreed(f"{self.chain}: {about}", answers, self._needed)
