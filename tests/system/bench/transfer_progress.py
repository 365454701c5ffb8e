"""How long after something happens on a chain a transfer's owner sees it, by REST and by socket.

Of transfers that were made through the API: on the EVM chain the send of a deposit, on Stellar a
payment. The clock starts when the node is asked to put it into a block or ledger. It stops when an
answer of `GET /v1/transfers/{id}` shows another stage than before, and when the owner's socket has
told of one. The API is asked on one connection, 10 ms after each answer; that pause and its own
time are part of the figure. Ledgers close on a beat of a second, and a follower has to ask for
them; EVM blocks are told to it. Everything that serves transfers runs, a process each.

`p50_ms` and `p99_ms` are of all samples together, then of each kind.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from eth_utils.address import to_checksum_address
from stellar_sdk import TransactionEnvelope
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from devnet.bridges import DUST, EVM, STELLAR
from devnet.customers import Customer, Purse, customer, devnet_bridges, open_accounts
from devnet.evm_sending import GAS_PRICE
from devnet.local_http import local_client
from devnet.scenario import EVM_UNIT, real_time
from devnet.stellar.accounts import PASSPHRASE, address
from devnet.transfers import await_routes
from isthmus_client import Deposit, EvmCalls, Outgoing, StellarTx, to_decimal
from tests.system.bench.site import milliseconds, percentile, print_line, until
from tests.system.bench.transfers_site import TransfersSite, transfers_site

OWNERS = ("paul", "quin", "rosa", "sven")
PAYEE = "tess"
ROUNDS, WARM = 60, 4
"""Of a round, in which each kind happens once. An owner may have a hundred dollars under way."""
BEAT_SECONDS = 1.0
PAUSE_SECONDS = 0.01
TIMEOUT_SECONDS = 60.0
LEAST = EVM_UNIT
"""Each amount is another: what is alike shares its sends, and is looked at together."""
BEFORE = "AWAITING_SIGNATURE"


@dataclass(frozen=True)
class Ready:
    """A transfer that its owner has signed for, and how its chain is asked to take that."""

    who: Customer
    transfer: str
    happen: Callable[[], object]


@dataclass(frozen=True)
class Sample:
    """Seconds until a transfer was seen in another stage."""

    get: float
    socket: float


class Socket(threading.Thread):
    """An owner's stream; notes when each transfer was first told in another stage."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(daemon=True)
        self._socket = connect(f"{url}?channel=intent", proxy=None, max_size=None)
        self._socket.send(json.dumps({"auth": token}))
        self.told: dict[str, float] = {}

    def run(self) -> None:
        """Until `stop`."""
        try:
            for text in self._socket:
                now, transfer = time.monotonic(), json.loads(text).get("transfer")
                if transfer is not None and transfer["stage"] != BEFORE:
                    self.told.setdefault(transfer["id"], now)
        except ConnectionClosed:
            # Waiting for what it did not tell comes to its end.
            print_line("a stream ended")

    def stop(self) -> None:
        """End it."""
        self._socket.close()
        self.join()


def measure() -> dict[str, Any]:
    """What the module's docstring says."""
    before = os.getloadavg()[0]
    with transfers_site() as site, ExitStack() as doors:
        _open_accounts(site)
        people = [
            doors.enter_context(closing(customer(name, site.ports.api_url))) for name in OWNERS
        ]
        with _watching(site, people) as watch:
            rounds = list(_rounds(site, people, watch))[WARM:]
    samples = {
        f"{kind}_{how}": [getattr(each[kind], how) for each in rounds]
        for kind in ("evm", "stellar")
        for how in ("get", "socket")
    }
    together = [seconds for some in samples.values() for seconds in some]
    return {
        "p50_ms": milliseconds(percentile(together, 0.50)),
        "p99_ms": milliseconds(percentile(together, 0.99)),
        **{
            f"{name}_p{share}_ms": milliseconds(percentile(some, share / 100))
            for name, some in samples.items()
            for share in (50, 99)
        },
        "samples": len(together),
        "machine_load": [round(before, 1), round(os.getloadavg()[0], 1)],
    }


def _open_accounts(site: TransfersSite) -> None:
    plenty = ROUNDS * (LEAST + ROUNDS)
    rich = Purse({"usdc": plenty * DUST, "usdt0": 0}, {"usdt0": plenty})
    people = {**dict.fromkeys(OWNERS, rich), PAYEE: Purse({"usdc": 0}, {})}
    open_accounts(people, site.ledgers, site.world.evm)


