"""State of our own Stellar accounts: funds, sequence numbers, simulation and submission.

Simulations go to one node, with failover. Funds, sequence numbers and applied transactions are read
from every node. Closed ledgers are final, so an applied transaction stays applied; a transaction
that no node has is only known to be expired once its time bounds are past.
"""

import base64
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stellar_sdk import StrKey, xdr

from indexer.chains.http.operators import (
    SourcesDisagree,
    next_number,
    reached,
    require_operators,
)
from indexer.chains.stellar.accounts import AccountReader, read_entry, simulate
from indexer.chains.stellar.checked_nodes import CheckedStellarNode
from indexer.chains.stellar.rpc import StellarRpc, field
from indexer.chains.stellar.xdr.ledger_entries import account_key, parse_account
from indexer.chains.stellar.xdr.simulation import SimulationResult
from indexer.errors import CallReverted, InconsistentAnswer, RetentionGap
from warehouse_schema.identifiers import Height, StellarAddress, Stroops, TxHash, UnixSeconds

UNKNOWN_HASH = TxHash("0" * 64)
"""Hash of no transaction: its lookup returns the node's window of ledgers."""

_PENDING = "PENDING"
_BASE_RESERVE = Stroops(5_000_000)
"""Per entry (0.5 XLM), voted by the validators."""


@dataclass(frozen=True, slots=True)
class AccountFunds:
    """An account in the newest ledger of a node."""

    sequence: int
    """Of its last transaction."""
    spendable: Stroops
    """Above its reserve and selling liabilities."""


@dataclass(frozen=True, slots=True)
class AppliedTransaction:
    """A transaction in a ledger."""

    ledger: Height
    succeeded: bool
    charged: Stroops


@dataclass(frozen=True, slots=True)
class LookupWindow:
    """Close times of the ledgers in which a node can look up transactions."""

    oldest: UnixSeconds
    latest: UnixSeconds


class StellarAccountNodes(AccountReader):
    """Reads and submits for our accounts through the chain's nodes. Not thread-safe."""

    def funds(self, account: StellarAddress) -> AccountFunds | None:
        """Sequence number and balance; None when no node has the account.

        Each is the highest value that the needed number of operators has reached. Raises
        `RetryableChainError`, or `PermanentChainError` when every node is unfit.
        """
        answers = self._funds(account)
        if not answers:
            return None
        needed = self._nodes.needed
        return AccountFunds(
            sequence=reached([(operator, each.sequence) for operator, each in answers], needed),
            spendable=reached([(operator, each.spendable) for operator, each in answers], needed),
        )

    def next_sequence(self, account: StellarAddress, own: int | None) -> int:
        """Next sequence number after our own (`indexer.chains.http.operators.next_number`).

        Raises `NotEnoughSources`, `SourcesDisagree`, else as `funds` does.
        """
        answers = [(operator, each.sequence + 1) for operator, each in self._funds(account)]
        return next_number(account, own, answers, self._nodes.needed)

    def _funds(self, account: StellarAddress) -> list[tuple[str, AccountFunds]]:
        """Funds by each node that has the account."""
        key = account_key(account)
        answers = self._nodes.fan_out(lambda node: read_entry(node, key, _funds_of))
        return [(operator, each) for operator, each in answers if each is not None]

    def find_by_sequence(
        self, account: StellarAddress, numbers: Collection[int], since: Height
    ) -> dict[int, bytes]:
        """Envelopes of an account in ledgers from `since` on, by sequence number.

        Reads all transactions of these ledgers at any one node until it has them. Raises
        `RetentionGap` when the node no longer has the first ledger, else as `funds` does.
        """
        key = StrKey.decode_ed25519_public_key(account)
        wanted = {number.to_bytes(8, "big"): number for number in numbers}
        return self._nodes.failover(lambda node: _scan(node, key, wanted, since))

    def find_applied(
        self, transactions: Collection[TxHash]
    ) -> tuple[Mapping[TxHash, AppliedTransaction], LookupWindow]:
        """Transactions that are in a ledger, and the window that every node covers.

        A node's window is that of its first response. Raises `SourcesDisagree` when a node lacks a
        transaction in a ledger of its window that another has, else as `funds` does.
        """
        answers = self._nodes.fan_out(lambda node: _look_up(node, transactions))
        return _combine(answers, self._nodes.needed)

    def are_expired(
        self, transactions: Collection[TxHash], since: UnixSeconds, last: UnixSeconds
    ) -> bool:
        """No ledger between these times has any of the transactions, so they can never apply.

        The needed number of operators must agree. Raises `NotEnoughSources`, else as
        `find_applied` does.
        """
        answers = self._nodes.fan_out(lambda node: _look_up(node, transactions))
        applied, window = _combine(answers, self._nodes.needed)
        # Ledgers can share a second: some of `since` may be older than the window's oldest.
        if applied or window.oldest >= since or window.latest <= last:
            return False
        require_operators("that the transactions are expired", answers, self._nodes.needed)
        return True

    def simulate(self, envelope: str) -> SimulationResult:
        """As `simulate_call`, for a transaction that we sign.

        Raises `CallReverted` when it would fail, or needs more authorization than its source's for
        the call itself; else as `funds` does.
        """
        return self._nodes.failover(lambda node: _simulate_bare(node, envelope))

    def send(self, raw: bytes) -> str:
        """Submit a transaction (XDR) to every node, as one node may not propagate it.

        Returns a node's status and result code, if any. With any status the transaction may still
        be included or not. Raises as `funds` does.
        """
        answers = [each for _, each in self._nodes.fan_out(lambda node: _submit(node, raw))]
        return _PENDING if _PENDING in answers else answers[0]


