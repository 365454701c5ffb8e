"""Several nodes of one chain, one of which is asked: whose turn it is, and who is believed.

What one node says is that node's word. It may end its own turn; it ends the chain only when every
other node says the like.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeVar

from indexer.errors import PermanentChainError, WrongChain

logger = logging.getLogger(__name__)


class NamedNode(Protocol):
    """What is asked, under a name that a message may give."""

    host: str

    def close(self) -> None:
        """Let go of the connections."""


N = TypeVar("N", bound=NamedNode)
T = TypeVar("T")


def turn_from(nodes: deque[N], node: N) -> None:
    """Make it the next one's turn, if it is still that node's."""
    if nodes[0] is node:
        nodes.rotate(-1)


def node_of_chain(nodes: deque[N], identify: Callable[[N], None]) -> N:
    """The first node that serves our chain; those before it that do not are dropped for good.

    Raises `WrongChain` when the last one left is another chain's.
    """
    while True:
        try:
            identify(nodes[0])
        except WrongChain as error:
            if len(nodes) == 1:
                raise
            nodes.popleft().close()
            logger.error("node dropped: %s", error)
        else:
            return nodes[0]


def asked_of_all(nodes: deque[N], ask: Callable[[], T], *refusals: type[Exception]) -> T:
    """What `ask` gets from the node whose turn it is, or from one after it.

    `PermanentChainError` or one of `refusals` is raised when all of them say so, in this one round;
    other errors at once.
    """
    passed: tuple[type[Exception], ...] = (PermanentChainError, *refusals)
    for _ in range(len(nodes) - 1):
        node = nodes[0]
        try:
            return ask()
        except passed as error:
            logger.warning("asking the next node after=%s: %s", node.host, error)
            turn_from(nodes, node)
    return ask()
