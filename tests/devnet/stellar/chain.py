"""A devnet inside the test: the node itself, with no process and no clock of its own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stellar_sdk import Asset, Keypair, StrKey, scval, xdr
from stellar_sdk.operation import ChangeTrust, CreateAccount, Payment
from stellar_sdk.utils import from_xdr_amount

from devnet.stellar import building
from devnet.stellar.accounts import ROOT, USDC, USDC_ISSUER, USDT0, USDT0_ISSUER, keypair
from devnet.stellar.entries import Account, Layer, State, Trustline
from devnet.stellar.genesis import Genesis
from devnet.stellar.history import TransactionRow
from devnet.stellar.host import Ledger
from devnet.stellar.node import Node, Submission, fixed_clock
from devnet.stellar.registry import Remotes, unwired
from devnet.stellar.rpc import Rpc
from devnet.stellar.server import DevnetServer
from devnet.stellar.simulation import simulate
from devnet.stellar.transactions import Transaction

UNIT = 10**7


class Chain:
    """One node; every transaction gets a ledger of its own, 5 seconds after the last."""

    def __init__(self, remotes: Remotes | None = None, node: Node | None = None) -> None:
        self.node = node or Node(Genesis(remotes or unwired()), clock=fixed_clock)

    @property
    def now(self):
        return self.node.latest.close_time

    def at(self, close_time):
        """Close an empty ledger at a time."""
        self.node.close_ledger(close_time_ms=close_time * 1000)

    def view(self) -> Layer:
        return Layer(State(self.node._state.entries), self.node.latest.sequence)

    def account(self, address) -> Account | None:
        return self.view().account(address)

    def trustline(self, address, asset) -> Trustline | None:
        return self.view().trustline(address, asset)

    def balance(self, address, asset=USDC) -> int:
        line = self.trustline(address, asset)
        return 0 if line is None else line.balance

    def envelope(self, source: Keypair, operations, *, at=None, **options):
        """A signed transaction; a contract call is tried as of the time at which it will run."""
        sequence = options.pop("sequence", None) or self.account(source.public_key).sequence + 1
        ledger = Ledger(self.node.latest.sequence, at or self.now)

        def prepared(envelope):
            return building.prepared(envelope, lambda it: simulate(it, self.view(), ledger))

        return building.build(source, sequence, operations, prepared, **options)

    def submit(self, source, operations, **options) -> Submission:
        envelope = self.envelope(source, operations, **options)
        return self.node.submit(envelope.to_xdr_object())

    def run(self, source, *operations, at=None, **options) -> TransactionRow:
        """Submit, close a ledger, and return the transaction."""
        submission = self.submit(source, operations, at=at, **options)
        assert submission.status == "PENDING", refusal(submission)
        self.node.close_ledger(close_time_ms=None if at is None else at * 1000)
        row = self.node.transaction(submission.hash)
        assert row is not None
        return row

    def call(self, source, contract, function, *args, at=None) -> TransactionRow:
        return self.run(source, building.call(contract, function, *args), at=at)

    def invoke(self, source, contract, function, *args, at=None) -> Any:
        """Call a contract and return its value; fail the test when the call fails."""
        row = self.call(source, contract, function, *args, at=at)
        assert row.succeeded, why(row)
        return value(row)

    def refused(self, source, contract, function, *args, at=None) -> str:
        """Call a contract that must refuse, and return what it said."""
        row = self.call(source, contract, function, *args, at=at)
        assert not row.succeeded, "the contract accepted"
        return why(row)

    def open(self, name, usdc=None, usdt0=None) -> Keypair:
        """A funded account; with a trustline and a balance for what is not None."""
        holder = keypair(name)
        self.run(keypair(ROOT), CreateAccount(holder.public_key, "1000"))
        for asset, issuer, amount in (
            (USDC, USDC_ISSUER, usdc),
            (USDT0, USDT0_ISSUER, usdt0),
        ):
            if amount is None:
                continue
            self.run(holder, ChangeTrust(asset))
            if amount:
                self.pay(keypair(issuer), holder.public_key, amount, asset)
        return holder

    def pay(self, source, destination, amount, asset: Asset = USDC, **options) -> TransactionRow:
        return self.run(source, Payment(destination, asset, from_xdr_amount(amount)), **options)


@contextmanager
def serving(chain: Chain) -> Iterator[str]:
    """The chain's RPC over HTTP, in a thread of the test; ledgers are closed by the test alone."""
    server = DevnetServer(Rpc(chain.node), host="127.0.0.1", port=0, interval=None)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.stop()
        thread.join()


def result(row: TransactionRow) -> xdr.TransactionResult:
    return xdr.TransactionResult.from_xdr_bytes(row.result)


def fee_bid(row: TransactionRow) -> int:
    """The most that a transaction offered, in stroops."""
    return Transaction.from_xdr(xdr.TransactionEnvelope.from_xdr_bytes(row.envelope)).fee_bid


def meta(row: TransactionRow) -> xdr.TransactionMetaV4:
    current = xdr.TransactionMeta.from_xdr_bytes(row.meta).v4
    assert current is not None
    return current


def value(row: TransactionRow) -> Any:
    returned = meta(row).soroban_meta.return_value
    return None if returned is None else scval.to_native(returned)


def events(row: TransactionRow) -> list[tuple[str, list, Any]]:
    """The operations' events as (contract, topics, data), in Python values."""
    return [readable(event) for operation in meta(row).operations for event in operation.events]


def readable(event: xdr.ContractEvent) -> tuple[str, list, Any]:
    contract = StrKey.encode_contract(event.contract_id.contract_id.hash)
    topics = [plain(scval.to_native(topic)) for topic in event.body.v0.topics]
    return contract, topics, plain(scval.to_native(event.body.v0.data))


def plain(native: Any) -> Any:
    """A native value with addresses as strkeys."""
    if isinstance(native, dict):
        return {key: plain(item) for key, item in native.items()}
    if isinstance(native, list):
        return [plain(item) for item in native]
    return getattr(native, "address", native)


def why(row: TransactionRow) -> str:
    """What a failed contract call said."""
    emitted = [xdr.DiagnosticEvent.from_xdr_bytes(raw).event for raw in row.diagnostics]
    return " ".join(str(scval.to_native(event.body.v0.data)) for event in emitted)


def code_of(answer: xdr.TransactionResult) -> tuple[str, ...]:
    """Result codes: of the transaction (and the one inside a fee bump), then of each operation."""
    pair = answer.result.inner_result_pair
    inside = [] if pair is None else [pair.result.result.code.name]
    outcomes = answer.result.results if pair is None else pair.result.result.results
    return answer.result.code.name, *inside, *(_operation_code(each) for each in outcomes or [])


def _operation_code(operation: xdr.OperationResult) -> str:
    if operation.tr is None:
        return operation.code.name
    return next(
        item.code.name
        for name, item in vars(operation.tr).items()
        if name != "type" and item is not None
    )


def codes(row: TransactionRow) -> tuple[str, ...]:
    return code_of(result(row))


def refusal(submission: Submission) -> tuple[str, ...]:
    """The codes of a submission that may not enter a ledger."""
    if submission.error is None:
        return (submission.status,)
    return code_of(submission.error)
