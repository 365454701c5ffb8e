"""Transfers as customers make them: through the HTTP API, with the client and with keys alone.

Each function sets one transfer of a kind going (quote, start, read and verify the action, sign,
send, submit) and returns its expected result, which is computed from what was signed and from the
bridges' own rules, and compared with both chains.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal, TypeAlias
from uuid import uuid4

from stellar_sdk import TransactionEnvelope
from stellar_sdk.operation import InvokeHostFunction

from devnet.bridges import DUST, EVM, STELLAR, Bridges, sent_packets
from devnet.circle import fast_fee
from devnet.customers import ASSETS, Customer, devnet_bridges
from devnet.evm import EvmDevnet
from devnet.evm_node import DevnetError
from devnet.evm_sending import Receipt
from devnet.progress import Progress
from devnet.scenario import real_time
from devnet.stellar.accounts import PASSPHRASE
from devnet.stellar.client import DevnetClient
from isthmus_client import (
    Actions,
    Deposit,
    EvmCalls,
    Invalid,
    Isthmus,
    Outgoing,
    Quote,
    StellarTrustline,
    StellarTx,
    Transfer,
    Unavailable,
    to_decimal,
)

Coin: TypeAlias = Literal["usdc", "usdt0"]
Log: TypeAlias = Callable[[str], None]
_Outgoing: TypeAlias = Literal["usdc-withdraw", "usdt0-withdraw", "usdc-send", "usdt0-send"]

DEADLINE_SECONDS = 300.0
"""Without a change of what is waited for, on a busy machine; alone it is some seconds."""
_ATTEMPTS = 60
"""Attempts to start a transfer while the API reports a chain as unavailable."""
_DECIMALS = {"evm": 6, "stellar": 7}


class NotAsPlayed(DevnetError):
    """The API showed something else than it must at that point."""


@dataclass(frozen=True)
class Holding:
    """An expected balance at the end, base units."""

    chain: Literal["evm", "stellar"]
    holder: str
    coin: Coin
    amount: int


@dataclass(frozen=True)
class Played:
    """A transfer that was set going, and what must be true of it once it is over."""

    what: str
    who: Customer
    transfer: str
    stage: str
    amount_in: int
    promised: int
    delivered: int | None
    """Base units where it ends; None when nothing arrives."""
    holdings: tuple[Holding, ...]
    began: float
    """By the monotonic clock."""
    react: Callable[[Transfer], None] = lambda _: None
    """The owner's wallet's, or the message layer's, reaction to its state."""


