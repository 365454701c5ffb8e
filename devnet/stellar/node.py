"""The node: takes transactions, closes ledgers, keeps state and history.

It is the only validator and the only party, so a closed ledger is final at once. All of its
methods may be called from any thread.
"""

import logging
import time
from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from threading import RLock

from stellar_sdk import Keypair, TransactionEnvelope, xdr
from stellar_sdk.operation import CreateAccount

from devnet.stellar import building
from devnet.stellar.accounts import ROOT, keypair
from devnet.stellar.apply import apply_all
from devnet.stellar.entries import Layer, State
from devnet.stellar.genesis import Genesis, first_entries, first_transactions
from devnet.stellar.history import LedgerRow, TransactionRow, ledger_row
from devnet.stellar.host import Ledger
from devnet.stellar.ledger import Agreed, Head, close, first_head, transaction_set
from devnet.stellar.protocol30 import MUXED_CONTRACT_PROTOCOL, read
from devnet.stellar.simulation import AuthMode, Simulation, simulate
from devnet.stellar.store import Store
from devnet.stellar.transactions import Invalid, Transaction, check_valid, envelope_hash

logger = logging.getLogger(__name__)

FIRST_LEDGER = 2
"""First ledger that is served, unless the genesis says otherwise."""
FRIENDBOT_UNITS = "10000"
"""XLM that friendbot gives a new account."""
LEDGER_MS = 5_000
"""Milliseconds between ledgers of the fixed clock, about the public network's pace."""

REPLACED_AT = 10
"""Times the fee rate of a waiting transaction that takes its place in the queue."""

Clock = Callable[[int], int]
"""From the last close time to the next, in ms; the node moves on what would come too early."""


def wall_clock(_: int) -> int:
    """The machine's time, whatever the last close time was."""
    return time.time_ns() // 1_000_000


def fixed_clock(last: int) -> int:
    """Genesis time and five seconds a ledger: the same scenario has the same times."""
    return last + LEDGER_MS


class TimeWentBack(ValueError):
    """The close time is not after that of the ledger before."""


class NotAnUpgrade(ValueError):
    """The requested protocol is not newer than the current one."""


class FundingRefused(Exception):
    """Friendbot could not create the account."""


@dataclass(frozen=True)
class Submission:
    """Status of a submitted transaction; `error` when it may not enter a ledger."""

    status: str
    hash: str
    error: xdr.TransactionResult | None = None


