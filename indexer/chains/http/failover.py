"""Nodes that are asked one after another: the next when one fails, or each of them."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from indexer.chains.http.operators import MIN_OPERATORS, operator_of
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
REST_SECONDS = 30.0
"""How long a node that failed is left out where each is asked: a dead one would slow all down."""


class CheckedNode(Protocol):
    """A node that shows that it is fit before it is asked, and need not do so each time."""

    @property
    def host(self) -> str:
        """Its name in messages."""

    def vouch(self) -> None:
        """Check that it is fit, unless it was lately. Raises what `ask` passes over."""

    def forget(self) -> None:
        """Let it show anew that it is fit."""

    def close(self) -> None:
        """Let go of its connections."""


N = TypeVar("N", bound=CheckedNode)
T = TypeVar("T")


class NodeFailover(Generic[N]):
    """The first node that answers well stays the first until it fails. Threads may share them."""

    def __init__(self, chain: ChainId, nodes: Sequence[N]) -> None:
        """Raises `ConfigurationError` without a node."""
        if not nodes:
            raise ConfigurationError(f"{chain} needs a node with an http(s) URL")
        self._chain, self._nodes = chain, tuple(nodes)
        self._first = 0
        self._rests_until: dict[int, float] = {}

    @property
    def needed(self) -> int:
        """Operators that have to say the same where one's word is too little: two, if there are."""
        return min(MIN_OPERATORS, len({_operator(node) for node in self._nodes}))

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

    def ask_each(self, question: Callable[[N], T]) -> list[tuple[str, T]]:
        """What every node says that answers well, each with its operator.

        Who failed lately is not asked unless all did. Raises as `ask` does when none answers.
        """
        now = time.monotonic()
        turns = range(len(self._nodes))
        awake = [turn for turn in turns if self._rests_until.get(turn, now) <= now]
        said: list[tuple[str, T]] = []
        failure: IndexerError | None = None
        for turn in awake or turns:
            node = self._nodes[turn]
            try:
                node.vouch()
                said.append((_operator(node), question(node)))
            except (RetryableChainError, PermanentChainError) as error:
                logger.warning("no answer chain=%s node=%s: %s", self._chain, node.host, error)
                node.forget()
                self._rests_until[turn] = time.monotonic() + REST_SECONDS
                failure = error
        if not said:
            raise failure or NodeUnavailable(f"{self._chain} has no node")
        return said

    def close(self) -> None:
        """Let go of the connections."""
        for node in self._nodes:
            node.close()


def _operator(node: CheckedNode) -> str:
    return operator_of(f"//{node.host}")
