"""Looks whether those who are to be paid can be, and says so where they cannot.

No key is needed for it; it is the relay's because what it finds decides what is worth sending.
"""

from collections.abc import Callable
from typing import Protocol

from sqlalchemy import Connection

from indexer.actions.mint_check import EvmView, mint_refusal
from indexer.actions.stellar_pause import StellarView, cctp_pause
from indexer.chains.stellar.xdr.ledger_entries import Trustline
from indexer.config.networks import EvmChain, StellarChain
from relay.jobs import obstacles
from relay.jobs.obstacles import AwaitedRecipient, PaymentObstacle
from relay.store import AccountId
from warehouse_schema.identifiers import AssetId, ChainId, EvmAddress, StellarAddress

RECHECK_SECONDS = 5.0
"""Between two looks at one recipient."""
MAX_PER_TURN = 20
"""In a turn; those who waited longest for a look first."""
_LOCK = "recipients"


class Trustlines(Protocol):
    """Where trustlines are read (`indexer.chains.stellar.accounts.AccountReader`)."""

    def trustline(self, account: StellarAddress, asset: AssetId) -> Trustline | None:
        """None when there is definitely none; raises what chains raise."""


class Recipients:
    """Looks at the recipients of a chain. One thread's."""

    def __init__(
        self,
        chain: ChainId,
        look: Callable[[AwaitedRecipient], PaymentObstacle | None],
        clock: Callable[[], float],
    ) -> None:
        """`look` says why somebody cannot be paid (`trustline_look`, `mint_look`), and raises what
        nodes raise. `clock` counts seconds: it paces the looks, and nothing rests on it."""
        self._chain, self._look, self._clock = chain, look, clock
        self._looked: dict[str, float] = {}
        self.account = AccountId(chain, _LOCK)
        """Not one: the name under which one process of all looks."""

    def turn(self, conn: Connection) -> None:
        """Look at whoever is due. Raises what the nodes raise."""
        with conn.begin():
            waiting = obstacles.awaited_recipients(conn, self._chain)
        self._looked = {each.transfer: self._last(each) for each in waiting}
        before = self._clock() - RECHECK_SECONDS
        due = [each for each in waiting if self._last(each) <= before]
        for each in sorted(due, key=self._last)[:MAX_PER_TURN]:
            # Before the look: of whom no node will speak goes behind the others all the same.
            self._looked[each.transfer] = self._clock()
            found = self._look(each) if each.waits else None
            if found != each.standing:
                with conn.begin():
                    obstacles.replace_obstacle(conn, each.transfer, found)

    def tell_unwell(self, conn: Connection, reason: str) -> None:
        """The account that delivers says so itself, in its own turns."""

    def _last(self, each: AwaitedRecipient) -> float:
        return self._looked.get(each.transfer, float("-inf"))


def trustline_check(
    chain: StellarChain, accounts: Trustlines, view: StellarView
) -> Callable[[AwaitedRecipient], PaymentObstacle | None]:
    """Why the holder of a trustline on Stellar cannot be paid: USDC is minted by CCTP alone."""

    def look(each: AwaitedRecipient) -> PaymentObstacle | None:
        line = accounts.trustline(StellarAddress(each.recipient), each.asset)
        code = each.asset.split(":")[1]
        if line is None:
            return PaymentObstacle("no_trustline", f"{each.recipient} has no trustline for {code}")
        if not line.is_authorized:
            return PaymentObstacle(
                "frozen",
                f"the issuer of {code} has not authorized the trustline of the recipient",
            )
        if line.room < each.amount:
            return PaymentObstacle(
                "no_trustline", f"the trustline for {code} has no room for the amount"
            )
        refusal = cctp_pause(chain, view) if each.asset == chain.usdc else None
        return None if refusal is None else PaymentObstacle(refusal.kind, refusal.detail)

    return look


def mint_check(
    chain: EvmChain, word: EvmView
) -> Callable[[AwaitedRecipient], PaymentObstacle | None]:
    """Why CCTP does not mint to somebody on an EVM chain; of other assets nothing is known."""

    def look(each: AwaitedRecipient) -> PaymentObstacle | None:
        if not each.asset.endswith(f":{chain.usdc}"):
            return None
        refusal = mint_refusal(chain, EvmAddress(each.recipient), word)
        return None if refusal is None else PaymentObstacle(refusal.kind, refusal.detail)

    return look
