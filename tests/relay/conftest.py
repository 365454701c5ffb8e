"""A local EVM chain, a warehouse with jobs for it, and a relay."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from threading import Thread
from typing import Any, TypeVar

import pytest
from eth_account.signers.local import LocalAccount
from sqlalchemy import Engine, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.engine import URL

from devnet.evm import DOMAIN, STELLAR_DOMAIN, EvmDevnet, dev_account
from devnet.evm_deployment import deploy
from devnet.evm_messages import Attesters, BurnMessage, address_word, message_nonce
from devnet.evm_node import AnvilProcess
from devnet.stellar.rpc import Rpc
from devnet.stellar.server import DevnetServer
from devnet.world import remotes_of_evm
from indexer.chains.evm.account_state import EvmAccountNodes
from indexer.config.networks import EvmChain, load_network
from relay.account import AccountRelay, TurnReport
from relay.jobs.cctp_deliveries import EvmDeliveries
from relay.keys import EvmKey, LocalEvmKey
from relay.leases import account_session
from relay.limits import SpendLimits
from relay.senders.evm import EvmSender
from relay.status import all_health
from tests.devnet.stellar.cctp import REMOTES
from tests.devnet.stellar.chain import Chain
from tests.factories.relay import owe
from tests.relay.ledger import LedgerStand
from warehouse_schema.engine import make_engine
from warehouse_schema.facts import blocks, cursors
from warehouse_schema.identifiers import Wei
from warehouse_schema.relay import attempts, failure_resets, slots

EVM = load_network("devnet").evm[0]
RELAYER, STRANGER = dev_account(3), dev_account(4)
OPERATOR = RELAYER.address.lower()
RELAYER_KEY = RELAYER.key.hex()
AMOUNT = 5_000_000
LIMITS = SpendLimits(budget=Wei(10**18), floor=Wei(10**15))


@dataclass(frozen=True)
class Message:
    """An attested burn on Stellar for a new recipient on the EVM chain."""

    nonce: str
    message: bytes
    attestation: bytes
    recipient: str


@dataclass
class Stand:
    """The chain and the warehouse. `engine` is the owner's, `relay_engine` the relay's."""

    devnet: EvmDevnet
    url: str
    engine: Engine
    relay_engine: Engine
    stack: ExitStack
    chain: EvmChain = EVM
    numbers: Iterator[int] = field(default_factory=count)
    ingested: list[dict[str, Any]] = field(default_factory=list)

    def message(self, amount: int = AMOUNT) -> Message:
        """A message without a transfer."""
        remote = remotes_of_evm()
        recipient = f"0x{next(self.numbers) + 1:040x}".replace("0x00", "0x5e", 1)
        source = BurnMessage(
            source_domain=STELLAR_DOMAIN,
            destination_domain=DOMAIN,
            sender=remote.token_messenger_minter,
            recipient=address_word(self.devnet.addresses.token_messenger),
            burn_token=remote.usdc_sac,
            mint_recipient=address_word(recipient),
            amount=amount,
            message_sender=bytes(32),
        ).encode()
        nonce = message_nonce(source, next(self.numbers))
        message, attestation = Attesters().attest(source, nonce=nonce, finality_executed=2000)
        return Message(f"0x{nonce.hex()}", message, attestation, recipient)

    def add_message(self, amount: int = AMOUNT, **changes: Any) -> Message:
        """A message that a transfer waits for."""
        found = self.message(amount)
        with self.engine.begin() as conn:
            owe(
                conn,
                self.chain.id,
                found.nonce,
                found.message,
                found.attestation,
                found.recipient,
                amount=amount,
                **changes,
            )
        return found

    def relay(
        self,
        *,
        nodes: type[EvmAccountNodes] = EvmAccountNodes,
        limits: SpendLimits = LIMITS,
        urls: Sequence[str] = (),
        key: EvmKey | str = RELAYER_KEY,
        is_draining: bool = False,
    ) -> AccountRelay[Any]:
        """The relay of a new process."""
        account_nodes = nodes(self.chain, urls or [self.url], timeout=30.0)
        opened = self.stack.enter_context(closing(account_nodes))
        sender = EvmSender(self.chain, opened, opened_key(key))
        return AccountRelay(
            sender, EvmDeliveries(self.chain), limits, time.monotonic, is_draining=is_draining
        )

    def turns(self, relay: AccountRelay[Any], number: int = 1) -> TurnReport:
        """Turns of a new process; the report of the last one."""
        turn = TurnReport()
        with account_session(self.relay_engine, relay.account) as conn:
            for _ in range(number):
                self._settle()
                turn = relay.turn(conn)
        return turn

    def ingest(self, final: int | None = None) -> None:
        """Ingest blocks as a follower does; `final` defaults to the head."""
        self._settle()
        head = int(self.devnet.rpc("eth_blockNumber"), 16)
        for height in range(len(self.ingested), head + 1):
            block = self.devnet.rpc("eth_getBlockByNumber", hex(height), False)
            self.ingested.append(
                {
                    "chain": self.chain.id,
                    "height": height,
                    "hash": block["hash"],
                    "parent_hash": block["parentHash"],
                    "time": int(block["timestamp"], 16),
                    "events": 0,
                }
            )
        newest = self.ingested[head]
        cursor = {
            "height": head,
            "block_hash": newest["hash"],
            "block_time": newest["time"],
            "head_height": head,
            "head_time": newest["time"],
            "safe_height": head,
            "final_height": head if final is None else final,
        }
        with self.engine.begin() as conn:
            conn.execute(upsert(blocks).on_conflict_do_nothing(), self.ingested)
            written = upsert(cursors).values(chain=self.chain.id, **cursor)
            conn.execute(written.on_conflict_do_update(index_elements=["chain"], set_=cursor))

    def received(self, message: Message) -> int:
        """USDC of its recipient."""
        self._settle()
        return self.devnet.balance_of(self.devnet.addresses.usdc, message.recipient)

    def deliver(self, message: Message, account: LocalAccount = STRANGER) -> None:
        """As another account."""
        self.devnet.receive_message(account, message.message, message.attestation)

    def nonce(self, account: LocalAccount = RELAYER) -> int:
        """Nonce of an account."""
        self._settle()
        return int(self.devnet.rpc("eth_getTransactionCount", account.address, "latest"), 16)

    def _settle(self) -> None:
        """anvil answers a broadcast before it has mined the transaction."""
        assert self.mines_all(within=30.0), "anvil does not mine"

    def mines_all(self, *, within: float) -> bool:
        """True once anvil has mined all pending transactions, or does not mine."""
        until = time.monotonic() + within
        while self.devnet.rpc("anvil_getAutomine") and self._is_any_pending():
            if time.monotonic() > until:
                return False
            time.sleep(0.005)
        return True

    def _is_any_pending(self) -> bool:
        return int(self.devnet.rpc("txpool_status")["pending"], 16) > 0

    def slots_of(self, message: Message) -> list[tuple[int, str | None]]:
        """Number and outcome."""
        query = select(slots.c.number, slots.c.outcome).where(slots.c.key == message.nonce)
        with self.engine.connect() as conn:
            return [(row.number, row.outcome) for row in conn.execute(query.order_by("number"))]

    def signed_for(self, message: Message) -> list[str]:
        """Hashes in order of signing."""
        query = (
            select(attempts.c.tx_hash)
            .join_from(attempts, slots)
            .where(slots.c.key == message.nonce)
            .order_by(attempts.c.id)
        )
        with self.engine.connect() as conn:
            return list(conn.scalars(query))

    def age_attempts(self, seconds: int) -> None:
        """Age all attempts."""
        with self.engine.begin() as conn:
            conn.execute(
                text(
                    "UPDATE relay.attempts SET created_at = created_at - :past,"
                    " sent_at = sent_at - :past"
                ).bindparams(past=timedelta(seconds=seconds))
            )

    def age_slots(self, seconds: int = 3600) -> None:
        """Age all closed slots and resets, so that pauses end."""
        past = timedelta(seconds=seconds)
        with self.engine.begin() as conn:
            conn.execute(update(slots).values(closed_at=slots.c.closed_at - past))
            conn.execute(update(failure_resets).values(given_at=failure_resets.c.given_at - past))

    def health(self) -> Any:
        with self.engine.connect() as conn:
            [row] = all_health(conn)
        return row


def opened_key(key: EvmKey | str) -> EvmKey:
    """A key of a service, or one from its hex digits."""
    return LocalEvmKey.from_text(key, "KEY") if isinstance(key, str) else key


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EvmDevnet, str]]:
    log_file = tmp_path_factory.mktemp("relay") / "anvil.log"
    with AnvilProcess(log_file=log_file) as anvil, deploy(anvil.rpc_url, remotes_of_evm()) as evm:
        yield evm, anvil.rpc_url


S = TypeVar("S", bound=Stand)


@contextmanager
def open_stand(
    kind: type[S], node: tuple[EvmDevnet, str], database: URL, engine: Engine
) -> Iterator[S]:
    """A reset chain and an empty warehouse."""
    devnet, url = node
    snapshot = devnet.rpc("evm_snapshot")
    relay_engine = make_engine(database, role="relay")
    with ExitStack() as stack:
        stand = kind(devnet, url, engine, relay_engine, stack)
        stand.ingest()
        yield stand
    relay_engine.dispose()
    devnet.rpc("evm_setAutomine", True)
    # A block mined during the revert would leave a number without a block.
    stand.mines_all(within=1.0)
    devnet.rpc("anvil_dropAllTransactions")
    devnet.rpc("evm_revert", snapshot)


@pytest.fixture
def stand(node: tuple[EvmDevnet, str], database: URL, engine: Engine) -> Iterator[Stand]:
    """A stand for each test."""
    with open_stand(Stand, node, database, engine) as stand:
        yield stand


@pytest.fixture(scope="session")
def served() -> Iterator[tuple[Chain, str]]:
    chain = Chain(REMOTES)
    server = DevnetServer(Rpc(chain.node), host="127.0.0.1", port=0, interval=None)
    thread = Thread(target=server.run)
    thread.start()
    yield chain, f"http://127.0.0.1:{server.port}"
    server.stop()
    thread.join()


@pytest.fixture
def ledger_stand(served: tuple[Chain, str], database: URL, engine: Engine) -> Iterator[LedgerStand]:
    chain, url = served
    relay_engine = make_engine(database, role="relay")
    stand = LedgerStand(chain, url, engine, relay_engine)
    yield stand
    for nodes in stand.opened:
        nodes.close()
    relay_engine.dispose()
