"""Node pool of one chain: failover, fan-out and quorum."""

import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from indexer.chains.http.operators import MIN_OPERATORS, operator_of, require_operators
from indexer.config.networks import rpc_variable
from indexer.errors import (
    ConfigurationError,
    IndexerError,
    NodeBehind,
    NodeUnavailable,
    PermanentChainError,
    RangeTooWide,
    RetryableChainError,
    WrongChain,
)
from indexer.metrics.catalogue import NODE_FAILURES
from indexer.metrics.collectors import count
from warehouse_schema.identifiers import ChainId

logger = logging.getLogger(__name__)

REQUEST_SECONDS = 2.0
"""Timeout of each piece of a request that a client waits for; a whole response may take three."""
FAILOVER_SECONDS = 6.0
"""`NodePool.failover` asks no further node after this."""
FAN_OUT_PAUSE_SECONDS = 30.0
"""A node that failed is left out of fan-outs for this long: a dead one would delay each of them."""


class PooledNode(ABC):
    """A node whose identity and health are checked before it is asked."""

    host: str
    """Host and port, without credentials."""
    counted_as: tuple[str, str] | None = None
    """Chain and place in the pool, for metrics."""
    valid_seconds = math.inf
    """Time for which a check holds, unless a call fails."""
    _valid_until = 0.0

    def check(self) -> None:
        """`verify` the node, unless it was verified lately."""
        if time.monotonic() > self._valid_until:
            self.verify()
            self._valid_until = time.monotonic() + self.valid_seconds

    def invalidate(self) -> None:
        """Verify again before the next call."""
        self._valid_until = 0.0

    @abstractmethod
    def verify(self) -> None:
        """Raise unless the node serves its chain and is healthy."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""


N = TypeVar("N", bound=PooledNode)
T = TypeVar("T")


def require_node(found: T | None, chain: ChainId, error: type[IndexerError] = NodeUnavailable) -> T:
    """What was configured or opened for a chain. Raises an error that names the variable."""
    if not found:
        raise error(f"{chain} has no node: set {rpc_variable(chain)}")
    return found


class NodePool(Generic[N]):
    """Nodes of one chain, in configured order. The current node stays current until it fails.

    Threads may share a pool, except for `failover_on_permanent`, which removes nodes.
    """

    def __init__(self, chain: ChainId, nodes: Sequence[N]) -> None:
        """Raises `ConfigurationError` without a node."""
        if not nodes:
            raise ConfigurationError(f"{chain} needs a node with an http(s) URL")
        self.nodes = list(nodes)
        self.needed = min(MIN_OPERATORS, len({_operator(node) for node in nodes}))
        """Operators that must agree where one is too few: two, if nodes of two are configured."""
        self._chain = chain
        for place, node in enumerate(nodes):
            node.counted_as = (chain, str(place))
        self._current = 0
        self._paused_until: dict[N, float] = {}

    @property
    def current(self) -> N:
        """The node that is asked first, or is being asked."""
        return self.nodes[self._current]

    def end_turn(self, node: N) -> None:
        """Make the next node current, if this one is."""
        if self.current is node:
            self._current = (self._current + 1) % len(self.nodes)

    def failover(self, ask: Callable[[N], T]) -> T:
        """First good answer, for a caller that waits: any chain error passes to the next node.

        A node that failed, however it did, is checked again before its next answer counts. Raises
        the last node's `RetryableChainError` or `PermanentChainError`.
        """
        passed = (RetryableChainError, PermanentChainError)
        return self._failover(ask, passed, time.monotonic() + FAILOVER_SECONDS, removes=False)

    def failover_on_permanent(self, ask: Callable[[N], T], *refusals: type[IndexerError]) -> T:
        """First good answer, for a caller that retries with its own backoff.

        `PermanentChainError` or one of `refusals` is raised once every node has raised one.
        A retryable error ends the node's turn and is raised at once, except `RangeTooWide`, which
        is the caller's fault. A node of another chain is removed for good, unless it is the last.
        """
        return self._failover(ask, (PermanentChainError, *refusals), math.inf, removes=True)

    def _failover(
        self,
        ask: Callable[[N], T],
        passed: tuple[type[IndexerError], ...],
        deadline: float,
        *,
        removes: bool,
    ) -> T:
        caught: tuple[type[IndexerError], ...] = (RetryableChainError, *passed)
        failure: IndexerError | None = None
        first = self._current
        for node in [*self.nodes[first:], *self.nodes[:first]]:
            if failure is not None and time.monotonic() > deadline:
                break
            try:
                node.check()
                return ask(node)
            except caught as error:
                if isinstance(error, WrongChain) and removes and len(self.nodes) > 1:
                    logger.error("node removed chain=%s: %s", self._chain, error)
                    _count_failure(node, error)
                    self.nodes.remove(node)
                    self._current %= len(self.nodes)
                    node.close()
                    continue
                is_passed = isinstance(error, passed)
                if isinstance(error, RangeTooWide) and not is_passed:
                    raise
                self._note_failure(node, error)
                if not removes:
                    node.invalidate()
                self.end_turn(node)
                if not is_passed:
                    raise
                failure = error
        raise failure or NodeUnavailable(f"{self._chain} has no node")

    def fan_out(self, ask: Callable[[N], T]) -> list[tuple[str, T]]:
        """(operator, answer) of every node that answers well.

        Nodes that failed lately are left out unless all did. Raises as `failover` does when no node
        answers.
        """
        now = time.monotonic()
        ready = [node for node in self.nodes if self._paused_until.get(node, now) <= now]
        answers: list[tuple[str, T]] = []
        failure: IndexerError | None = None
        for node in ready or self.nodes:
            try:
                node.check()
                answers.append((_operator(node), ask(node)))
            except (RetryableChainError, PermanentChainError) as error:
                self._note_failure(node, error)
                node.invalidate()
                self._paused_until[node] = time.monotonic() + FAN_OUT_PAUSE_SECONDS
                failure = error
        if not answers:
            raise failure or NodeUnavailable(f"{self._chain} has no node")
        return answers

    def quorum(self, about: str, ask: Callable[[N], T | None], needed: int) -> list[tuple[str, T]]:
        """(operator, answer) of every node that has one, of at least `needed` operators.

        Raises `NotEnoughSources`, and at once what is permanent for any node, as `WrongChain`.
        """
        answers: list[tuple[str, T]] = []
        reasons: list[str] = []
        for node in self.nodes:
            try:
                node.check()
                answer = ask(node)
            except RetryableChainError as error:
                self._note_failure(node, error)
                reasons.append(str(error))
                continue
            if answer is None:
                reasons.append(f"{_operator(node)} knows nothing of it")
            else:
                answers.append((_operator(node), answer))
        require_operators(f"{self._chain}: {about}", answers, needed, reasons)
        return answers

    def close(self) -> None:
        """Close the connections of every node."""
        for node in self.nodes:
            node.close()

    def _note_failure(self, node: N, error: IndexerError) -> None:
        # At the head, a node a block behind is routine.
        level = logging.DEBUG if isinstance(error, NodeBehind) else logging.WARNING
        logger.log(level, "no answer chain=%s node=%s: %s", self._chain, node.host, error)
        _count_failure(node, error)
        # These two say nothing about which chain the address serves; after any other failure,
        # whatever answers there has to prove it again.
        if not isinstance(error, NodeBehind | PermanentChainError):
            node.invalidate()


def _count_failure(node: PooledNode, error: IndexerError) -> None:
    if node.counted_as is not None:
        count(NODE_FAILURES, *node.counted_as, type(error).__name__)


def _operator(node: PooledNode) -> str:
    return operator_of(f"//{node.host}")
