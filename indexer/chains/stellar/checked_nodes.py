"""Stellar nodes that are asked while somebody waits: each shows first that it is fit.

A node of another network, or one that has fallen behind, would say "no such account" and mean
nothing by it. Threads may share them.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from indexer.chains.http.node_pool import NodePool
from indexer.chains.http.operators import http_urls
from indexer.chains.identity import check_stellar_node
from indexer.chains.stellar.rpc import StellarRpc
from indexer.config.networks import StellarChain
from indexer.errors import InconsistentAnswer, NodeBehind, NodeUnavailable, Undecodable
from warehouse_schema.identifiers import Height

CHECKED_SECONDS = 10.0
"""How long a node that served our network and was well needs not say so again."""
MAX_LEDGERS_BEHIND = 12
"""Instances behind one address may differ by some; about a minute is no longer the same state."""


class CheckedStellarNode:
    """A node, until when it needs not show anew that it is fit, and the newest ledger it told."""

    def __init__(self, chain: StellarChain, rpc: StellarRpc) -> None:
        self.rpc, self.host, self.close = rpc, rpc.host, rpc.close
        self._chain = chain
        self._until, self._latest = 0.0, 0

    def check(self) -> None:
        """Check that it serves our network and is well: else its "no such account" is empty."""
        if time.monotonic() <= self._until:
            return
        check_stellar_node(self.rpc, self._chain)
        health = self.rpc.call("getHealth", {})
        if health.get("status") != "healthy":
            raise NodeUnavailable(f"{self.host} is {health.get('status')!r}")
        self._latest = max(self._latest, _ledger(health))
        self._until = time.monotonic() + CHECKED_SECONDS

    def invalidate(self) -> None:
        """Let it show anew that it is fit."""
        self._until, self._latest = 0.0, 0

    def told(self, answer: Mapping[str, Any]) -> Height:
        """The ledger as of which it answered. Raises `NodeBehind` for one long gone."""
        latest = _ledger(answer)
        if latest < self._latest - MAX_LEDGERS_BEHIND:
            newest = self._latest
            self.invalidate()
            raise NodeBehind(f"{self.host}: answers of {latest} after {newest}")
        self._latest = max(self._latest, latest)
        return Height(latest)


def open_nodes(
    chain: StellarChain, urls: Sequence[str], timeout: float
) -> NodePool[CheckedStellarNode]:
    """`timeout` is seconds. Raises `ConfigurationError` without an http URL."""
    nodes = [CheckedStellarNode(chain, StellarRpc(url, timeout=timeout)) for url in http_urls(urls)]
    return NodePool(chain.id, nodes)


@contextmanager
def inconsistent_on_error(host: str) -> Iterator[None]:
    """What cannot be read in here is an answer that contradicts itself."""
    try:
        yield
    except (ValueError, Undecodable) as error:
        raise InconsistentAnswer(f"{host}: {error}") from error


def _ledger(answer: Mapping[str, Any]) -> int:
    latest = answer.get("latestLedger")
    if not isinstance(latest, int) or isinstance(latest, bool) or latest < 1:
        raise InconsistentAnswer(f"latestLedger is {latest!r}")
    return latest
