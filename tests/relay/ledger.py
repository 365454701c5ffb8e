"""A Stellar node in this process, over HTTP, and a relay that delivers there."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any

from sqlalchemy import Engine, func, insert, select, text
from sqlalchemy.dialects.postgresql import insert as upsert
from stellar_sdk import Keypair

from devnet.evm_messages import message_nonce
from devnet.stellar.accounts import RELAYER, keypair
from devnet.stellar.history import LedgerRow
from indexer.chains.stellar.account_state import StellarAccountNodes
from indexer.config.networks import load_network
from relay.account import AccountRelay, TurnReport
from relay.jobs.cctp_deliveries import StellarDeliveries
from relay.keys import LocalStellarKey, StellarKey
from relay.leases import account_session
from relay.limits import SpendLimits
from relay.senders.stellar import StellarSender
from tests.devnet.stellar.cctp import inbound
from tests.devnet.stellar.chain import Chain
from tests.factories.relay import owe
from warehouse_schema.facts import blocks, cursors
from warehouse_schema.identifiers import Stroops
from warehouse_schema.relay import attempts, slots

STELLAR = load_network("devnet").stellar
AMOUNT = 5_000_000
LIMITS = SpendLimits(budget=Stroops(10**9), floor=Stroops(10**7))


@dataclass(frozen=True)
class Message:
    nonce: str
    message: bytes
    attestation: bytes
    recipient: str
    holder: Keypair
    """Of the recipient."""


@dataclass
class LedgerStand:
    """A Stellar node over HTTP, and the warehouse."""

    chain: Chain
    url: str
    engine: Engine
    relay_engine: Engine
    began: int = field(default_factory=time.monotonic_ns)
    """Names accounts of one test, whose chain it shares with others."""
    opened: list[StellarAccountNodes] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(time.monotonic_ns()))

    def message(self, *, has_trustline: bool = True) -> Message:
        number = next(self.numbers)
        holder = self.chain.open(f"relay {number}", usdc=0 if has_trustline else None)
        nonce = message_nonce(b"", number)
        message, attestation = inbound(holder.public_key, amount=AMOUNT, nonce=nonce)
        return Message(f"0x{nonce.hex()}", message, attestation, holder.public_key, holder)

    def add_message(self, **options: Any) -> Message:
        found = self.message(**options)
        with self.engine.begin() as conn:
            values = (found.nonce, found.message, found.attestation, found.recipient)
            owe(conn, STELLAR.id, *values, amount=AMOUNT)
        return found

    def relay(
        self,
        signer: Keypair | StellarKey | None = None,
        *,
        nodes: type[StellarAccountNodes] = StellarAccountNodes,
        urls: Sequence[str] = (),
    ) -> AccountRelay[Any]:
        """The relay of a new process."""
        self.opened.append(nodes(STELLAR, urls or [self.url], timeout=30.0))
        signer = signer or keypair(RELAYER)
        key = LocalStellarKey(signer) if isinstance(signer, Keypair) else signer
        sender = StellarSender(STELLAR, self.opened[-1], key)
        return AccountRelay(sender, StellarDeliveries(STELLAR), LIMITS, time.monotonic)

    def turns(self, relay: AccountRelay[Any], number: int = 1) -> TurnReport:
        turn = TurnReport()
        with account_session(self.relay_engine, relay.account) as conn:
            for _ in range(number):
                turn = relay.turn(conn)
        return turn

    def close(self, seconds: int = 5) -> None:
        """Close a ledger and ingest it."""
        self.chain.at(self.chain.now + seconds)
        self.ingest(self.chain.node.latest)

    def ingest_all(self) -> None:
        """Ingest the ledgers that the warehouse does not have."""
        query = select(func.max(blocks.c.height)).where(blocks.c.chain == STELLAR.id)
        with self.engine.connect() as conn:
            newest = conn.scalar(query) or self.chain.node.latest.sequence - 1
        for sequence in range(newest + 1, self.chain.node.latest.sequence + 1):
            self.ingest(self.chain.node.ledger(sequence))

    def ingest(self, latest: LedgerRow) -> None:
        """Ingest a ledger as the newest."""
        block = {
            "chain": STELLAR.id,
            "height": latest.sequence,
            "hash": latest.hash,
            "parent_hash": "before",
            "time": latest.close_time,
            "events": 0,
        }
        cursor = {
            "height": latest.sequence,
            "block_hash": latest.hash,
            "block_time": latest.close_time,
            "head_height": latest.sequence,
            "head_time": latest.close_time,
            "final_height": latest.sequence,
        }
        with self.engine.begin() as conn:
            conn.execute(insert(blocks).values(block))
            written = upsert(cursors).values(chain=STELLAR.id, **cursor)
            conn.execute(written.on_conflict_do_update(index_elements=["chain"], set_=cursor))

    def received(self, message: Message) -> int:
        return self.chain.balance(message.recipient)

    def sequence(self) -> int:
        account = self.chain.account(keypair(RELAYER).public_key)
        assert account is not None
        return account.sequence

    def slots_of(self, message: Message) -> list[str | None]:
        query = select(slots.c.outcome).where(slots.c.key == message.nonce)
        with self.engine.connect() as conn:
            return list(conn.scalars(query.order_by(slots.c.number)))

    def signed_for(self, message: Message) -> int:
        query = select(attempts.c.id).join_from(attempts, slots).where(slots.c.key == message.nonce)
        with self.engine.connect() as conn:
            return len(conn.scalars(query).all())

    def age_attempts(self, seconds: int) -> None:
        past = timedelta(seconds=seconds)
        update = text(
            "UPDATE relay.attempts SET created_at = created_at - :past, sent_at = sent_at - :past"
        )
        with self.engine.begin() as conn:
            conn.execute(update.bindparams(past=past))