class Plays:
    """Plays transfers on a world whose Stellar ledgers close for each transaction of ours."""

    def __init__(self, evm: EvmDevnet, stellar: DevnetClient, log: Log) -> None:
        self._evm = evm
        self._stellar = stellar
        self._messages = Bridges(evm, stellar)
        self._known = devnet_bridges()
        self._log = log

    def deposit(self, who: Customer, coin: Coin, amount: int) -> Played:
        """Pay from the own EVM account; all that is there must be of this transfer."""
        began = time.monotonic()
        quote, transfer = self._start_deposit(who, coin, amount)
        receipt = self._pay(who, coin, amount, quote, transfer)
        if coin == "usdt0":
            self._execute(receipt)
        return self._deposited(f"{coin}-deposit", who, coin, quote, transfer, began)

    def deposit_without_account(self, who: Customer, coin: Coin, amount: int) -> Played:
        """The same of an owner without an account: paid first, then sponsored by the service.

        LayerZero's executor gives up what it cannot deliver meanwhile: the relay delivers it.
        """
        began = time.monotonic()
        quote, transfer = self._start_deposit(who, coin, amount)
        receipt = self._pay(who, coin, amount, quote, transfer)
        if coin == "usdt0":
            self._verify(receipt)
        played = self._deposited(f"{coin}-deposit, no account", who, coin, quote, transfer, began)
        signed: set[str] = set()

        def react(shown: Transfer) -> None:
            if shown.stage == "COMPLETED":
                self._check_sponsored(who, coin)
            if shown.stage != "AWAITING_TRUSTLINE":
                return
            action = self._action(who, coin, amount, quote, transfer).action
            if isinstance(action, StellarTrustline) and action.xdr not in signed:
                signed.add(action.xdr)
                self._open_trustline(who, transfer, action)

        return replace(played, react=react)

    def _open_trustline(self, who: Customer, transfer: Transfer, action: StellarTrustline) -> None:
        envelope = TransactionEnvelope.from_xdr(action.xdr, PASSPHRASE)
        envelope.sign(who.key)
        try:
            who.api.submit_stellar(transfer.id, envelope.to_xdr())
        except Invalid as refused:
            # Another owner's transaction used the sequence number: the action is built again.
            if refused.code != "SUBMISSION_MISMATCH":
                raise
            return
        self._log(f"{who.name} signs for an account and a trustline that the service pays for")

    def _check_sponsored(self, who: Customer, coin: Coin) -> None:
        """The trustline's reserve is sponsored: the account has no XLM."""
        account = self._stellar.account(who.account)
        line = self._stellar.trustline(who.account, ASSETS[coin])
        if account is None or line is None or account.balance:
            raise NotAsPlayed(f"{who.name} has {line} on {account}, and must have no XLM")

    def called_off(self, who: Customer, coin: Coin, amount: int) -> Played:
        """Start a deposit, and cancel it before anything was signed."""
        began = time.monotonic()
        quote, transfer = self._start_deposit(who, coin, amount)
        who.api.cancel_transfer(transfer.id)
        holdings = (
            Holding("evm", who.wallet, coin, amount),
            Holding("stellar", who.account, coin, 0),
        )
        return Played(
            what=f"{coin}-deposit, cancelled",
            who=who,
            transfer=transfer.id,
            stage="CANCELLED",
            amount_in=amount,
            promised=quote.buy_amount,
            delivered=None,
            holdings=holdings,
            began=began,
        )

    def withdrawal(self, who: Customer, coin: Coin, amount: int) -> Played:
        """Sign what is shown, one after the other; all that is there must arrive on EVM."""
        if amount % DUST:
            raise ValueError(f"{amount} has a seventh decimal, which no bridge carries")
        route: _Outgoing = "usdc-withdraw" if coin == "usdc" else "usdt0-withdraw"
        delivered = amount // DUST
        arrives = Holding("evm", who.wallet, coin, delivered)
        return self._outgoing(who, route, amount, EVM, who.wallet, arrives)

    def payment(self, who: Customer, coin: Coin, amount: int, to: Customer) -> Played:
        """Pay another customer on Stellar, who has none of that coin so far."""
        route: _Outgoing = "usdc-send" if coin == "usdc" else "usdt0-send"
        arrives = Holding("stellar", to.account, coin, amount)
        return self._outgoing(who, route, amount, STELLAR, to.account, arrives)

    def _outgoing(
        self,
        who: Customer,
        route: _Outgoing,
        amount: int,
        chain: str,
        recipient: str,
        arrives: Holding,
    ) -> Played:
        began = time.monotonic()
        quote, transfer = start_transfer(
            who,
            lambda: who.api.quote(
                route,
                to_decimal(amount, STELLAR),
                source_chain=STELLAR,
                source_address=who.account,
                dest_chain=chain,
                dest_address=recipient,
            ),
        )
        wanted = Outgoing.quoted(
            transfer.id,
            quote,
            route=route,
            account=who.account,
            chain=chain,
            recipient=recipient,
            amount=to_decimal(amount, STELLAR),
        )
        return Played(
            what=route,
            who=who,
            transfer=transfer.id,
            stage="COMPLETED",
            amount_in=amount,
            promised=quote.buy_amount,
            delivered=arrives.amount,
            holdings=(Holding("stellar", who.account, arrives.coin, 0), arrives),
            began=began,
            react=self._wallet(who, wanted),
        )

    def _wallet(self, who: Customer, wanted: Outgoing) -> Callable[[Transfer], None]:
        """Signs each transaction that is shown and verified, once, and hands it in."""
        signed: set[str] = set()
        executed: set[bytes] = set()

        def react(shown: Transfer) -> None:
            if shown.stage == "AWAITING_SIGNATURE":
                action = who.api.action(wanted, self._known).action
                if isinstance(action, StellarTx) and action.xdr not in signed:
                    signed.add(action.xdr)
                    self._hand_in(who, wanted, action)
            elif shown.stage == "IN_FLIGHT" and shown.stellar_transaction_id is not None:
                for packet in self._packets(shown.stellar_transaction_id) - executed:
                    executed.add(packet)
                    self._evm.lz_verify_and_receive(packet)

        return react

    def _hand_in(self, who: Customer, wanted: Outgoing, action: StellarTx) -> None:
        envelope = TransactionEnvelope.from_xdr(action.xdr, PASSPHRASE)
        envelope.sign(who.key)
        who.api.submit_stellar(wanted.transfer, envelope.to_xdr())
        self._log(
            f"{who.name} signs {wanted.route} of {decimal(wanted.amount, 'stellar')}"
            f" {wanted.coin.upper()}: {_does(envelope)}, verified first"
        )

    def _packets(self, tx: str) -> set[bytes]:
        outcome = self._stellar.outcome(tx)
        return set() if outcome is None else set(sent_packets(outcome))

    def _move_chains(self) -> None:
        """Make an empty block and an empty ledger: a world that makes them on demand has no others.

        Without them a chain that stands still would be refused at each retry.
        """
        self._evm.mine()
        self._stellar.close_next_ledger(real_time)

    def _start_deposit(
        self, who: Customer, coin: Coin, amount: int, funding_mode: str = "direct"
    ) -> tuple[Quote, Transfer]:
        return start_transfer(
            who,
            lambda: who.api.quote(
                f"{coin}-deposit",
                to_decimal(amount, EVM),
                source_chain=EVM,
                source_address=who.wallet,
                dest_address=who.account,
                funding_mode=funding_mode,
            ),
        )

    def _action(
        self, who: Customer, coin: Coin, amount: int, quote: Quote, transfer: Transfer
    ) -> Actions:
        wanted = Deposit.quoted(
            transfer.id,
            quote,
            route="usdc-deposit" if coin == "usdc" else "usdt0-deposit",
            chain=EVM,
            payer=who.wallet,
            recipient=who.account,
            amount=to_decimal(amount, EVM),
        )
        return who.api.action(wanted, self._known)

    def _pay(
        self, who: Customer, coin: Coin, amount: int, quote: Quote, transfer: Transfer
    ) -> Receipt:
        """Send the calls that the client has verified, and submit the hash."""
        shown = self._calls(who, coin, amount, quote, transfer)
        return self._send(who, coin, amount, transfer, shown)

    def _calls(
        self, who: Customer, coin: Coin, amount: int, quote: Quote, transfer: Transfer
    ) -> EvmCalls:
        """The verified action."""
        shown = self._action(who, coin, amount, quote, transfer)
        if not isinstance(shown.action, EvmCalls):
            raise NotAsPlayed(f"{who.name} has to pay {coin}, and is shown {shown}")
        return shown.action

    def _send(
        self, who: Customer, coin: Coin, amount: int, transfer: Transfer, shown: EvmCalls
    ) -> Receipt:
        receipts = [
            self._evm.send(who.payer, each.to, bytes.fromhex(each.data[2:]), value=each.value)
            for each in shown.calls
        ]
        self._log(
            f"{who.name} pays {decimal(amount, 'evm')} {coin.upper()} with"
            f" {len(receipts)} calls that were verified first"
        )
        who.api.submit_evm(transfer.id, receipts[-1].transaction_hash)
        return receipts[-1]

    def _execute(self, receipt: Receipt) -> None:
        """The acts of LayerZero's verifiers and executor."""
        for packet in self._verify(receipt):
            self._messages.execute_packet_on_stellar(packet)

    def _verify(self, receipt: Receipt) -> Sequence[bytes]:
        packets = self._evm.sent_packets(receipt)
        for packet in packets:
            self._messages.verify_packet_on_stellar(packet)
        return packets

    def _deposited(
        self,
        what: str,
        who: Customer,
        coin: Coin,
        quote: Quote,
        transfer: Transfer,
        began: float,
    ) -> Played:
        amount = quote.sell_amount
        delivered = (amount - (fast_fee(amount) if coin == "usdc" else 0)) * DUST
        holdings = (
            Holding("evm", who.wallet, coin, 0),
            Holding("stellar", who.account, coin, delivered),
        )
        return Played(
            what=what,
            who=who,
            transfer=transfer.id,
            stage="COMPLETED",
            amount_in=amount,
            promised=quote.buy_amount,
            delivered=delivered,
            holdings=holdings,
            began=began,
        )

    # Results

    def problems(self, played: Played, shown: Transfer) -> list[str]:
        """Problems of a transfer that is over, a sentence each."""
        wanted = {
            "stage": played.stage,
            "amount_in": played.amount_in,
            "amount_delivered": played.delivered,
        }
        found = [
            f"{played.what} of {played.who.name}: {name} is {getattr(shown, name)!r}, and must be"
            f" {value!r}"
            for name, value in wanted.items()
            if getattr(shown, name) != value
        ]
        if played.delivered is not None and played.delivered < played.promised:
            found.append(f"{played.what}: {played.promised} were promised")
        return [*found, *self._wrong_holdings(played)]

    def _wrong_holdings(self, played: Played) -> Iterator[str]:
        for each in played.holdings:
            held = self._held(each)
            if held != each.amount:
                yield (
                    f"{played.what}: {each.holder} holds {held} {each.coin} on {each.chain}, and"
                    f" must hold {each.amount}"
                )

    def _held(self, holding: Holding) -> int:
        if holding.chain == "stellar":
            return self._stellar.balance(holding.holder, ASSETS[holding.coin])
        at = self._evm.addresses
        token = at.usdc if holding.coin == "usdc" else at.usdt0
        return self._evm.balance_of(token, holding.holder)