class Watch:
    """Sees transfers by both ways."""

    def __init__(self, site: TransfersSite, tokens: Mapping[str, str]) -> None:
        url = site.ports.api_url
        stream = f"{url.replace('http', 'ws', 1)}/api/v1/stream"
        self._http = local_client(url, timeout=10.0)
        self._tokens = tokens
        self._sockets = {name: Socket(stream, token) for name, token in tokens.items()}
        for each in self._sockets.values():
            each.start()

    def close(self) -> None:
        """End all."""
        self._http.close()
        for each in self._sockets.values():
            each.stop()

    def sample(self, ready: Ready) -> Sample:
        """Let it happen. Raises `TimeoutError` when it is not seen."""
        began = time.monotonic()
        ready.happen()
        seen = self._await(lambda: self._shown(ready), f"GET {ready.transfer}")
        told = self._sockets[ready.who.name].told
        by_socket = self._await(lambda: told.get(ready.transfer), f"socket {ready.transfer}")
        return Sample(seen - began, by_socket - began)

    def _shown(self, ready: Ready) -> float | None:
        headers = {"Authorization": f"Bearer {self._tokens[ready.who.name]}"}
        answer = self._http.get(f"/v1/transfers/{ready.transfer}", headers=headers)
        answer.raise_for_status()
        return None if answer.json()["stage"] == BEFORE else time.monotonic()

    def _await(self, look: Callable[[], float | None], what: str) -> float:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while (at := look()) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: nothing after {TIMEOUT_SECONDS:g} s")
            # Without a pause the asking itself would take a core from what is measured.
            time.sleep(PAUSE_SECONDS)
        return at


@contextmanager
def _watching(site: TransfersSite, people: Sequence[Customer]) -> Iterator[Watch]:
    with closing(Watch(site, {each.name: each.api.sign_in() for each in people})) as watch:
        yield watch


def _rounds(
    site: TransfersSite, people: Sequence[Customer], watch: Watch
) -> Iterator[dict[str, Sample]]:
    """A round a beat: a payment as its ledger closes, and in the middle of it a send."""
    print_line(f"{ROUNDS} rounds of a payment and a send; load {os.getloadavg()[0]:.1f}")
    site.ledgers.next_close = real_time
    await_routes(people[0].api, lambda: _pass_a_ledger(site))
    beat = time.monotonic()
    for number in range(ROUNDS):
        who = people[number % len(people)]
        amount = LEAST + number
        payment, send = _payment(site, who, amount * DUST), _send(site, who, amount)
        # What took longer than a beat skips one.
        beat += BEAT_SECONDS * max(1, -(-(time.monotonic() - beat) // BEAT_SECONDS))
        until(beat)
        on_stellar = watch.sample(payment)
        until(beat + BEAT_SECONDS / 2)
        yield {"stellar": on_stellar, "evm": watch.sample(send)}


def _pass_a_ledger(site: TransfersSite) -> None:
    site.ledgers.close_next_ledger(real_time)
    time.sleep(PAUSE_SECONDS * 10)


def _payment(site: TransfersSite, who: Customer, amount: int) -> Ready:
    """A transaction on Stellar in the node's queue, which a ledger takes when it closes."""
    there = address(PAYEE)
    quote = who.api.quote(
        "usdc-send",
        to_decimal(amount, STELLAR),
        source_chain=STELLAR,
        source_address=who.account,
        dest_chain=STELLAR,
        dest_address=there,
    )
    transfer = who.api.start_transfer(quote.id, key=str(uuid4())).id
    wanted = Outgoing.quoted(
        transfer,
        quote,
        route="usdc-send",
        account=who.account,
        chain=STELLAR,
        recipient=there,
        amount=to_decimal(amount, STELLAR),
    )
    action = who.api.action(wanted, devnet_bridges()).action
    if not isinstance(action, StellarTx):
        raise TypeError(f"{who.name} is shown {action}")
    envelope = TransactionEnvelope.from_xdr(action.xdr, PASSPHRASE)
    envelope.sign(who.key)
    site.ledgers.server.send_transaction(envelope)
    close = real_time(site.ledgers.close_time_ms())
    return Ready(who, transfer, lambda: site.ledgers.close_ledger(close_time_ms=close))


def _send(site: TransfersSite, who: Customer, amount: int) -> Ready:
    """A signed transaction of the EVM chain, whose node makes a block of it at once."""
    quote = who.api.quote(
        "usdt0-deposit",
        to_decimal(amount, EVM),
        source_chain=EVM,
        source_address=who.wallet,
        dest_address=who.account,
    )
    transfer = who.api.start_transfer(quote.id, key=str(uuid4())).id
    wanted = Deposit.quoted(
        transfer,
        quote,
        route="usdt0-deposit",
        chain=EVM,
        payer=who.wallet,
        recipient=who.account,
        amount=to_decimal(amount, EVM),
    )
    action = who.api.action(wanted, devnet_bridges()).action
    if not isinstance(action, EvmCalls):
        raise TypeError(f"{who.name} is shown {action}")
    *before, last = action.calls
    evm = site.world.evm
    for each in before:
        evm.send(who.payer, each.to, bytes.fromhex(each.data[2:]), value=each.value)
    transaction: dict[str, Any] = {
        "type": 2,
        "chainId": evm.rpc.chain_id,
        "nonce": int(evm.rpc("eth_getTransactionCount", who.payer.address, "pending"), 16),
        "to": to_checksum_address(last.to),
        "value": last.value,
        "data": last.data,
        "gas": 1_000_000,
        "maxFeePerGas": GAS_PRICE,
        "maxPriorityFeePerGas": GAS_PRICE // 2,
    }
    raw = f"0x{bytes(who.payer.sign_transaction(transaction).raw_transaction).hex()}"
    return Ready(who, transfer, lambda: evm.rpc("eth_sendRawTransaction", raw))