def _funds_of(entry: str) -> AccountFunds:
    found = parse_account(entry)
    entries, selling = 2 + found.num_sub_entries.uint32, 0
    v1 = found.ext.v1
    if v1 is not None:
        selling = v1.liabilities.selling.int64
        if v1.ext.v2 is not None:
            entries += v1.ext.v2.num_sponsoring.uint32 - v1.ext.v2.num_sponsored.uint32
    spendable = found.balance.int64 - entries * _BASE_RESERVE - selling
    return AccountFunds(found.seq_num.sequence_number.int64, Stroops(max(0, spendable)))


@dataclass(frozen=True, slots=True)
class _Lookup:
    """Lookup of transactions at one node."""

    found: Mapping[TxHash, AppliedTransaction]
    window: LookupWindow
    ledgers: range


def _combine(
    answers: Sequence[tuple[str, _Lookup]], needed: int
) -> tuple[dict[TxHash, AppliedTransaction], LookupWindow]:
    found = {tx: each for _, lookup in answers for tx, each in lookup.found.items()}
    for tx, each in found.items():
        for operator, lookup in answers:
            if each.ledger in lookup.ledgers and lookup.found.get(tx) != each:
                raise SourcesDisagree(
                    f"{operator} has not in ledger {each.ledger} what another has: {tx}"
                )
    latest = reached([(operator, lookup.window.latest) for operator, lookup in answers], needed)
    return found, LookupWindow(max(lookup.window.oldest for _, lookup in answers), latest)


def _look_up(rpc: StellarRpc, transactions: Collection[TxHash]) -> _Lookup:
    answers = {tx: rpc.call("getTransaction", {"hash": tx}) for tx in [UNKNOWN_HASH, *transactions]}
    first = answers[UNKNOWN_HASH]
    window = LookupWindow(
        _seconds(first, "oldestLedgerCloseTime"), _seconds(first, "latestLedgerCloseTime")
    )
    found = {}
    for tx, answer in answers.items():
        status, ledger = answer.get("status"), answer.get("ledger")
        if status == "NOT_FOUND":
            continue
        if status not in ("SUCCESS", "FAILED") or not isinstance(ledger, int):
            raise InconsistentAnswer(f"a transaction of status {status!r} in ledger {ledger!r}")
        result = answer.get("resultXdr")
        try:
            charged = Stroops(xdr.TransactionResult.from_xdr(str(result)).fee_charged.int64)
        except (ValueError, EOFError) as error:
            raise InconsistentAnswer(f"the result of a transaction is {result!r:.80}") from error
        found[tx] = AppliedTransaction(Height(ledger), status == "SUCCESS", charged)
    oldest, latest = field(first, "oldestLedger", int), field(first, "latestLedger", int)
    return _Lookup(found, window, range(oldest, latest + 1))


