"""An account of ours on Stellar: what the ledger says of it, what it tries and what it sends.

One node is asked, the next when it fails. Ledgers that are closed stay, so what a node says of a
transaction in one is its last word; that it knows of none means something once its bounds are past.
"""

import base64
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from stellar_sdk import xdr

from indexer.chains.stellar_accounts import AccountReader
from indexer.chains.stellar_calls import simulated
from indexer.chains.stellar_rpc import StellarRpc
from indexer.chains.stellar_vouching import VouchedNode
from indexer.decode.accounts import account_key
from indexer.decode.soroban import Simulated, Trapped
from indexer.errors import CallReverted, InconsistentAnswer
from warehouse_schema.identifiers import Height, StellarAddress, TxHash, UnixSeconds

NOBODY = TxHash("0" * 64)
"""A hash that no transaction has: asked about, a node says what ledgers it has."""

_BASE_RESERVE = 5_000_000
"""Stroops an entry (0.5 XLM), set by the validators' vote."""


@dataclass(frozen=True, slots=True)
class AccountFunds:
    """An account in the newest ledger of a node."""

    sequence: int
    """Of its last transaction."""
    spendable: int
    """Stroops beyond what it must keep."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A transaction in a ledger."""

    ledger: Height
    succeeded: bool
    charged: int
    """Stroops."""


@dataclass(frozen=True, slots=True)
class Window:
    """The ledgers that a node can look transactions up in, by their close times."""

    oldest: UnixSeconds
    latest: UnixSeconds


class StellarAccountNodes(AccountReader):
    """Nodes of the chain, asked about an account and given its transactions. One thread's."""

    def funds(self, account: StellarAddress) -> AccountFunds | None:
        """Sequence and balance; None when the ledger has no such account.

        Raises `RetryableChainError`, or `PermanentChainError` when every node is unfit.
        """
        return self._asked(account_key(account), lambda entry: _funds_of(entry, account))

    def applied(self, transactions: Collection[TxHash]) -> tuple[Mapping[TxHash, Applied], Window]:
        """Those of the transactions that are in a ledger, and how far the node looked.

        All from one node, the ledgers of the first answer that says them. Raises as `funds` does.
        """
        return self._nodes.ask(lambda node: _applied(node.rpc, transactions))

    def tried(self, envelope: str) -> Simulated:
        """What the one call of a transaction (base64 XDR, unsigned) would come to now.

        Raises `CallReverted` when it would fail, or wants more than its source's consent to the
        call itself; else as `funds` does.
        """
        return self._nodes.ask(lambda node: _tried(node, envelope))

    def send_raw(self, envelope: bytes) -> str:
        """As `send`, of XDR."""
        return self.send(base64.b64encode(envelope).decode())

    def send(self, envelope: str) -> str:
        """Give a transaction (base64 XDR) to a node; its status, and a result code if it has one.

        Whatever it says, the transaction may be included or not. Raises as `funds` does.
        """
        return self._nodes.ask(lambda node: _sent(node.rpc, envelope))


def _funds_of(entry: str, account: StellarAddress) -> AccountFunds:
    data = xdr.LedgerEntryData.from_xdr_bytes(base64.b64decode(entry, validate=True))
    found = data.account
    if found is None or data.type != xdr.LedgerEntryType.ACCOUNT:
        raise ValueError(f"the entry of {account} is of type {data.type.name}")
    entries, selling = 2 + found.num_sub_entries.uint32, 0
    v1 = found.ext.v1
    if v1 is not None:
        selling = v1.liabilities.selling.int64
        if v1.ext.v2 is not None:
            entries += v1.ext.v2.num_sponsoring.uint32 - v1.ext.v2.num_sponsored.uint32
    spendable = found.balance.int64 - entries * _BASE_RESERVE - selling
    return AccountFunds(found.seq_num.sequence_number.int64, max(0, spendable))


def _applied(
    rpc: StellarRpc, transactions: Collection[TxHash]
) -> tuple[dict[TxHash, Applied], Window]:
    answers = {tx: rpc.call("getTransaction", {"hash": tx}) for tx in [NOBODY, *transactions]}
    first = answers[NOBODY]
    window = Window(_seconds(first, "oldestLedgerCloseTime"), _seconds(first, _LATEST))
    found = {
        tx: _applied_of(answer)
        for tx, answer in answers.items()
        if answer.get("status") != "NOT_FOUND"
    }
    return found, window


_LATEST = "latestLedgerCloseTime"


def _applied_of(answer: Mapping[str, Any]) -> Applied:
    status, ledger, result = (answer.get(name) for name in ("status", "ledger", "resultXdr"))
    if status not in ("SUCCESS", "FAILED") or not isinstance(ledger, int):
        raise InconsistentAnswer(f"a transaction of status {status!r} in ledger {ledger!r}")
    try:
        outcome = xdr.TransactionResult.from_xdr(str(result))
    except (ValueError, EOFError) as error:
        raise InconsistentAnswer(f"the result of a transaction is {result!r:.80}") from error
    return Applied(Height(ledger), status == "SUCCESS", outcome.fee_charged.int64)


def _seconds(answer: Mapping[str, Any], name: str) -> UnixSeconds:
    text = str(answer.get(name))
    if not text.isdecimal():
        raise InconsistentAnswer(f"{name} is {text!r:.80}")
    return UnixSeconds(int(text))


def _tried(node: VouchedNode, envelope: str) -> Simulated:
    found = simulated(node, envelope)
    if isinstance(found, Trapped):
        raise CallReverted(found.message)
    called = xdr.TransactionEnvelope.from_xdr(envelope)
    if not all(_is_bare_consent(entry, called) for entry in found.auth):
        raise CallReverted("it wants more than the consent of who sends it to the call itself")
    return found


def _is_bare_consent(raw: bytes, envelope: xdr.TransactionEnvelope) -> bool:
    """Whether an entry is the source's consent to the one call, and to nothing below it."""
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


def _sent(rpc: StellarRpc, envelope: str) -> str:
    answer = rpc.call("sendTransaction", {"transaction": envelope})
    status = str(answer.get("status"))
    told = answer.get("errorResultXdr")
    if told is None:
        return status
    try:
        return f"{status} {xdr.TransactionResult.from_xdr(str(told)).result.code.name}"
    except (ValueError, EOFError) as error:
        raise InconsistentAnswer(f"sendTransaction at {rpc.host}: {error!r:.80}") from error
