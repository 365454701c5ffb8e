"""Checks of recipients: can a delivery pay them now.

Needs no key; it runs in the relay because its results decide what is worth sending.
"""

from collections.abc import Callable
from typing import Protocol

from sqlalchemy import Connection

from indexer.actions.mint_check import EvmView, StellarView, cctp_pause, mint_refusal
from indexer.chains.stellar.xdr.ledger_entries import Trustline
from indexer.config.networks import EvmChain, StellarChain
from indexer.errors import IndexerError
from relay.jobs.obstacles import (
    AwaitedRecipient,
    PaymentObstacle,
    awaited_recipients,
    set_obstacle,
)
from relay.nonces import AccountId
from warehouse_schema.identifiers import AssetId, ChainId, EvmAddress, StellarAddress

RECHECK_SECONDS = 5.0
"""Between two checks of one recipient."""
MAX_PER_TURN = 20
"""Checks in a turn; the recipients that were not checked for longest first."""


class Trustlines(Protocol):
    """Reader of trustlines (`indexer.chains.stellar.accounts.AccountReader`)."""

    def trustline(self, account: StellarAddress, asset: AssetId) -> Trustline | None:
        """Trustline, or None when there is certainly none; raises errors of chains."""


class Recipients:
    """Checks the recipients of a chain. One thread runs its turns."""

    def __init__(
        self,
        chain: ChainId,
        check: Callable[[AwaitedRecipient], PaymentObstacle | None],
        clock: Callable[[], float],
    ) -> None:
        """`check` is `check_trustline` or `check_mint`; `clock` counts seconds, for pacing only."""
        self._chain, self._check, self._clock = chain, check, clock
        self._checked: dict[str, float] = {}
        """Time of the last check by transfer; minus infinity before the first."""
        self.account = AccountId(chain, "recipients")
        """Name of the lease: one process of all checks a chain's recipients."""

    def turn(self, conn: Connection) -> None:
        """Check the recipients that are due. Raises errors of nodes."""
        with conn.begin():
            awaited = {each.transfer: each for each in awaited_recipients(conn, self._chain)}
        self._checked = {key: self._checked.get(key, float("-inf")) for key in awaited}
        before = self._clock() - RECHECK_SECONDS
        due = [key for key, checked in self._checked.items() if checked <= before]
        for key in sorted(due, key=self._checked.__getitem__)[:MAX_PER_TURN]:
            each = awaited[key]
            # Set before the check, so that a recipient for whom nodes fail does not delay others.
            self._checked[key] = self._clock()
            obstacle = self._check(each) if each.waits else None
            if obstacle != each.current:
                with conn.begin():
                    set_obstacle(conn, key, obstacle)

    def report_unhealthy(self, conn: Connection, error: IndexerError) -> None:
        """Nothing: the account that delivers reports its own health."""


def check_trustline(
    chain: StellarChain, accounts: Trustlines, view: StellarView, awaited: AwaitedRecipient
) -> PaymentObstacle | None:
    """Why a recipient on Stellar cannot be paid. Only CCTP mints USDC."""
    line = accounts.trustline(StellarAddress(awaited.recipient), awaited.asset)
    code = awaited.asset.split(":")[1]
    if line is None:
        return PaymentObstacle("no_trustline", f"{awaited.recipient} has no trustline for {code}")
    if not line.is_authorized:
        return PaymentObstacle(
            "frozen", f"the issuer of {code} has not authorized the trustline of the recipient"
        )
    if line.room < awaited.amount:
        detail = f"the trustline for {code} has no room for the amount"
        return PaymentObstacle("no_trustline", detail)
    refusal = cctp_pause(chain, view) if awaited.asset == chain.usdc else None
    return None if refusal is None else PaymentObstacle(refusal.kind, refusal.detail)


def check_mint(chain: EvmChain, word: EvmView, awaited: AwaitedRecipient) -> PaymentObstacle | None:
    """Why CCTP cannot mint to a recipient on an EVM chain; None for other assets."""
    if not awaited.asset.endswith(f":{chain.usdc}"):
        return None
    refusal = mint_refusal(chain, EvmAddress(awaited.recipient), word)
    return None if refusal is None else PaymentObstacle(refusal.kind, refusal.detail)
