"""What happens on the chains of a run: seeded acts of everyone, and the EVM chain's reorgs.

An act that a contract refuses is part of life here (a reorg took the allowance, the order has
expired) and is counted, not raised. What must come of it all is nobody's business here: both runs
that are compared read the same chains.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256

from eth_account.signers.local import LocalAccount
from stellar_sdk import Keypair

from devnet.bridges import DUST, Bridges, Burned, Sent
from devnet.evm import (
    NATIVE_FEE,
    SEND_PARAM,
    STELLAR_DOMAIN,
    STELLAR_EID,
    dev_account,
    reorg_marker,
)
from devnet.evm_deployment import MAX_UINT256
from devnet.evm_messages import FINALIZED, ZERO_WORD
from devnet.evm_node import RpcFailed, encode_call
from devnet.expectations import UNIT, Rail, Terms, TermsKey
from devnet.order_book import OrderBook
from devnet.stellar.accounts import RELAYER, USDC, USDT0, keypair
from devnet.stellar.client import Failed, Refused, Rejected
from devnet.stellar.genesis import ORDER_TTL
from tests.system.chaos.chains import Chains

DEEPEST = 64
"""Blocks of the deepest reorg: the devnet's confirmations."""
_EVM_UNIT = 10**6
_PLENTY = 1_000_000
"""Whole units that an account on either chain is given, so that nobody runs short."""
_GAS = 400_000
_REFUSED = (RpcFailed, Failed, Refused, Rejected)

_TERMS: tuple[tuple[str, TermsKey], ...] = (
    ("ana", TermsKey("onramp", "venmo", "USD")),
    ("ana", TermsKey("onramp", "wise", "USD")),
    ("ana", TermsKey("offramp", "wise", "EUR")),
    ("ben", TermsKey("onramp", "revolut", "EUR")),
    ("ben", TermsKey("offramp", "venmo", "USD")),
    ("ben", TermsKey("offramp", "monzo", "GBP")),
)
_PROVIDERS = ("ana", "ben")
_TAKERS = ("tom", "uma")


@dataclass(frozen=True)
class Deal:
    """An order that was opened."""

    order_id: str
    key: TermsKey
    provider: str
    taker: str
    amount: int
    opened_at: int