_SOURCE, _SEQUENCE = slice(0, 40), slice(44, 52)
"""Of an envelope of type v1 in XDR: type and source; sequence number, after 4 bytes of fee."""
_V1_SOURCE = b"\0\0\0\2\0\0\0\0"
_FEE_BUMP = b"\0\0\0\5"
_PAGE = 200


def _scan(
    rpc: StellarRpc, key: bytes, wanted: Mapping[bytes, int], since: Height
) -> dict[int, bytes]:
    oldest = field(rpc.call("getHealth", {}), "oldestLedger", int)
    if oldest > since:
        raise RetentionGap(
            f"{rpc.host} has no ledger before {oldest}: transactions since {since} are looked for"
        )
    found: dict[int, bytes] = {}
    params: dict[str, Any] = {"startLedger": since, "pagination": {"limit": _PAGE}}
    while len(found) < len(wanted):
        answer = rpc.call("getTransactions", params)
        page = field(answer, "transactions", list)
        for each in page:
            raw = _without_fee_bump(base64.b64decode(str(each.get("envelopeXdr"))))
            if raw[_SOURCE] == _V1_SOURCE + key and raw[_SEQUENCE] in wanted:
                found[wanted[raw[_SEQUENCE]]] = raw
        if len(page) < _PAGE:
            break
        params = {"pagination": {"limit": _PAGE, "cursor": field(answer, "cursor", str)}}
    return found


def _without_fee_bump(raw: bytes) -> bytes:
    """The inner envelope of a fee bump: any account may add one to a signed transaction (CAP-15).

    Nodes find the transaction by its inner hash, too.
    """
    if raw[:4] != _FEE_BUMP:
        return raw
    inner = xdr.TransactionEnvelope.from_xdr_bytes(raw).fee_bump
    kind = xdr.EnvelopeType.ENVELOPE_TYPE_TX
    v1 = None if inner is None else inner.tx.inner_tx.v1
    return xdr.TransactionEnvelope(kind, v1=v1).to_xdr_bytes()


def _seconds(answer: Mapping[str, Any], name: str) -> UnixSeconds:
    text = str(answer.get(name))
    if not text.isdecimal():
        raise InconsistentAnswer(f"{name} is {text!r:.80}")
    return UnixSeconds(int(text))


def _simulate_bare(node: CheckedStellarNode, envelope: str) -> SimulationResult:
    found = simulate(node, envelope)
    called = xdr.TransactionEnvelope.from_xdr(envelope)
    if not all(_authorizes_call_only(entry, called) for entry in found.auth):
        raise CallReverted("it wants more than the consent of who sends it to the call itself")
    return found


def _authorizes_call_only(raw: bytes, envelope: xdr.TransactionEnvelope) -> bool:
    """The entry authorizes the one call by its source, and no sub-invocation."""
    try:
        entry = xdr.SorobanAuthorizationEntry.from_xdr_bytes(raw)
    except (ValueError, EOFError) as error:
        raise InconsistentAnswer(f"an authorisation that cannot be read: {error}") from error
    operations = () if envelope.v1 is None else envelope.v1.tx.operations
    calls = [each.body.invoke_host_function_op for each in operations]
    root = entry.root_invocation
    return (
        entry.credentials.type == xdr.SorobanCredentialsType.SOROBAN_CREDENTIALS_SOURCE_ACCOUNT
        and not root.sub_invocations
        and [root.function.contract_fn]
        == [None if each is None else each.host_function.invoke_contract for each in calls]
    )


def _submit(rpc: StellarRpc, raw: bytes) -> str:
    answer = rpc.call("sendTransaction", {"transaction": base64.b64encode(raw).decode()})
    status = str(answer.get("status"))
    error_result = answer.get("errorResultXdr")
    if error_result is None:
        return status
    try:
        return f"{status} {xdr.TransactionResult.from_xdr(str(error_result)).result.code.name}"
    except (ValueError, EOFError) as error:
        raise InconsistentAnswer(f"sendTransaction at {rpc.host}: {error!r:.80}") from error