def follow(
    played: Sequence[Played], go_on: Callable[[], None], *, deadline_seconds: float
) -> dict[str, tuple[Transfer, float]]:
    """Each transfer as it is shown once it is where it must end, and the seconds it took.

    Also when none has changed its stage for `deadline_seconds`. `go_on` is called between two
    looks: time passes in it, and ledgers close.
    """
    progress = Progress(deadline_seconds)
    stages: dict[str, str] = {}
    over: dict[str, tuple[Transfer, float]] = {}
    while len(over) < len(played):
        for each in played:
            if each.transfer in over:
                continue
            shown, now = each.who.api.transfer(each.transfer), time.monotonic()
            each.react(shown)
            stages[each.transfer] = shown.stage
            if shown.stage == each.stage or progress.has_stopped:
                over[each.transfer] = shown, now - each.began
        progress.note(dict(stages))
        go_on()
    return over


def start_transfer(
    who: Customer, quote: Callable[[], Quote], before_retry: Callable[[], None] = lambda: None
) -> tuple[Quote, Transfer]:
    """A quote and its transfer.

    On a busy machine a follower may be silent, or the last ledger old, for so long that the API
    answers 503 for its chain: a client retries after `Retry-After`. Raises `NotAsPlayed`.
    """
    for _ in range(_ATTEMPTS):
        try:
            quoted = quote()
            return quoted, who.api.start_transfer(quoted.id, key=str(uuid4()))
        except Unavailable as error:
            before_retry()
            time.sleep(error.retry_after or 1.0)
    raise NotAsPlayed(f"{who.name}: the API was unavailable {_ATTEMPTS} times")


