"""An EVM node that proves its chain id before it is asked."""

import math
import time
from collections.abc import Sequence

from indexer.chains.evm.jsonrpc import JsonRpc
from indexer.chains.http.node_pool import NodePool
from indexer.chains.http.operators import http_urls
from indexer.chains.identity import check_evm_node
from indexer.config.networks import EvmChain


class EvmNode(JsonRpc):
    """A `PooledNode` whose chain id holds for `valid_seconds`, or until a call fails."""

    def __init__(
        self,
        chain: EvmChain,
        url: str,
        *,
        timeout: float,
        valid_seconds: float = math.inf,
        max_bytes: int | None = None,
    ) -> None:
        super().__init__(url, timeout=timeout, max_bytes=max_bytes)
        self._chain, self._valid_seconds = chain, valid_seconds
        self._valid_until = 0.0

    def check(self) -> None:
        """Raise `WrongChain` unless the node serves the chain; other errors as `JsonRpc.call`."""
        if time.monotonic() > self._valid_until:
            check_evm_node(self, self._chain)
            self._valid_until = time.monotonic() + self._valid_seconds

    def invalidate(self) -> None:
        """Check again before the next call."""
        self._valid_until = 0.0


def evm_pool(
    chain: EvmChain,
    urls: Sequence[str],
    *,
    timeout: float,
    valid_seconds: float = math.inf,
    max_bytes: int | None = None,
) -> NodePool[EvmNode]:
    """The chain's `http(s)` nodes. Raises `ConfigurationError` without one."""
    return NodePool(
        chain.id,
        [
            EvmNode(chain, url, timeout=timeout, valid_seconds=valid_seconds, max_bytes=max_bytes)
            for url in http_urls(urls)
        ],
    )
