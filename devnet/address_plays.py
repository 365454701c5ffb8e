"""Deposits that are paid to addresses of their own, and what is sent back from there.

The payer signs nothing of ours: the token's own `transfer`, as an exchange would send it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from devnet.customers import Customer
from devnet.transfers import Coin, Holding, NotAsPlayed, Played, Plays, decimal
from isthmus_client import Quote, SendToAddress, Transfer

_BY_ADDRESS = "deposit_address"


class AddressPlays(Plays):
    """Also plays deposits that are paid to an address."""

    def deposit_to_address(self, who: Customer, coin: Coin, amount: int) -> Played:
        """Pay to the address; the service does the rest."""
        began = time.monotonic()
        quote, transfer, address = self._shown_address(who, coin, amount)
        self._pay_in(who, coin, address, amount)
        played = self._deposited(f"{coin}-deposit, by address", who, coin, quote, transfer, began)
        if coin == "usdt0":
            played = replace(played, react=self._executes())
        return _and_empty(played, address, coin)

    def _executes(self) -> Callable[[Transfer], None]:
        """The acts of LayerZero's verifiers and executor once the service has sent it."""
        executed: set[str] = set()

        def react(shown: Transfer) -> None:
            sent = shown.external_transaction_id
            if shown.stage == "IN_FLIGHT" and sent is not None and sent not in executed:
                executed.add(sent)
                self._execute(self._evm.wait(sent))

        return react

    def cancelled_then_paid(self, who: Customer, coin: Coin, amount: int) -> Played:
        """Call it off and pay all the same: everything comes back."""
        began = time.monotonic()
        quote, transfer, address = self._shown_address(who, coin, amount)
        who.api.cancel_transfer(transfer.id)
        self._pay_in(who, coin, address, amount)
        holdings = (
            Holding("evm", who.wallet, coin, amount),
            Holding("stellar", who.account, coin, 0),
        )
        played = Played(
            what=f"{coin}-deposit, sent back",
            who=who,
            transfer=transfer.id,
            stage="REFUNDED",
            amount_in=amount,
            promised=quote.buy_amount,
            delivered=None,
            holdings=holdings,
            began=began,
        )
        return _and_empty(played, address, coin)

    def wrong_token_first(self, who: Customer, coin: Coin, wrong: Coin, amount: int) -> Played:
        """Pay in a token that does not count, and the right one when the other has come back."""
        began = time.monotonic()
        quote, transfer, address = self._shown_address(who, coin, amount)
        self._pay_in(who, wrong, address, amount)
        played = self._deposited(
            f"{coin}-deposit, {wrong} first", who, coin, quote, transfer, began
        )
        played = _and_empty(_and_empty(played, address, coin), address, wrong)
        back = Holding("evm", who.wallet, wrong, amount)
        return replace(
            played,
            holdings=(*played.holdings, back),
            react=self._pays_again(who, coin, address, amount),
        )

    def _pays_again(
        self, who: Customer, coin: Coin, address: str, amount: int
    ) -> Callable[[Transfer], None]:
        paid: list[str] = []

        def react(shown: Transfer) -> None:
            refund = shown.refund
            is_back = refund is not None and any(line.returned for line in refund.tokens)
            if is_back and not paid:
                paid.append(address)
                self._pay_in(who, coin, address, amount)

        return react

    def _shown_address(self, who: Customer, coin: Coin, amount: int) -> tuple[Quote, Transfer, str]:
        """An address that the client has computed itself."""
        quote, transfer = self._start_deposit(who, coin, amount, _BY_ADDRESS)
        action = self._action(who, coin, amount, quote, transfer).action
        if not isinstance(action, SendToAddress):
            raise NotAsPlayed(f"{who.name} has to pay {coin} to an address, and is shown {action}")
        return quote, transfer, action.address

    def _pay_in(self, who: Customer, coin: Coin, address: str, amount: int) -> None:
        at = self._evm.addresses
        token = at.usdc if coin == "usdc" else at.usdt0
        self._evm.transfer(who.payer, token, address, amount)
        self._log(f"{who.name} pays {decimal(amount, 'evm')} {coin.upper()} to {address}")


def _and_empty(played: Played, address: str, coin: Coin) -> Played:
    """Nothing is left there, either."""
    return replace(played, holdings=(*played.holdings, Holding("evm", address, coin, 0)))
