"""What contracts of an EVM chain would answer now, asked while somebody waits for it.

One node is asked, the next when it fails. A node's word is enough: what is promised by it is held
by the contract itself (`minAmountLD`, the value of the call). Threads may share it.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from indexer.chains.jsonrpc import JsonRpc
from indexer.errors import (
    ConfigurationError,
    InconsistentAnswer,
    IndexerError,
    NodeUnavailable,
    PermanentChainError,
    RetryableChainError,
    WrongChain,
)
from indexer.networks import EvmChain
from warehouse_schema.identifiers import EvmAddress

logger = logging.getLogger(__name__)

T = TypeVar("T")

REQUEST_SECONDS = 2.0
"""Of each request's pieces; a whole answer may take three times that."""
PATIENCE_SECONDS = 6.0
"""After this no further node is asked."""
VOUCHED_SECONDS = 60.0
"""How long a node that named our chain need not do so again."""


class EvmCalls:
    """Reads from the first node that answers well; it stays the first until it fails."""

    def __init__(
        self, chain: EvmChain, urls: Sequence[str], *, timeout: float = REQUEST_SECONDS
    ) -> None:
        """`timeout` is seconds. Raises `ConfigurationError` without an http URL."""
        urls = [url for url in urls if url.startswith(("http://", "https://"))]
        if not urls:
            raise ConfigurationError(f"{chain.id} needs a node with an http(s) URL")
        self._chain = chain
        self._nodes = tuple(_Vouched(JsonRpc(url, timeout=timeout)) for url in urls)
        self._first = 0

    def call(self, contract: EvmAddress, data: bytes) -> bytes:
        """What a view returns at the head.

        Raises `RetryableChainError`, also when it reverts, or `PermanentChainError` when every node
        is unfit.
        """
        asked = [{"to": contract, "data": f"0x{data.hex()}"}, "latest"]
        return self._asked(lambda node: _bytes(node.call("eth_call", asked), node.host))

    def gas_price(self) -> int:
        """Wei for a unit of gas, as a transaction of now would pay. Raises as `call` does."""
        return self._asked(lambda node: _number(node.call("eth_gasPrice", []), node.host))

    def close(self) -> None:
        """Let go of the connections."""
        for node in self._nodes:
            node.rpc.close()

    def _asked(self, ask: Callable[[JsonRpc], T]) -> T:
        deadline = time.monotonic() + PATIENCE_SECONDS
        first, number = self._first, len(self._nodes)
        failure: IndexerError | None = None
        for turn in [(first + step) % number for step in range(number)]:
            if failure is not None and time.monotonic() > deadline:
                break
            node = self._nodes[turn]
            try:
                self._vouch(node)
                answer = ask(node.rpc)
            except (RetryableChainError, PermanentChainError) as error:
                logger.warning("no answer chain=%s: %s", self._chain.id, error)
                node.until = 0.0
                failure = error
            else:
                self._first = turn
                return answer
        raise failure or NodeUnavailable(f"{self._chain.id} has no node")

    def _vouch(self, node: "_Vouched") -> None:
        if time.monotonic() <= node.until:
            return
        number = _number(node.rpc.call("eth_chainId", []), node.rpc.host)
        if number != self._chain.number:
            raise WrongChain(f"{node.rpc.host} serves eip155:{number}, not {self._chain.id}")
        node.until = time.monotonic() + VOUCHED_SECONDS


class _Vouched:
    """A node, and until when it needs not name its chain anew."""

    def __init__(self, rpc: JsonRpc) -> None:
        self.rpc = rpc
        self.until = 0.0


def _bytes(answer: object, host: str) -> bytes:
    try:
        if not isinstance(answer, str) or not answer.startswith("0x"):
            raise ValueError("no 0x")
        return bytes.fromhex(answer[2:])
    except ValueError as error:
        raise InconsistentAnswer(f"{host}: {answer!r:.80} is no bytes") from error


def _number(answer: object, host: str) -> int:
    try:
        if not isinstance(answer, str) or not answer.startswith("0x"):
            raise ValueError("no 0x")
        return int(answer, 16)
    except ValueError as error:
        raise InconsistentAnswer(f"{host}: {answer!r:.80} is no number") from error
