"""Looks whether those who are to be paid on Stellar can be, and says so where they cannot.

No key is needed for it; it is the relay's because what it finds decides what is worth sending.
"""

from collections.abc import Callable
from typing import Protocol

from sqlalchemy import Connection

from indexer.decode.accounts import Trustline
from indexer.networks import StellarChain
from indexer.relay import obstacles
from indexer.relay.account import Turn
from indexer.relay.obstacles import Awaited, Found
from indexer.relay.store import Account
from warehouse_schema.identifiers import AssetId, StellarAddress

AGAIN_SECONDS = 5.0
"""Between two looks at one recipient."""
MOST_AT_ONCE = 20
"""In a turn; those who waited longest for a look first."""
_LOCK = "recipients"


class Trustlines(Protocol):
    """Where trustlines are read (`indexer.chains.stellar_accounts.AccountReader`)."""

    def trustline(self, account: StellarAddress, asset: AssetId) -> Trustline | None:
        """None when there is definitely none; raises what chains raise."""


class Recipients:
    """Looks at the recipients of a chain. One thread's."""

    def __init__(
        self, chain: StellarChain, accounts: Trustlines, clock: Callable[[], float]
    ) -> None:
        """`clock` counts seconds: it paces the looks, and nothing rests on it."""
        self._chain, self._accounts, self._clock = chain, accounts, clock
        self._looked: dict[str, float] = {}
        self.account = Account(chain.id, _LOCK)
        """Not one: the name under which one process of all looks."""

    def turn(self, conn: Connection) -> Turn:
        """Look at whoever is due. Raises what the nodes raise."""
        with conn.begin():
            waiting = obstacles.awaited(conn, self._chain.id)
        self._looked = {each.transfer: self._last(each) for each in waiting}
        before = self._clock() - AGAIN_SECONDS
        due = [each for each in waiting if self._last(each) <= before]
        for each in sorted(due, key=self._last)[:MOST_AT_ONCE]:
            # Before the look: of whom no node will speak goes behind the others all the same.
            self._looked[each.transfer] = self._clock()
            found = self._found(each) if each.waits else None
            if found != each.standing:
                with conn.begin():
                    obstacles.settle(conn, each.transfer, found)
        return Turn()

    def tell_unwell(self, conn: Connection, reason: str) -> None:
        """The account that delivers says so itself, in its own turns."""

    def _last(self, each: Awaited) -> float:
        return self._looked.get(each.transfer, float("-inf"))

    def _found(self, each: Awaited) -> Found | None:
        line = self._accounts.trustline(each.recipient, each.asset)
        code = each.asset.split(":")[1]
        if line is None:
            return Found("no_trustline", f"{each.recipient} has no trustline for {code}")
        if not line.is_authorized:
            return Found(
                "frozen", f"the issuer of {code} has not authorized the trustline of the recipient"
            )
        if line.room < each.amount:
            return Found("no_trustline", f"the trustline for {code} has no room for the amount")
        return None
