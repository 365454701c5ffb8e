"""Calls of contracts on an EVM chain at the head, for a client that waits.

One node's answer is enough: the contract itself enforces what is promised by it (`minAmountLD`, the
value of the call).
"""

from collections.abc import Sequence
from typing import Any

from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError

from indexer.chains.evm.jsonrpc import parse_bytes, parse_quantity
from indexer.chains.evm.node import EvmNode
from indexer.chains.http.node_pool import REQUEST_SECONDS, NodePool
from indexer.chains.http.operators import http_urls
from indexer.config.networks import EvmChain
from indexer.errors import InconsistentAnswer
from warehouse_schema.identifiers import EvmAddress, Wei

IDENTITY_VALID_SECONDS = 60.0
"""A node that named our chain id is not asked for it again within this time."""


class ContractReader:
    """Calls contracts with failover between nodes. Threads may share it."""

    def __init__(
        self, chain: EvmChain, urls: Sequence[str], *, timeout: float = REQUEST_SECONDS
    ) -> None:
        """`timeout` is seconds. Raises `ConfigurationError` without an http URL."""
        nodes = [
            EvmNode(chain, url, timeout=timeout, valid_seconds=IDENTITY_VALID_SECONDS)
            for url in http_urls(urls)
        ]
        self._nodes = NodePool(chain.id, nodes)

    def close(self) -> None:
        """Close the connections."""
        self._nodes.close()

    def call(self, contract: EvmAddress, data: bytes) -> bytes:
        """What a view returns at the head.

        Raises `RetryableChainError`, also when it reverts, or `PermanentChainError` when every node
        is unfit.
        """
        params = [{"to": contract, "data": f"0x{data.hex()}"}, "latest"]
        return self._nodes.failover(
            lambda node: parse_bytes(node.call("eth_call", params), node.host)
        )

    def read(self, contract: EvmAddress, data: bytes, kinds: Sequence[str]) -> tuple[Any, ...]:
        """The values of these ABI types that a view returns. Raises as `call` does."""
        answer = self.call(contract, data)
        try:
            return decode(kinds, answer)
        except (DecodingError, UnicodeDecodeError, OverflowError) as error:
            raise InconsistentAnswer(
                f"{contract} does not answer with {', '.join(kinds)}"
            ) from error

    def gas_price(self) -> Wei:
        """Wei for a unit of gas, as a transaction of now would pay. Raises as `call` does."""
        return self._nodes.failover(
            lambda node: Wei(parse_quantity(node.call("eth_gasPrice", []), node.host))
        )
