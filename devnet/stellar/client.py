"""A small client of the devnet: build, sign, submit, wait. Used by scenarios and tests.

Amounts are ints in stroops (10^7 a unit), as everywhere below the API.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from stellar_sdk import Asset, Keypair, SorobanServer, TransactionEnvelope, scval, xdr
from stellar_sdk.client.requests_client import RequestsClient
from stellar_sdk.exceptions import PrepareTransactionException
from stellar_sdk.memo import Memo
from stellar_sdk.operation import ChangeTrust, Operation, Payment
from stellar_sdk.soroban_rpc import GetTransactionResponse, GetTransactionStatus
from stellar_sdk.utils import from_xdr_amount

from devnet.stellar import building
from devnet.stellar.accounts import USDC, USDC_ISSUER, USDT0, USDT0_ISSUER, keypair
from devnet.stellar.entries import Account, Trustline, account_key, trustline_key

INCLUDED_WITHIN = 20.0
VALID_FOR = 3_600
"""Seconds after the last close time during which a transaction may be included."""


class Rejected(Exception):
    """A transaction may not enter a ledger; `result` holds the code."""

    def __init__(self, status: str, result: xdr.TransactionResult | None) -> None:
        self.status = status
        self.result = result
        super().__init__(f"{status} {_code_name(result)}")


class Refused(Exception):
    """A contract call fails in simulation; the message is the node's error."""


class Failed(Exception):
    """A transaction is in a ledger and failed; `why` is the contract's error, if there is one."""

    def __init__(self, outcome: "Outcome") -> None:
        self.outcome = outcome
        self.why = [_text(event) for event in outcome.diagnostics]
        codes = [_operation_code(each) for each in outcome.result.result.results or []]
        super().__init__(f"{_code_name(outcome.result)} {codes} {self.why}")


class NotIncluded(Exception):
    """No ledger took the transaction in time."""


@dataclass(frozen=True)
class Outcome:
    """A transaction in a ledger."""

    hash: str
    ledger: int
    close_time: int
    result: xdr.TransactionResult
    meta: xdr.TransactionMetaV4
    diagnostics: tuple[xdr.DiagnosticEvent, ...]

    @property
    def value(self) -> Any:
        """Return value of a contract call, as a Python value."""
        soroban = self.meta.soroban_meta
        if soroban is None or soroban.return_value is None:
            return None
        return scval.to_native(soroban.return_value)

    @property
    def events(self) -> list[xdr.ContractEvent]:
        """The events of all operations, in order."""
        return [event for operation in self.meta.operations for event in operation.events]