class Node:
    """A chain, from its genesis or from the end of its store."""

    def __init__(
        self, genesis: Genesis, *, clock: Clock = wall_clock, store: Store | None = None
    ) -> None:
        self.lock = RLock()
        self._clock = clock
        self._store = store
        self._pending: dict[bytes, Transaction] = {}
        self._upgrade: int | None = None
        self._ledgers: list[LedgerRow] = []
        self._by_hash: dict[str, TransactionRow] = {}
        if store is not None:
            store.claim(genesis.fingerprint())
            self._recall(store)
        if not self._ledgers:
            self._begin(genesis)

    def _recall(self, store: Store) -> None:
        self._state = State(store.entries())
        for raw in store.metas():
            meta = read(xdr.LedgerCloseMeta, raw)
            self._remember(ledger_row(meta, raw))
            assert meta.v2 is not None
            header = meta.v2.ledger_header
        if self._ledgers:
            last = self._ledgers[-1]
            self._head = Head(
                last.sequence,
                bytes.fromhex(last.hash),
                last.close_time_ms,
                header.header.fee_pool.int64,
                last.protocol,
            )

    def _begin(self, genesis: Genesis) -> None:
        entries = first_entries(genesis.sequence)
        self._state = State({})
        self._head = first_head(genesis.time, genesis.protocol, entries, genesis.sequence)
        agreed = Agreed(fixed_clock(self._head.close_time_ms))
        close_time = agreed.close_time_ms // 1000
        transactions = first_transactions(genesis.remotes, close_time, genesis.sequence + 1)
        self._close(transactions, agreed, entries)
        failed = [row.hash for row in self._ledgers[0].transactions if not row.succeeded]
        if failed:
            raise RuntimeError(f"genesis does not apply: {failed}")

    @property
    def first(self) -> int:
        """The first ledger that is served."""
        return self._ledgers[0].sequence

    @property
    def latest(self) -> LedgerRow:
        """The last closed ledger."""
        return self._ledgers[-1]

    def ledger(self, sequence: int) -> LedgerRow:
        """A closed ledger from the first served on; raise IndexError for any other."""
        if sequence < self.first:
            raise IndexError(sequence)
        return self._ledgers[sequence - self.first]

    def transaction(self, tx_hash: str) -> TransactionRow | None:
        """A transaction of a closed ledger by its lower-case hex hash, or a fee bump's inner."""
        return self._by_hash.get(tx_hash)

    def entry(self, key: bytes) -> bytes | None:
        """LedgerEntry XDR of a live entry by LedgerKey XDR."""
        with self.lock:
            return self._state.get(key)

    def entries(self) -> list[bytes]:
        """Every live entry of the last closed ledger, XDR `LedgerEntry` each."""
        with self.lock:
            return [*self._state.entries.values()]

    def envelope(self, text: str) -> xdr.TransactionEnvelope:
        """Read base64 XDR by the definitions in force; raise ValueError or EOFError."""
        raw = b64decode(text)
        if self.latest.protocol < MUXED_CONTRACT_PROTOCOL:
            return xdr.TransactionEnvelope.from_xdr_bytes(raw)
        return read(xdr.TransactionEnvelope, raw)

    def submit(self, envelope: xdr.TransactionEnvelope) -> Submission:
        """Queue a transaction for the next ledger, if it could enter it.

        A transaction that a ledger has taken already is refused for its sequence number, as any
        other that comes too late: only what waits in the queue is a duplicate.
        """
        with self.lock:
            tx_hash = envelope_hash(envelope)
            try:
                tx = Transaction.from_xdr(envelope)
                waiting = self._waiting_of(tx.source)
                if waiting is not None and tx.hash in (waiting.hash, waiting.inner_hash):
                    return Submission("DUPLICATE", tx_hash.hex())
                if waiting is not None and not _may_replace(tx, waiting):
                    return Submission("TRY_AGAIN_LATER", tx_hash.hex())
                # Core judges a submission by the last close time, not by the one to come.
                check_valid(tx, self._next_layer(), self.latest.close_time)
                self._check_funds(tx, waiting)
            except Invalid as invalid:
                return Submission("ERROR", tx_hash.hex(), invalid.result())
            self._queue(tx, waiting)
            return Submission("PENDING", tx_hash.hex())

    def _waiting_of(self, source: str) -> Transaction | None:
        return next((tx for tx in self._pending.values() if tx.source == source), None)

    def _queue(self, tx: Transaction, replaced: Transaction | None) -> None:
        if replaced is not None:
            del self._pending[replaced.hash]
        self._pending[tx.hash] = tx

    def _check_funds(self, tx: Transaction, replaced: Transaction | None) -> None:
        """A payer of several pending transactions must afford them all."""
        promised = sum(
            other.fee_bid
            for other in self._pending.values()
            if other.payer == tx.payer and other is not replaced
        )
        payer = self._next_layer().account(tx.payer)
        if payer is None or payer.spendable < promised + tx.fee_bid:
            raise Invalid(xdr.TransactionResultCode.txINSUFFICIENT_BALANCE)

    def simulate(
        self, envelope: xdr.TransactionEnvelope, mode: AuthMode = AuthMode.UNSAID
    ) -> Simulation:
        """Try a contract call on the last ledger's state; raise `CannotSimulate` for other things.

        Transactions that wait do not count: they may change what was found.
        """
        with self.lock:
            latest = self.latest
            ledger = Ledger(latest.sequence, latest.close_time)
            return simulate(envelope, self._state, ledger, mode)

    def prepared(self, envelope: TransactionEnvelope) -> TransactionEnvelope:
        """A contract call with the resources and authorisations that the last ledger requires."""
        return building.prepared(envelope, self.simulate)

    def close_ledger(
        self, *, close_time_ms: int | None = None, without_set: bool = False
    ) -> LedgerRow:
        """Close a ledger with what is pending; raise `TimeWentBack` for too early a time.

        Before Protocol 30's format a close time is rounded up to whole seconds. With `without_set`
        the transactions wait on, as where validators could not get the proposed set (CAP-83).
        """
        with self.lock:
            last = self._head.close_time_ms
            if close_time_ms is None:
                close_time_ms = max(last + 1, self._clock(last))
            if close_time_ms <= last:
                raise TimeWentBack(f"the last ledger closed at {last} ms")
            if not self._head.has_milliseconds:
                close_time_ms += -close_time_ms % 1000
            transactions = self._still_valid(close_time_ms // 1000)
            agreed = Agreed(close_time_ms, protocol=self._upgrade)
            if without_set:
                proposed = transaction_set(self._head.hash, transactions).to_xdr_bytes()
                agreed = replace(agreed, proposed=sha256(proposed).digest())
                transactions = []
            else:
                self._pending.clear()
            self._upgrade = None
            return self._close(transactions, agreed, {})

    def upgrade(self, protocol: int) -> None:
        """Have the next ledger apply an upgrade; a process that ends before it forgets it.

        Protocols after 30 are closed in the format of 30. Raise `NotAnUpgrade` unless it is newer.
        """
        with self.lock:
            if protocol <= self._head.protocol:
                raise NotAnUpgrade(f"protocol {self._head.protocol} is in force")
            self._upgrade = protocol

    def fund(self, address: str) -> str:
        """Queue the root's creation of an account and return the transaction's hash.

        Raise `FundingRefused` when the account exists, and ValueError when it is no account.
        """
        with self.lock:
            Keypair.from_public_key(address)
            if self._next_layer().account(address) is not None:
                raise FundingRefused(f"{address} exists already")
            root = keypair(ROOT)
            account = self._next_layer().account(root.public_key)
            assert account is not None
            if any(tx.source == root.public_key for tx in self._pending.values()):
                # One transaction per source and ledger: the second waits for the next.
                self.close_ledger()
                account = self._next_layer().account(root.public_key)
                assert account is not None
            creation = CreateAccount(address, FRIENDBOT_UNITS)
            envelope = building.build(root, account.sequence + 1, [creation], self.prepared)
            answer = self.submit(envelope.to_xdr_object())
            if answer.status != "PENDING":
                raise FundingRefused(f"{answer.status}: {answer.error}")
            return answer.hash

    def _next_layer(self) -> Layer:
        return Layer(self._state, self._head.sequence + 1)

    def _still_valid(self, close_time: int) -> list[Transaction]:
        """The pending transactions in apply order: classic first, then contract calls."""
        kept = []
        for tx in self._pending.values():
            try:
                check_valid(tx, self._next_layer(), close_time)
            except Invalid as invalid:
                logger.info("dropped transaction=%s code=%s", tx.hash.hex(), invalid.code.name)
            else:
                kept.append(tx)
        return sorted(kept, key=lambda tx: tx.is_soroban)

    def _close(
        self, transactions: Sequence[Transaction], agreed: Agreed, first: dict[bytes, bytes]
    ) -> LedgerRow:
        """Close a ledger; `first` are the entries of ledger 1, which no ledger's meta contains."""
        base = Layer(self._state, self._head.sequence + 1)
        base.absorb(dict(first))
        layer = base.above()
        applied = apply_all(transactions, layer, agreed.close_time_ms // 1000)
        layer.commit()
        entries = _after(self._state.entries, base.writes)
        closed = close(self._head, agreed, applied, entries)
        raw = closed.meta.to_xdr_bytes()
        row = ledger_row(closed.meta, raw)
        if self._store is not None:
            self._store.append(row.sequence, raw, base.writes)
        base.commit()
        self._head = closed.head
        self._remember(row)
        return row

    def _remember(self, row: LedgerRow) -> None:
        self._ledgers.append(row)
        for transaction in row.transactions:
            self._by_hash[transaction.hash] = transaction
            if transaction.inner_hash is not None:
                self._by_hash[transaction.inner_hash] = transaction


def _may_replace(tx: Transaction, waiting: Transaction) -> bool:
    """Only a fee bump of the same sequence number may, and only for ten times the rate.

    Raise `Invalid` for less than that.
    """
    if waiting.sequence > tx.sequence:
        raise Invalid(xdr.TransactionResultCode.txBAD_SEQ)
    if not tx.is_fee_bump or tx.sequence != waiting.sequence:
        return False
    bid, waiting_bid = tx.fee_bid - tx.resource_fee, waiting.fee_bid - waiting.resource_fee
    if bid * waiting.minimum < REPLACED_AT * waiting_bid * tx.minimum:
        enough = -(-REPLACED_AT * waiting_bid * tx.minimum // waiting.minimum)
        code = xdr.TransactionResultCode.txINSUFFICIENT_FEE
        raise Invalid(code, fee_needed=enough + tx.resource_fee)
    return True


def _after(entries: dict[bytes, bytes], writes: dict[bytes, bytes | None]) -> dict[bytes, bytes]:
    changed = dict(entries)
    State(changed).absorb(writes)
    return changed
