"""An EVM node that proves its chain id before it is asked."""

import math

from indexer.chains.evm.jsonrpc import JsonRpc
from indexer.chains.http.client import MAX_RESPONSE_BYTES
from indexer.chains.http.node_pool import PooledNode
from indexer.chains.identity import check_evm_node
from indexer.config.networks import EvmChain


class EvmNode(JsonRpc, PooledNode):
    """A node of one chain."""

    def __init__(
        self,
        chain: EvmChain,
        url: str,
        *,
        timeout: float,
        valid_seconds: float = math.inf,
        max_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        super().__init__(url, timeout=timeout, max_bytes=max_bytes)
        self.chain, self.valid_seconds = chain, valid_seconds

    def verify(self) -> None:
        """Raise `WrongChain` unless the node serves the chain; other errors as `JsonRpc.call`."""
        check_evm_node(self, self.chain)