class DevnetClient:
    """Talks to one devnet through the ordinary `SorobanServer`."""

    def __init__(self, url: str) -> None:
        self._http = RequestsClient()
        # As `local_client` does, for the client that the SDK brings.
        self._http._session.trust_env = False
        self.server = SorobanServer(url, self._http)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.server.close()

    def fund(self, address: str) -> None:
        """Have friendbot create an account, and wait until it exists."""
        answer = self._http.get(f"{self.server.server_url}/friendbot", {"addr": address}).json()
        if "error" in answer:
            raise ValueError(answer["error"])
        self._wait(answer["hash"])

    def close_ledger(self, *, close_time_ms: int | None = None) -> int:
        """Close a ledger now (the devnet's own extension) and return its sequence."""
        params = {} if close_time_ms is None else {"closeTimeMs": close_time_ms}
        return int(self._call("devnet_closeLedger", params)["sequence"])

    def close_next_ledger(self, next_close: Callable[[int], int]) -> int:
        """Close a ledger at the time that follows from the last close time; both milliseconds.

        Asks again if another client closed a ledger meanwhile. Returns its sequence.
        """
        while True:
            last = self.close_time_ms()
            try:
                return self.close_ledger(close_time_ms=next_close(last))
            except ValueError:
                if self.close_time_ms() == last:
                    raise

    def upgrade(self, protocol: int) -> None:
        """Have the next ledger apply a protocol upgrade (the devnet's own extension)."""
        self._call("devnet_upgrade", {"protocolVersion": protocol})

    def close_time(self) -> int:
        """Close time of the last ledger, in seconds."""
        return int(self._call("getHealth", {})["latestLedgerCloseTime"])

    def close_time_ms(self) -> int:
        """The same in milliseconds (the devnet's own extension); whole seconds before P30."""
        return int(self._call("devnet_getHead", {})["closeTimeMs"])

    def _call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = self._http.post(self.server.server_url, json_data=body).json()
        if "error" in answer:
            raise ValueError(answer["error"]["message"])
        result: dict[str, Any] = answer["result"]
        return result

    def send(
        self,
        source: Keypair,
        operations: Sequence[Operation],
        *,
        signers: Sequence[Keypair] = (),
        memo: Memo | None = None,
    ) -> str:
        """Submit and return the hash without waiting.

        Raise `Rejected` unless it is queued, and `Refused` for a contract call that fails.
        """
        sequence = self.server.load_account(source.public_key).sequence + 1
        envelope = building.build(
            source,
            sequence,
            operations,
            self._prepared,
            signers=signers,
            memo=memo,
            time_bounds=(0, self.close_time() + VALID_FOR),
        )
        answer = self.server.send_transaction(envelope)
        if answer.status.value != "PENDING":
            known = answer.error_result_xdr
            result = None if known is None else xdr.TransactionResult.from_xdr(known)
            raise Rejected(answer.status.value, result)
        return answer.hash

    def _prepared(self, envelope: TransactionEnvelope) -> TransactionEnvelope:
        try:
            return self.server.prepare_transaction(envelope, use_upgraded_auth=False)
        except PrepareTransactionException as error:
            raise Refused(error.simulate_transaction_response.error or "") from error

    def submit(
        self,
        source: Keypair,
        operations: Sequence[Operation],
        *,
        signers: Sequence[Keypair] = (),
        memo: Memo | None = None,
    ) -> Outcome:
        """Submit and wait until it has succeeded.

        Raise `Refused`, `Rejected`, `Failed` or `NotIncluded` when it does not.
        """
        outcome = self._wait(self.send(source, operations, signers=signers, memo=memo))
        if outcome.result.result.code != xdr.TransactionResultCode.txSUCCESS:
            raise Failed(outcome)
        return outcome

    def invoke(self, source: Keypair, contract: str, function: str, *args: xdr.SCVal) -> Outcome:
        """Call a contract function, authorised by `source`."""
        return self.submit(source, [building.call(contract, function, *args)])

    def trust(self, holder: Keypair, asset: Asset, limit: int | None = None) -> Outcome:
        """Open a trustline, or change its limit (stroops)."""
        text = None if limit is None else from_xdr_amount(limit)
        return self.submit(holder, [ChangeTrust(asset, text)])

    def pay(
        self,
        source: Keypair,
        destination: str,
        asset: Asset,
        amount: int,
        *,
        memo: Memo | None = None,
    ) -> Outcome:
        """A classic payment; from its issuer, an asset is minted."""
        return self.submit(
            source, [Payment(destination, asset, from_xdr_amount(amount))], memo=memo
        )

    def issue(self, destination: str, asset: Asset, amount: int) -> Outcome:
        """Pay USDC or USDT0 from its devnet issuer."""
        issuers = {USDC: USDC_ISSUER, USDT0: USDT0_ISSUER}
        return self.pay(keypair(issuers[asset]), destination, asset, amount)

    def open_account(self, name: str, **holdings: int) -> Keypair:
        """A funded devnet identity with trustlines; `usdc=` and `usdt0=` are stroops to issue."""
        holder = keypair(name)
        self.fund(holder.public_key)
        for code, amount in holdings.items():
            asset = {"usdc": USDC, "usdt0": USDT0}[code]
            self.trust(holder, asset)
            if amount:
                self.issue(holder.public_key, asset, amount)
        return holder

    def trustline(self, holder: str, asset: Asset) -> Trustline | None:
        """A trustline as it stands in the last ledger."""
        key = xdr.LedgerKey.from_xdr_bytes(trustline_key(holder, asset))
        entries = self.server.get_ledger_entries([key]).entries
        if not entries:
            return None
        return Trustline.from_entry(xdr.LedgerEntryData.from_xdr(entries[0].xdr))

    def balance(self, holder: str, asset: Asset) -> int:
        """Stroops of a credit asset that a `G…` or `C…` holder has; 0 without an entry."""
        if holder.startswith("C"):
            entry = self.server.get_sac_balance(holder, asset).balance_entry
            return 0 if entry is None else entry.amount
        line = self.trustline(holder, asset)
        return 0 if line is None else line.balance

    def account(self, address: str) -> Account | None:
        """An account as it stands in the last ledger; who sponsors it is not in it."""
        key = xdr.LedgerKey.from_xdr_bytes(account_key(address))
        entries = self.server.get_ledger_entries([key]).entries
        if not entries:
            return None
        return Account.from_entry(xdr.LedgerEntryData.from_xdr(entries[0].xdr))

    def outcome(self, tx_hash: str) -> Outcome | None:
        """Result of a transaction; None while it is in no ledger."""
        answer = self.server.get_transaction(tx_hash)
        return None if answer.status == GetTransactionStatus.NOT_FOUND else _outcome(answer)

    def _wait(self, tx_hash: str) -> Outcome:
        deadline = time.monotonic() + INCLUDED_WITHIN
        while (outcome := self.outcome(tx_hash)) is None:
            if time.monotonic() > deadline:
                raise NotIncluded(tx_hash)
            time.sleep(0.05)
        return outcome


def _outcome(answer: GetTransactionResponse) -> Outcome:
    assert answer.result_xdr is not None
    assert answer.result_meta_xdr is not None
    meta = xdr.TransactionMeta.from_xdr(answer.result_meta_xdr).v4
    assert meta is not None
    assert answer.ledger is not None
    assert answer.create_at is not None
    events = answer.diagnostic_events_xdr or []
    return Outcome(
        hash=answer.transaction_hash,
        ledger=answer.ledger,
        close_time=answer.create_at,
        result=xdr.TransactionResult.from_xdr(answer.result_xdr),
        meta=meta,
        diagnostics=tuple(xdr.DiagnosticEvent.from_xdr(event) for event in events),
    )


def _code_name(result: xdr.TransactionResult | None) -> str:
    return "" if result is None else result.result.code.name


def _operation_code(result: xdr.OperationResult) -> str:
    if result.tr is None:
        return result.code.name
    inner = next(v for k, v in vars(result.tr).items() if k != "type" and v is not None)
    return str(inner.code.name)


def _text(event: xdr.DiagnosticEvent) -> str:
    body = event.event.body.v0
    assert body is not None
    return str(scval.to_native(body.data))
