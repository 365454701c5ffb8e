"""The ledgers that a Stellar node has, and what a refused range means by them."""

from collections.abc import Iterator
from contextlib import contextmanager

from indexer.chains.stellar.rpc import RequestRefused, StellarRpc, field
from indexer.errors import (
    InconsistentAnswer,
    NodeBehind,
    NodeUnavailable,
    RangeTooWide,
    RetentionGap,
)
from warehouse_schema.identifiers import ChainId, Height


def ledger_window(node: StellarRpc, chain: ChainId) -> tuple[Height, Height]:
    """Oldest and newest ledger of a healthy node. Raises `NodeUnavailable` for another."""
    health = node.call("getHealth", {})
    if health.get("status") != "healthy":
        raise NodeUnavailable(f"{chain}: the node is {health.get('status')!r}")
    oldest, latest = field(health, "oldestLedger", int), field(health, "latestLedger", int)
    return Height(oldest), Height(latest)


@contextmanager
def range_errors(node: StellarRpc, chain: ChainId, first: Height, last: Height) -> Iterator[None]:
    """Translate a refused request for `first … last` by the ledgers that the node has.

    Raises `RetentionGap`, `NodeBehind` or `InconsistentAnswer`, and `NodeUnavailable` in place of
    `RangeTooWide` for one ledger, which cannot be halved.
    """
    try:
        yield
    except RequestRefused as error:
        oldest, latest = ledger_window(node, chain)
        if first < oldest:
            raise RetentionGap(f"{chain}: {first} is gone, the node has {oldest} on") from error
        if last > latest:
            raise NodeBehind(f"{chain}: the node has {latest}, not {last}") from error
        raise InconsistentAnswer(f"{chain}: {first} to {last} refused: {error}") from error
    except RangeTooWide as error:
        if first < last:
            raise
        raise NodeUnavailable(str(error)) from error
