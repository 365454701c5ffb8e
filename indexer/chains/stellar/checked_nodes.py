"""Stellar nodes for reads on request, each checked for network and health.

The "no such account" of a foreign or lagging node would mean nothing. Thread-safe.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from indexer.chains.http.node_pool import PooledNode
from indexer.chains.identity import check_stellar_node
from indexer.chains.stellar.rpc import StellarRpc
from indexer.config.networks import StellarChain
from indexer.errors import InconsistentAnswer, NodeBehind, NodeUnavailable, Undecodable
from warehouse_schema.identifiers import Height

MAX_LEDGERS_BEHIND = 12
"""Instances behind one address differ by a few ledgers; a minute is another state."""


class CheckedStellarNode(StellarRpc, PooledNode):
    """A node with the newest ledger that it reported."""

    valid_seconds = 10.0

    def __init__(self, chain: StellarChain, url: str, timeout: float) -> None:
        super().__init__(url, timeout=timeout)
        self._chain = chain
        self._latest = 0

    def verify(self) -> None:
        """Raise unless it serves our network and is healthy."""
        check_stellar_node(self, self._chain)
        health = self.call("getHealth", {})
        if health.get("status") != "healthy":
            raise NodeUnavailable(f"{self.host} is {health.get('status')!r}")
        self._latest = max(self._latest, _latest_ledger(health))

    def invalidate(self) -> None:
        """Verify again before the next call, and forget the newest ledger."""
        super().invalidate()
        self._latest = 0

    def ledger_of(self, response: Mapping[str, Any]) -> Height:
        """The ledger of a response. Raises `NodeBehind` when it is far behind an earlier one."""
        latest = _latest_ledger(response)
        if latest < self._latest - MAX_LEDGERS_BEHIND:
            newest = self._latest
            self.invalidate()
            raise NodeBehind(f"{self.host}: answers of {latest} after {newest}")
        self._latest = max(self._latest, latest)
        return Height(latest)


@contextmanager
def inconsistent_on_error(host: str) -> Iterator[None]:
    """Turn `ValueError` and `Undecodable` into `InconsistentAnswer`."""
    try:
        yield
    except (ValueError, Undecodable) as error:
        raise InconsistentAnswer(f"{host}: {error}") from error


def _latest_ledger(response: Mapping[str, Any]) -> int:
    latest = response.get("latestLedger")
    if not isinstance(latest, int) or isinstance(latest, bool) or latest < 1:
        raise InconsistentAnswer(f"latestLedger is {latest!r}")
    return latest
