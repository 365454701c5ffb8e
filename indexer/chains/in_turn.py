"""Nodes that are asked one after another while somebody waits: the next when one fails."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from indexer.errors import (
    ConfigurationError,
    IndexerError,
    NodeUnavailable,
    PermanentChainError,
    RetryableChainError,
)
from warehouse_schema.identifiers import ChainId

logger = logging.getLogger(__name__)

REQUEST_SECONDS = 2.0
"""Of each request's pieces; a whole answer may take three times that."""
PATIENCE_SECONDS = 6.0
"""After this no further node is asked."""


class Node(Protocol):
    """A node that shows that it is fit before it is asked, and need not do so each time."""

    @property
    def host(self) -> str:
        """Its name in messages."""

    def vouch(self) -> None:
        """Check that it is fit, unless it was lately. Raises what `Nodes.ask` passes over."""

    def forget(self) -> None:
        """Let it show anew that it is fit."""

    def close(self) -> None:
        """Let go of its connections."""


N = TypeVar("N", bound=Node)
T = TypeVar("T")


class Nodes(Generic[N]):
    """The first node that answers well stays the first until it fails. Threads may share them."""

    def __init__(self, chain: ChainId, nodes: Sequence[N]) -> None:
        """Raises `ConfigurationError` without a node."""
        if not nodes:
            raise ConfigurationError(f"{chain} needs a node with an http(s) URL")
        self._chain, self._nodes = chain, tuple(nodes)
        self._first = 0

    def ask(self, question: Callable[[N], T]) -> T:
        """The first good answer.

        Raises what the last node failed with: `RetryableChainError`, or `PermanentChainError` when
        it is unfit.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        first, number = self._first, len(self._nodes)
        failure: IndexerError | None = None
        for turn in [(first + step) % number for step in range(number)]:
            if failure is not None and time.monotonic() > deadline:
                break
            node = self._nodes[turn]
            try:
                node.vouch()
                answer = question(node)
            except (RetryableChainError, PermanentChainError) as error:
                logger.warning("no answer chain=%s node=%s: %s", self._chain, node.host, error)
                node.forget()
                failure = error
            else:
                self._first = turn
                return answer
        raise failure or NodeUnavailable(f"{self._chain} has no node")

    def close(self) -> None:
        """Let go of the connections."""
        for node in self._nodes:
            node.close()


def over_http(urls: Sequence[str]) -> list[str]:
    """Those of the URLs that take requests; nodes are also known by sockets."""
    return [url for url in urls if url.startswith(("http://", "https://"))]
