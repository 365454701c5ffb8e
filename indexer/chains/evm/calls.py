"""What contracts of an EVM chain would answer now, asked while somebody waits for it.

One node is asked, the next when it fails. A node's word is enough: what is promised by it is held
by the contract itself (`minAmountLD`, the value of the call). Threads may share it.
"""

import time
from collections.abc import Sequence

from indexer.chains.evm.jsonrpc import JsonRpc
from indexer.chains.http.failover import REQUEST_SECONDS, NodeFailover
from indexer.chains.http.operators import http_urls
from indexer.chains.identity import check_evm_node
from indexer.config.networks import EvmChain
from indexer.errors import InconsistentAnswer
from warehouse_schema.identifiers import EvmAddress

VOUCHED_SECONDS = 60.0
"""How long a node that named our chain need not do so again."""


class ContractReader:
    """Reads from the first node that answers well; it stays the first until it fails."""

    def __init__(
        self, chain: EvmChain, urls: Sequence[str], *, timeout: float = REQUEST_SECONDS
    ) -> None:
        """`timeout` is seconds. Raises `ConfigurationError` without an http URL."""
        nodes = [_Node(chain, JsonRpc(url, timeout=timeout)) for url in http_urls(urls)]
        self._nodes = NodeFailover(chain.id, nodes)

    def call(self, contract: EvmAddress, data: bytes) -> bytes:
        """What a view returns at the head.

        Raises `RetryableChainError`, also when it reverts, or `PermanentChainError` when every node
        is unfit.
        """
        asked = [{"to": contract, "data": f"0x{data.hex()}"}, "latest"]
        return self._nodes.ask(lambda node: _bytes(node.rpc.call("eth_call", asked), node.host))

    def gas_price(self) -> int:
        """Wei for a unit of gas, as a transaction of now would pay. Raises as `call` does."""
        return self._nodes.ask(lambda node: number(node.rpc.call("eth_gasPrice", []), node.host))

    def close(self) -> None:
        """Let go of the connections."""
        self._nodes.close()


class _Node:
    """A node, and until when it needs not name its chain anew."""

    def __init__(self, chain: EvmChain, rpc: JsonRpc) -> None:
        self.rpc, self.host, self.close = rpc, rpc.host, rpc.close
        self._chain = chain
        self._until = 0.0

    def vouch(self) -> None:
        if time.monotonic() <= self._until:
            return
        check_evm_node(self.rpc, self._chain)
        self._until = time.monotonic() + VOUCHED_SECONDS

    def forget(self) -> None:
        self._until = 0.0


def _bytes(answer: object, host: str) -> bytes:
    try:
        if not isinstance(answer, str) or not answer.startswith("0x"):
            raise ValueError("no 0x")
        return bytes.fromhex(answer[2:])
    except ValueError as error:
        raise InconsistentAnswer(f"{host}: {answer!r:.80} is no bytes") from error


def number(answer: object, host: str) -> int:
    """A number as JSON-RPC writes it. Raises `InconsistentAnswer` for anything else."""
    try:
        if not isinstance(answer, str) or not answer.startswith("0x"):
            raise ValueError("no 0x")
        return int(answer, 16)
    except ValueError as error:
        raise InconsistentAnswer(f"{host}: {answer!r:.80} is no number") from error