class History:
    """Plays on fresh chains: `set_up` once, then `act` as often as wanted."""

    def __init__(self, chains: Chains, chance: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        """Acts by name; refused ones once more under `refused`."""
        self.depths: list[int] = []
        """Depths of the reorgs so far."""
        self._evm, self._stellar = chains.evm, chains.paced
        self._chance = chance
        self._bridges = Bridges(chains.evm, chains.paced)
        self._book = OrderBook(chains.paced)
        self._users = [dev_account(index) for index in (1, 2, 3, 4)]
        self._burned_on_evm: list[Burned] = []
        self._burned_on_stellar: list[Burned] = []
        self._sent_from_evm: list[Sent] = []
        self._verified: list[Sent] = []
        self._sent_from_stellar: list[Sent] = []
        self._deals: list[Deal] = []
        self._floor = 0
        self._is_set_up = False

    # How it begins

    def set_up(self) -> list[Callable[[], None]]:
        """The steps by which everybody gets money and the order book its first terms."""
        return [
            self._fund_evm,
            *(lambda name=name: self._open_account(name) for name in _PROVIDERS + _TAKERS),
            lambda: self._open_holder("alice"),
            lambda: self._open_holder("bob"),
            *(lambda name=name: self._provide(name) for name in _PROVIDERS),
            self._begin,
        ]

    def _begin(self) -> None:
        self._is_set_up = True

    def _fund_evm(self) -> None:
        at = self._evm.addresses
        self._evm.set_automine(False)
        for user in self._users:
            for token in (at.usdc, at.usdt0):
                mint = encode_call("mint(address,uint256)", user.address, _PLENTY * _EVM_UNIT)
                self._evm.submit(dev_account(0), token, mint, gas=_GAS)
            approve = encode_call("approve(address,uint256)", at.token_messenger, MAX_UINT256)
            self._evm.submit(user, at.usdc, approve, gas=_GAS)
        self._evm.set_automine(True)
        # Deep enough that a reorg never takes back what everything else stands on.
        self._evm.mine(DEEPEST + 2)
        self._floor = self._evm.block_number() - DEEPEST

    def _open_account(self, name: str) -> None:
        self._stellar.open_account(name, usdc=_PLENTY * UNIT)

    def _open_holder(self, name: str) -> None:
        self._stellar.open_account(name, usdc=_PLENTY * UNIT, usdt0=_PLENTY * UNIT)

    def _provide(self, name: str) -> None:
        provider = keypair(name)
        self._book.deposit(provider, 1_000 * UNIT)
        for rail in sorted({key.rail for who, key in _TERMS if who == name}):
            self._book.set_payee(provider, rail, f"@{name}-{rail}", publish=rail != "wise")
        self._book.set_terms(provider, [(key, self._terms()) for who, key in _TERMS if who == name])

    def evm_head(self) -> str:
        """Hash of the EVM chain's last block."""
        return self._evm.block_hash(self._evm.block_number())

    # How it goes on

    def act(self) -> str:
        """One act by chance; its name."""
        acts = self._acts()
        names = list(acts)
        name = self._chance.choices(names, weights=[acts[each][0] for each in names])[0]
        return self.do(name, acts[name][1])

    def act_on_evm(self) -> str:
        """One act on the EVM chain that its follower has something to do with."""
        return self.do("crowd", self._crowd if self._is_set_up else self._empty_blocks)

    def act_on_stellar(self) -> str:
        """One act on Stellar that its follower has something to do with."""
        act = self._stellar_crowd if self._is_set_up else self._empty_ledgers
        return self.do("stellar crowd", act)

    @contextmanager
    def aside(self, chance: random.Random) -> Iterator[None]:
        """What happens meanwhile is decided by other chance than what comes afterwards."""
        before, self._chance = self._chance, chance
        yield
        self._chance = before

    def do(self, name: str, act: Callable[[], None]) -> str:
        """Do it, count it; refused is done too."""
        self.counts[name] += 1
        try:
            act()
        except _REFUSED:
            self.counts["refused"] += 1
        return name

    def close(self) -> None:
        """One more block and ledger, after which nothing happens."""
        self._evm.mine()
        self._stellar.close_ledger()

    def _acts(self) -> dict[str, tuple[int, Callable[[], None]]]:
        """Name → weight and act."""
        return {
            "erc20 transfer": (3, self._transfer),
            "cctp burn on evm": (4, self._burn_on_evm),
            "cctp mint on stellar": (3, self._mint_on_stellar),
            "cctp burn on stellar": (2, self._burn_on_stellar),
            "cctp mint on evm": (2, self._mint_on_evm),
            "oft send from evm": (3, self._send_from_evm),
            "oft verify on stellar": (2, self._verify_on_stellar),
            "oft deliver on stellar": (2, self._deliver_on_stellar),
            "oft send from stellar": (2, self._send_from_stellar),
            "oft deliver on evm": (2, self._deliver_on_evm),
            "crowd": (4, self._crowd),
            "empty blocks": (2, self._empty_blocks),
            "reorg": (5, self.reorg),
            "stellar crowd": (3, self._stellar_crowd),
            "escrow deposit": (1, self._deposit),
            "escrow withdraw": (1, self._withdraw),
            "terms": (3, self._set_terms),
            "terms deleted": (1, self._delete_terms),
            "rail": (1, self._set_rail),
            "order": (7, self._open),
            "order settled": (3, self._settle),
            "order released": (1, self._release),
            "order cancelled": (2, self._cancel),
            "order pruned": (1, self._expire),
            "time passes": (1, self._let_time_pass),
            "empty ledgers": (1, self._empty_ledgers),
        }

    # EVM

    def _transfer(self) -> None:
        at = self._evm.addresses
        payer, payee = self._chance.sample(self._users, 2)
        token = self._chance.choice((at.usdc, at.usdt0))
        self._evm.transfer(payer, token, payee.address, self._six())

    def transfer_to_watched(self) -> None:
        """A transfer to the first user, whom the devnet's network file watches."""
        payee, payer = self._users[0], self._users[2]
        self._evm.transfer(payer, self._evm.addresses.usdc, payee.address, self._six())

    def _burn_on_evm(self) -> None:
        fast = self._chance.random() < 0.3
        self._burned_on_evm.append(
            self._bridges.burn_on_evm(
                self._user(), self._holder().public_key, self._six(), max_fee=5 if fast else 0
            )
        )

    def _mint_on_evm(self) -> None:
        burned = self._taken(self._burned_on_stellar)
        self._bridges.mint_on_evm(burned or self._new_burn_on_stellar(), self._user())

    def _send_from_evm(self) -> None:
        self._sent_from_evm.append(
            self._bridges.send_from_evm(self._user(), self._holder().public_key, self._six())
        )

    def _deliver_on_evm(self) -> None:
        sent = self._taken(self._sent_from_stellar)
        self._bridges.deliver_on_evm(sent or self._new_send_from_stellar())

    def _crowd(self) -> None:
        """Several transactions in one block, some of which fail; two burns may be alike."""
        self._evm.set_automine(False)
        try:
            for _ in range(self._chance.randint(2, 6)):
                user = self._user()
                to, data, value = self._chance.choice(self._raw_acts())()
                self._evm.submit(user, to, data, value=value, gas=_GAS)
        finally:
            self._evm.mine()
            self._evm.set_automine(True)

    def _raw_acts(self) -> Sequence[Callable[[], tuple[str, bytes, int]]]:
        at = self._evm.addresses
        burn = "depositForBurn(uint256,uint32,bytes32,address,bytes32,uint256,uint32)"
        send = f"send({SEND_PARAM},(uint256,uint256),address)"

        def transfer() -> tuple[str, bytes, int]:
            payee = self._user().address
            return at.usdc, encode_call("transfer(address,uint256)", payee, self._six()), 0

        def burned() -> tuple[str, bytes, int]:
            recipient = self._holder().raw_public_key()
            amount = self._chance.choice((1, 2)) * _EVM_UNIT
            where = (STELLAR_DOMAIN, recipient, at.usdc, ZERO_WORD)
            return at.token_messenger, encode_call(burn, amount, *where, 0, FINALIZED), 0

        def sent() -> tuple[str, bytes, int]:
            recipient, amount = self._holder().raw_public_key(), self._six()
            what = (STELLAR_EID, recipient, amount, amount, b"", b"", b"")
            call = encode_call(send, what, (NATIVE_FEE, 0), self._user().address)
            return at.oft, call, NATIVE_FEE

        def failing() -> tuple[str, bytes, int]:
            too_much = encode_call("transfer(address,uint256)", at.usdc, MAX_UINT256)
            return at.usdc, too_much, 0

        return transfer, transfer, burned, burned, sent, failing

    def _empty_blocks(self) -> None:
        self._evm.mine(self._chance.randint(1, 12))

    def reorg(self) -> None:
        """Replace some last blocks; some of their transactions come again, others never do."""
        if not self._floor:
            return
        most = min(DEEPEST, self._evm.block_number() - self._floor)
        depth = min(most, self._depth())
        if depth < 1:
            return
        self._evm.reorg(depth, remine=self._remined(depth))
        self.depths.append(depth)

    def _depth(self) -> int:
        kind = self._chance.random()
        if kind < 0.5:
            return self._chance.randint(1, 3)
        if kind < 0.8:
            return self._chance.randint(4, 20)
        return self._chance.choice((DEEPEST, DEEPEST, self._chance.randint(21, DEEPEST)))

    def _remined(self, depth: int) -> list[str]:
        """Of each sender its first so many dropped transactions, so that no nonce is left out."""
        head = self._evm.block_number()
        dropped: dict[str, list[str]] = {}
        for height in range(head - depth + 1, head + 1):
            block = self._evm.rpc("eth_getBlockByNumber", hex(height), True)
            for transaction in block["transactions"]:
                dropped.setdefault(transaction["from"], []).append(transaction["hash"])
        dropped.pop(reorg_marker().address.lower(), None)
        return [
            transaction
            for sender in sorted(dropped)
            for transaction in dropped[sender][: self._chance.randint(0, len(dropped[sender]))]
        ]

    # Stellar

    def _mint_on_stellar(self) -> None:
        burned = self._taken(self._burned_on_evm)
        if burned is not None:
            fee = self._chance.choice((0, 0, 3))
            self._bridges.mint_on_stellar(burned, fee=fee)

    def _burn_on_stellar(self) -> None:
        self._burned_on_stellar.append(self._new_burn_on_stellar())

    def _new_burn_on_stellar(self) -> Burned:
        return self._bridges.burn_on_stellar(
            self._holder(), self._user().address, self._six() * DUST
        )

    def _verify_on_stellar(self) -> None:
        sent = self._taken(self._sent_from_evm)
        if sent is not None:
            self._bridges.verify_on_stellar(sent)
            self._verified.append(sent)

    def _deliver_on_stellar(self) -> None:
        sent = self._taken(self._verified)
        if sent is not None:
            self._bridges.deliver_on_stellar(sent, sent.movement.dest_address)

    def _send_from_stellar(self) -> None:
        self._sent_from_stellar.append(self._new_send_from_stellar())

    def _new_send_from_stellar(self) -> Sent:
        return self._bridges.send_from_stellar(
            self._holder(), self._user().address, self._six() * DUST
        )

    def _stellar_crowd(self) -> None:
        """Payments to and from watched accounts, then a ledger with an order in it."""
        for name in ("alice", "bob"):
            asset = self._chance.choice((USDC, USDT0))
            if self._chance.random() < 0.7:
                self._stellar.issue(keypair(name).public_key, asset, self._seven())
        payer, payee = self._chance.sample(("alice", "bob"), 2)
        self._stellar.pay(keypair(payer), keypair(payee).public_key, USDC, self._seven())
        self._open()

    def _deposit(self) -> None:
        self._book.deposit(keypair(self._provider()), self._seven() * 10)

    def _withdraw(self) -> None:
        self._book.withdraw(keypair(self._provider()), self._seven())

    def _set_terms(self) -> None:
        name, key = self._chance.choice(_TERMS)
        self._book.set_terms(keypair(name), [(key, self._terms())])

    def _delete_terms(self) -> None:
        name, key = self._chance.choice(_TERMS)
        self._book.delete_terms(keypair(name), key)

    def _set_rail(self) -> None:
        name = self._chance.choice(("venmo", "wise", "revolut"))
        currencies = ("USD", "EUR", "GBP")[: self._chance.randint(1, 3)]
        rail = Rail(self._chance.randint(0, 3), self._chance.randint(0, 100), currencies)
        self._book.set_rail(name, rail)

    def _open(self) -> None:
        name, key = self._chance.choice(_TERMS)
        taker = self._chance.choice(_TAKERS)
        amount = self._chance.randint(5 * UNIT, 60 * UNIT)
        now = self._stellar.close_time()
        late = [
            deal.order_id
            for deal in self._deals
            if deal.provider == name and now > deal.opened_at + ORDER_TTL
        ][:3]
        prune = late if self._chance.random() < 0.5 else []
        order_id, outcome = self._book.open(keypair(taker), keypair(name), key, amount, prune=prune)
        self._deals = [deal for deal in self._deals if deal.order_id not in prune]
        self._deals.append(Deal(order_id, key, name, taker, amount, outcome.close_time))

    def _settle(self) -> None:
        deal = self._taken(self._deals)
        if deal is not None:
            percent = self._chance.choice((100, 100, 60))
            self._book.prove(
                deal.order_id,
                released=deal.amount * percent // 100,
                nullifier=sha256(deal.order_id.encode()).digest(),
                fiat_paid=deal.amount,
                paid_at=deal.opened_at + 1,
            )

    def _release(self) -> None:
        deal = self._taken(self._deals)
        if deal is not None:
            receiver = deal.provider if deal.key.direction == "onramp" else deal.taker
            self._book.release(keypair(receiver), deal.order_id, deal.amount)

    def _cancel(self) -> None:
        deal = self._taken(self._deals)
        if deal is not None:
            caller = deal.taker if deal.key.direction == "onramp" else deal.provider
            self._book.cancel(keypair(caller), deal.order_id)

    def _expire(self) -> None:
        deal = self._taken(self._deals)
        if deal is not None:
            self._book.expire(keypair(RELAYER), deal.order_id)

    def _let_time_pass(self) -> None:
        """Orders expire by the clock."""
        last = self._stellar.close_time_ms()
        self._stellar.close_ledger(close_time_ms=last + (ORDER_TTL + 1) * 1000)

    def _empty_ledgers(self) -> None:
        for _ in range(self._chance.randint(1, 5)):
            self._stellar.close_ledger()

    # Chance

    def _user(self) -> LocalAccount:
        return self._chance.choice(self._users)

    def _holder(self) -> Keypair:
        return keypair(self._chance.choice(("alice", "bob")))

    def _provider(self) -> str:
        return self._chance.choice(_PROVIDERS)

    def _six(self) -> int:
        return self._chance.randint(_EVM_UNIT, 20 * _EVM_UNIT)

    def _seven(self) -> int:
        return self._chance.randint(UNIT, 20 * UNIT)

    def _terms(self) -> Terms:
        rate = self._chance.randint(9_000, 11_000) * UNIT // 10_000
        return Terms(rate, low=5 * UNIT, high=self._chance.randint(50, 400) * UNIT)

    def _taken(self, waiting: list):
        """One of those that wait, taken out; None when nobody waits."""
        if not waiting:
            return None
        return waiting.pop(self._chance.randrange(len(waiting)))
