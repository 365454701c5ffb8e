"""Every kind of transfer that the devnet's customers play and one more, and who needs what for it.

Each transfer has people of its own, so that what somebody holds in the end is of that one alone.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from devnet.address_plays import AddressPlays
from devnet.bridges import DUST
from devnet.customers import ASSETS, Customer, Purse
from devnet.transfers import Coin, Played
from isthmus_client import Transfer

PAYEE = Purse({"usdc": 0, "usdt0": 0}, {})
"""Of who is paid on Stellar."""


class ChaosPlays(AddressPlays):
    """Also plays somebody who is in his own way."""

    def _move_chains(self) -> None:
        """Both move by themselves."""

    def trustline_closed(self, who: Customer, coin: Coin, amount: int) -> Played:
        """Close the own trustline before paying; open it again once it is asked for."""
        began = time.monotonic()
        quote, transfer = self._start_deposit(who, coin, amount)
        shown = self._calls(who, coin, amount, quote, transfer)
        self._stellar.trust(who.key, ASSETS[coin], limit=0)
        self._send(who, coin, amount, transfer, shown)
        opened: list[str] = []

        def react(shown: Transfer) -> None:
            if shown.stage == "AWAITING_TRUSTLINE" and not opened:
                opened.append(transfer.id)
                self._stellar.trust(who.key, ASSETS[coin])

        what = f"{coin}-deposit, trustline closed"
        return replace(self._deposited(what, who, coin, quote, transfer, began), react=react)


Play = Callable[[ChaosPlays, Customer, Customer, int], Played]
"""Sets a transfer of so many millionths going; the second customer is paid where anybody is."""


@dataclass(frozen=True)
class Kind:
    """A transfer of some kind, of an amount in millionths."""

    purse: Callable[[int], Purse]
    play: Play


def _direct(coin: Coin) -> Kind:
    return Kind(
        lambda amount: Purse({coin: 0}, {coin: amount}),
        lambda plays, who, _, amount: plays.deposit(who, coin, amount),
    )


def _without_account(coin: Coin) -> Kind:
    return Kind(
        lambda amount: Purse({}, {coin: amount}, has_account=False),
        lambda plays, who, _, amount: plays.deposit_without_account(who, coin, amount),
    )


def _called_off(coin: Coin) -> Kind:
    return Kind(
        lambda amount: Purse({coin: 0}, {coin: amount}),
        lambda plays, who, _, amount: plays.called_off(who, coin, amount),
    )


def _to_address(coin: Coin) -> Kind:
    return Kind(
        lambda amount: Purse({coin: 0}, {coin: amount}),
        lambda plays, who, _, amount: plays.deposit_to_address(who, coin, amount),
    )


def _cancelled_then_paid(coin: Coin) -> Kind:
    return Kind(
        lambda amount: Purse({coin: 0}, {coin: amount}),
        lambda plays, who, _, amount: plays.cancelled_then_paid(who, coin, amount),
    )


def _wrong_token_first(coin: Coin) -> Kind:
    wrong: Coin = "usdt0" if coin == "usdc" else "usdc"
    return Kind(
        lambda amount: Purse({coin: 0}, {coin: amount, wrong: amount}),
        lambda plays, who, _, amount: plays.wrong_token_first(who, coin, wrong, amount),
    )


def _trustline_closed(coin: Coin) -> Kind:
    return Kind(
        lambda amount: Purse({coin: 0}, {coin: amount}),
        lambda plays, who, _, amount: plays.trustline_closed(who, coin, amount),
    )


def _withdrawal(coin: Coin) -> Kind:
    return Kind(
        lambda amount: Purse({coin: amount * DUST}, {}),
        lambda plays, who, _, amount: plays.withdrawal(who, coin, amount * DUST),
    )


def _payment(coin: Coin) -> Kind:
    """With a seventh decimal, which no bridge carries."""
    return Kind(
        lambda amount: Purse({coin: amount * DUST + 1}, {}),
        lambda plays, who, to, amount: plays.payment(who, coin, amount * DUST + 1, to),
    )


_MADE: Mapping[str, Callable[[Coin], Kind]] = {
    "deposit": _direct,
    "deposit_without_account": _without_account,
    "called_off": _called_off,
    "deposit_to_address": _to_address,
    "cancelled_then_paid": _cancelled_then_paid,
    "wrong_token_first": _wrong_token_first,
    "trustline_closed": _trustline_closed,
    "withdrawal": _withdrawal,
    "payment": _payment,
}
"""By the method of `ChaosPlays`; a test holds that none is missing."""

COINS: tuple[Coin, ...] = ("usdc", "usdt0")
KINDS: Mapping[str, Kind] = {
    f"{coin} {name}": make(coin)
    for name, make in _MADE.items()
    for coin in COINS
    # Who pays in twice does not send packets on, as the message layer does; and that does not
    # send one again that could not be delivered.
    if coin == "usdc" or name not in ("wrong_token_first", "trustline_closed")
}
