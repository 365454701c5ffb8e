"""Customers who move money through the API while parts of the fleet fail."""

import random
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

import httpx
from eth_account import Account

from devnet.customers import Customer, Purse, open_accounts
from devnet.evm_node import DevnetError, Reverted, RpcFailed
from devnet.stellar.accounts import PASSPHRASE, SEP10, address, keypair, secret
from devnet.stellar.client import Failed, Refused, Rejected
from devnet.transfers import Played
from isthmus_client import ClientError, Login, SignIn, Transfer
from tests.system.chaos.transfers.checker import judge, supply
from tests.system.chaos.transfers.hooks import registered
from tests.system.chaos.transfers.kinds import KINDS, PAYEE, ChaosPlays, Kind
from tests.system.chaos.transfers.wallet import Mischief, Wallet
from tests.system.fleet.outside import Outside

_REFUSALS = (ClientError, DevnetError, Reverted, RpcFailed, Refused, Rejected, Failed)
_AT_ONCE = 16
"""Accounts that one transaction opens: it has twenty signatures at most."""
_STARTERS, _LOOKERS = 4, 8
_LOOK_SECONDS = 0.1
_END_SECONDS = 240.0


@dataclass(frozen=True)
class Order:
    """A transfer to be played: what kind, whose, how much."""

    what: str
    kind: Kind
    name: str
    amount: int

    @property
    def payee(self) -> str:
        """Name of the account that is paid, where one is."""
        return f"{self.name} to"


@dataclass
class CustomersResult:
    """What came of all transfers."""

    transfers: int = 0
    completed: int = 0
    lost: list[str] = field(default_factory=list)
    double: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)


class Customers:
    """Owners of one transfer each, who start one after the other."""

    def __init__(self, outside: Outside, api_url: str, number: int, seed: int) -> None:
        chance = random.Random(seed)
        names = [*KINDS]
        chance.shuffle(names)
        self._orders = [
            Order(
                (what := names[n % len(names)]),
                KINDS[what],
                f"fleet {seed} {n}",
                chance.randint(10**6, 20 * 10**6),
            )
            for n in range(number)
        ]
        self._outside, self._api_url = outside, api_url
        self._mischief = Mischief(chance, rate=0.0)
        self._wallets: dict[str, Wallet] = {}
        self._played: dict[str, Played] = {}
        self._over: dict[str, Transfer] = {}
        self._seen: dict[str, Transfer] = {}
        self._registered = {*registered([each.name for each in self._orders])}
        self.result = CustomersResult(transfers=number)

    def open_accounts(self) -> None:
        """Fund everybody on both chains."""
        people: dict[str, Purse] = {}
        for each in self._orders:
            people[each.name] = each.kind.purse(each.amount)
            if "payment" in each.what:
                people[each.payee] = PAYEE
        names = [*people]
        for start in range(0, len(names), _AT_ONCE):
            some = {name: people[name] for name in names[start : start + _AT_ONCE]}
            open_accounts(some, self._outside.ledgers, self._outside.evm)

    def note_supply(self) -> None:
        """Keep what there is of each coin on both chains: from here on only transfers move it."""
        self._before = supply(self._outside.chains)

    @property
    def acknowledged(self) -> list[str]:
        """Transfers that the API has acknowledged."""
        return [*self._mischief.transfers]

    def run(self, over: threading.Event, seconds_apart: float) -> None:
        """Start transfers until `over`, and carry all that were started to their ends."""
        with ExitStack() as stack:
            starters = stack.enter_context(ThreadPoolExecutor(_STARTERS))
            lookers = stack.enter_context(ThreadPoolExecutor(_LOOKERS))
            starting: list[Future[None]] = []
            looks: dict[str, Future[None]] = {}
            waiting, due = list(self._orders), 0.0
            deadline: float | None = None
            while True:
                now = time.monotonic()
                if over.is_set():
                    self._orders = [each for each in self._orders if each not in waiting]
                    waiting.clear()
                if waiting and now >= due:
                    each, due = waiting.pop(0), now + seconds_apart
                    who, to = (self._customer(stack, name) for name in (each.name, each.payee))
                    starting.append(starters.submit(self._start, each, who, to))
                self._look_at_all(lookers, looks)
                begun = not waiting and all(each.done() for each in starting)
                if begun and len(self._over) == len(self._played):
                    break
                if over.is_set():
                    deadline = deadline or now + _END_SECONDS
                    if now > deadline:
                        break
                time.sleep(_LOOK_SECONDS)
            for future in (*starting, *looks.values()):
                future.result()
            self._outside.hooks.settle(self._wallets, self._ends())

    def judge(self) -> None:
        """By the chains, and then by what the API said."""
        result = self.result
        result.transfers = len(self._orders)
        for transfer, played in self._played.items():
            if transfer in self._over:
                result.completed += 1
            else:
                shown = self._seen.get(transfer)
                at = "never shown" if shown is None else f"{shown.stage}: {shown.stage_detail}"
                result.stuck.append(f"{played.what} {transfer}: {at}")
        result.findings += self._mischief.findings
        result.findings += self._outside.hooks.problems(self._ends())
        expected = [
            (f"{played.what} {transfer}", holding)
            for transfer, played in self._played.items()
            for holding in played.holdings
        ]
        verdict = judge(self._outside.chains, expected, self._before)
        result.lost += verdict.lost
        result.double += verdict.double
        result.findings += verdict.sums

    def _ends(self) -> Mapping[str, Mapping[str, str]]:
        return {
            played.who.name: {transfer: played.stage} for transfer, played in self._played.items()
        }

    def _customer(self, stack: ExitStack, name: str) -> Customer:
        server = SignIn(PASSPHRASE, signing_key=address(SEP10))
        login = Login.with_key(keypair(name), server)
        wallet = Wallet(self._api_url, self._mischief, login=login, transport=httpx.HTTPTransport())
        self._wallets[name] = wallet
        payer = Account.from_key(secret(name))
        return stack.enter_context(closing(Customer(name, keypair(name), payer, wallet)))

    def _start(self, each: Order, who: Customer, to: Customer) -> None:
        plays = ChaosPlays(self._outside.evm, self._outside.ledgers, lambda _: None)
        try:
            if each.name in self._registered:
                self._outside.hooks.register(each.name, self._wallets[each.name])
            played = each.kind.play(plays, who, to, each.amount)
        except _REFUSALS as error:
            self.result.stuck.append(f"{each.what} of {each.name} was not begun: {error}")
            return
        self._wallets[each.name].waits = False
        self._played[played.transfer] = played

    def _look_at_all(self, pool: ThreadPoolExecutor, looks: dict[str, Future[None]]) -> None:
        """At each transfer that is not over, unless a look at it is under way."""
        for transfer, played in [*self._played.items()]:
            last = looks.get(transfer)
            if transfer in self._over or (last is not None and not last.done()):
                continue
            if last is not None:
                last.result()
            looks[transfer] = pool.submit(self._look, transfer, played)

    def _look(self, transfer: str, played: Played) -> None:
        try:
            self._seen[transfer] = shown = played.who.api.transfer(transfer)
            played.react(shown)
        except _REFUSALS as error:
            finding = f"{played.what} of {played.who.name}: {type(error).__name__}: {error}"
            if finding not in self.result.findings:
                self.result.findings.append(finding)
            return
        if shown.stage == played.stage:
            self._over[transfer] = shown