def await_routes(
    api: Isthmus, go_on: Callable[[], None], *, deadline_seconds: float = DEADLINE_SECONDS
) -> None:
    """Wait until the service reports all routes as available.

    `go_on` is called between two looks. Raises `NotAsPlayed` when what is missing has not changed
    for `deadline_seconds`.
    """
    progress = Progress(deadline_seconds)
    while shut := _shut(api):
        progress.note(shut)
        if progress.has_stopped:
            raise NotAsPlayed(f"not available: {', '.join(shut)}")
        go_on()


def _shut(api: Isthmus) -> list[str]:
    """Ends of routes that are not available."""
    return [
        f"{route.id} at {end.chain}"
        for route in api.routes()
        for end in (*route.source_chains, *route.dest_chains)
        if not end.available
    ]


def _does(envelope: TransactionEnvelope) -> str:
    """Name of the function that a transaction of one operation calls."""
    [operation] = envelope.transaction.operations
    if isinstance(operation, InvokeHostFunction):
        call = operation.host_function.invoke_contract
        if call is not None:
            return call.function_name.sc_symbol.decode()
    return type(operation).__name__.lower()


def decimal(amount: int, chain: str) -> str:
    """Base units of a coin on that chain as a number of coins."""
    return f"{Decimal(amount).scaleb(-_DECIMALS[chain]):f}"
