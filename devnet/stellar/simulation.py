"""Trying a contract call on the last ledger's state: what simulateTransaction answers.

It runs the very code that a ledger would run, on a layer that is thrown away, with nothing named
beforehand: what was touched becomes the footprint, what was asked for the authorisation, and what
was used the resources with a margin. Entries of the devnet never expire, so that there is never a
`restorePreamble`.
"""

from dataclasses import dataclass
from enum import StrEnum

from stellar_sdk import scval, xdr

from devnet.stellar.authorisation import Enforced, Recorded
from devnet.stellar.contracts import CONTRACTS
from devnet.stellar.contracts.token import Token
from devnet.stellar.entries import View
from devnet.stellar.host import Host, InvocationFailed, Invoked, Ledger, diagnostic, invoke
from devnet.stellar.metering import Storage, Used, declared_fee
from devnet.stellar.transactions import Invalid, Transaction, UnreadableTransaction

SIGNED_BYTES = 500
"""Space for what comes into the envelope after it was tried: signatures above all."""


class AuthMode(StrEnum):
    """Whether the entries that are there must do, or those that are needed are found out."""

    UNSAID = ""
    ENFORCE = "enforce"
    RECORD = "record"
    RECORD_ALLOW_NONROOT = "record_allow_nonroot"


class CannotSimulate(Exception):
    """The transaction cannot be simulated; the message is the response's `error`."""


@dataclass(frozen=True)
class Change:
    """An entry that a call would change: LedgerKey XDR, LedgerEntry XDR before and after."""

    key: bytes
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True)
class Simulation:
    """Effects of a call; with a `failure`, those until then."""

    data: xdr.SorobanTransactionData
    auth: tuple[xdr.SorobanAuthorizationEntry, ...]
    value: xdr.SCVal
    events: tuple[xdr.DiagnosticEvent, ...]
    changes: tuple[Change, ...]
    failure: InvocationFailed | None = None

    def with_leeway(self, instructions: int) -> xdr.SorobanTransactionData:
        """The data with so many instructions more, and with what those cost."""
        resources = self.data.resources
        more = xdr.SorobanResources(
            resources.footprint,
            xdr.Uint32(resources.instructions.uint32 + instructions),
            resources.disk_read_bytes,
            resources.write_bytes,
        )
        dearer = declared_fee(more, 0) - declared_fee(resources, 0)
        fee = self.data.resource_fee.int64 + dearer
        return xdr.SorobanTransactionData(self.data.ext, more, xdr.Int64(fee))


def simulate(
    envelope: xdr.TransactionEnvelope,
    state: View,
    ledger: Ledger,
    mode: AuthMode = AuthMode.UNSAID,
) -> Simulation:
    """Try an envelope's one contract call; raise `CannotSimulate` for anything else.

    Signatures, sequence numbers, fees and bounds do not matter.
    """
    try:
        tx = Transaction.from_xdr(envelope)
    except (Invalid, UnreadableTransaction) as error:
        raise CannotSimulate("Could not unmarshal transaction") from error
    operation = _operation(tx)
    call = operation.body.invoke_host_function_op
    assert call is not None
    storage = Storage(state, ledger.sequence)
    source = tx.source_of(operation)
    consent = _consent(source, call.auth, mode)
    host = Host(storage, ledger, consent, CONTRACTS, Token)
    failure, invoked = None, None
    try:
        invoked = invoke(host, call.host_function)
    except InvocationFailed as failed:
        failure = failed
    auth = tuple(consent.entries()) if isinstance(consent, Recorded) else tuple(call.auth)
    value = scval.to_void() if invoked is None else invoked.value
    return Simulation(
        data=_data(tx, storage, auth, _used(host, invoked)),
        auth=auth,
        value=value,
        events=_events(host, failure),
        changes=_changes(storage),
        failure=failure,
    )


def _operation(tx: Transaction) -> xdr.Operation:
    operations = tx.body.operations
    if len(operations) != 1:
        raise CannotSimulate("Transaction contains more than one operation")
    kind = operations[0].body.type
    if kind != xdr.OperationType.INVOKE_HOST_FUNCTION:
        raise CannotSimulate(f"Transaction contains unsupported operation type: {kind.name}")
    return operations[0]


def _consent(
    source: str, entries: list[xdr.SorobanAuthorizationEntry], mode: AuthMode
) -> Enforced | Recorded:
    recording = mode in (AuthMode.RECORD, AuthMode.RECORD_ALLOW_NONROOT)
    if entries and recording:
        raise CannotSimulate(f"cannot set authMode to '{mode}' with an auth footprint")
    if entries or mode == AuthMode.ENFORCE:
        return Enforced(source, entries)
    return Recorded(source, allow_nonroot=mode == AuthMode.RECORD_ALLOW_NONROOT)


def _used(host: Host, invoked: Invoked | None) -> Used:
    return Used.of(host.layer, host.calls, 0) if invoked is None else invoked.used


def _data(
    tx: Transaction,
    storage: Storage,
    auth: tuple[xdr.SorobanAuthorizationEntry, ...],
    used: Used,
) -> xdr.SorobanTransactionData:
    resources = used.declared(storage.needed())
    size = SIGNED_BYTES + len(tx.body.to_xdr_bytes()) + len(resources.to_xdr_bytes())
    size += sum(len(entry.to_xdr_bytes()) for entry in auth)
    fee = declared_fee(resources, size) + used.refundable * 115 // 100
    return xdr.SorobanTransactionData(xdr.SorobanTransactionDataExt(0), resources, xdr.Int64(fee))


def _events(host: Host, failure: InvocationFailed | None) -> tuple[xdr.DiagnosticEvent, ...]:
    diagnostics = [xdr.DiagnosticEvent(failure is None, event) for event in host.events]
    return (*diagnostics, *([] if failure is None else [diagnostic(failure)]))


def _changes(storage: Storage) -> tuple[Change, ...]:
    pairs = ((key, storage.below.get(key), after) for key, after in storage.writes.items())
    return tuple(Change(key, before, after) for key, before, after in pairs if before != after)
