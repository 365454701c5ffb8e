"""The methods of Stellar RPC (v30) over the devnet's history, with its field types and errors.

Beware of the types: close times are strings in some answers and numbers in others, as in the real
server. Methods whose names start with `devnet_` are this stand-in's own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from stellar_sdk import xdr

from devnet.stellar.accounts import PASSPHRASE
from devnet.stellar.event_filters import Filter, parse_filters
from devnet.stellar.history import (
    LAST_EVENT,
    LAST_OP,
    LAST_TX,
    EventRow,
    LedgerRow,
    TransactionRow,
    b64,
    event_id,
    parse_event_id,
    parse_toid,
    toid,
)
from devnet.stellar.node import Node, NotAnUpgrade, TimeWentBack
from devnet.stellar.rpc_errors import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, RpcError
from devnet.stellar.rpc_simulation import simulate_transaction
from devnet.stellar.transactions import BASE_FEE, UnreadableTransaction

VERSION = "30.0.0-isthmus-devnet"
"""Of the RPC whose answers these are, as its `version` is written."""
CORE_VERSION = "stellar-core 30.0.0 (isthmus-devnet: a stand-in, not a Stellar node)"
EVENT_SCAN = 10_000
"""Ledgers that one getEvents call looks at."""
LIVE_LEDGERS = 2_073_600
"""120 days: the time to live that the devnet reports; its entries never expire."""
_SOROBAN_ENTRIES = (xdr.LedgerEntryType.CONTRACT_DATA, xdr.LedgerEntryType.CONTRACT_CODE)

Params = Mapping[str, Any]


@dataclass(frozen=True)
class Rpc:
    """A node's RPC. `retention` is the number of ledgers served, 0 for all.

    With `close_on_submit` every accepted transaction closes a ledger of its own, with
    `close_on_friendbot` every funded account does.
    """

    node: Node
    retention: int = 0
    close_on_submit: bool = False
    close_on_friendbot: bool = True
    friendbot_url: str | None = None

    def call(self, method: str, params: Any) -> dict[str, Any]:
        """Answer one call; raise `RpcError` for what the real server answers with an error."""
        handler = METHODS.get(method)
        if handler is None:
            raise RpcError(METHOD_NOT_FOUND, f"no such method {method!r}")
        if params is None:
            params = {}
        if not isinstance(params, dict):
            raise RpcError(INVALID_PARAMS, "params must be an object with named members")
        if params.get("xdrFormat") not in (None, "", "base64"):
            raise RpcError(INVALID_PARAMS, "the devnet answers base64 XDR only")
        with self.node.lock:
            return handler(self, params)

    @property
    def oldest(self) -> LedgerRow:
        """The oldest ledger that is served."""
        first = self.node.first
        if self.retention:
            first = max(first, self.node.latest.sequence - self.retention + 1)
        return self.node.ledger(first)

    def get_health(self, _: Params) -> dict[str, Any]:
        """The head; a devnet is always healthy, since it closes ledgers on request."""
        latest, oldest = self.node.latest, self.oldest
        return {
            "status": "healthy",
            "latestLedger": latest.sequence,
            "latestLedgerCloseTime": latest.close_time,
            "oldestLedger": oldest.sequence,
            "oldestLedgerCloseTime": oldest.close_time,
            "ledgerRetentionWindow": self.retention or latest.sequence,
        }

    def get_network(self, _: Params) -> dict[str, Any]:
        """Passphrase and protocol."""
        protocol = self.node.latest.protocol
        answer: dict[str, Any] = {"passphrase": PASSPHRASE, "protocolVersion": protocol}
        if self.friendbot_url is not None:
            answer["friendbotUrl"] = self.friendbot_url
        return answer

    def get_version_info(self, _: Params) -> dict[str, Any]:
        """Version of the node."""
        return {
            "version": VERSION,
            "commitHash": "",
            "buildTimestamp": "",
            "captiveCoreVersion": CORE_VERSION,
            "protocolVersion": self.node.latest.protocol,
        }

    def get_latest_ledger(self, _: Params) -> dict[str, Any]:
        """The head with its whole meta."""
        latest = self.node.latest
        return {
            "id": latest.hash,
            "protocolVersion": latest.protocol,
            "sequence": latest.sequence,
            "closeTime": str(latest.close_time),
            "headerXdr": b64(latest.header),
            "metadataXdr": b64(latest.meta),
        }

    def get_ledgers(self, params: Params) -> dict[str, Any]:
        """Ledgers from `startLedger`, or after the cursor (a sequence number as text)."""
        limit, cursor = _page(params, default=50, most=200)
        if cursor is None:
            start = self._start(params, "startLedger")
        else:
            start = _integer(cursor, "cursor") + 1
            if not self.oldest.sequence <= start <= self.node.latest.sequence:
                raise RpcError(INVALID_PARAMS, self._range_text("cursor"))
        end = min(start + limit, self.node.latest.sequence + 1)
        rows = [self.node.ledger(sequence) for sequence in range(start, end)]
        return {
            "ledgers": [_ledger(row) for row in rows],
            "latestLedger": self.node.latest.sequence,
            "latestLedgerCloseTime": self.node.latest.close_time,
            "oldestLedger": self.oldest.sequence,
            "oldestLedgerCloseTime": self.oldest.close_time,
            "cursor": str(rows[-1].sequence),
        }

    def get_transactions(self, params: Params) -> dict[str, Any]:
        """Transactions in apply order from `startLedger`, or after the cursor (a TOID)."""
        limit, cursor = _page(params, default=50, most=200)
        after = 0
        if cursor is None:
            start = self._start(params, "startLedger")
        else:
            start, after, _ = _cursor(parse_toid, cursor)
            if not self.oldest.sequence <= start <= self.node.latest.sequence:
                raise RpcError(INVALID_REQUEST, self._range_text("cursor"))
        rows: list[TransactionRow] = []
        for sequence in range(start, self.node.latest.sequence + 1):
            skipped = after if sequence == start else 0
            rows.extend(self.node.ledger(sequence).transactions[skipped:])
            if len(rows) >= limit:
                break
        page = rows[:limit]
        # On an empty page the real server's cursor names the start of the head ledger.
        last = (page[-1].ledger, page[-1].order) if page else (self.node.latest.sequence, 0)
        return {
            "transactions": [{**_transaction(row), "createdAt": row.close_time} for row in page],
            "latestLedger": self.node.latest.sequence,
            "latestLedgerCloseTimestamp": self.node.latest.close_time,
            "oldestLedger": self.oldest.sequence,
            "oldestLedgerCloseTimestamp": self.oldest.close_time,
            "cursor": str(toid(*last, 1 if page else 0)),
        }

    def get_transaction(self, params: Params) -> dict[str, Any]:
        """A transaction by hash; NOT_FOUND when unknown, pending or out of the window."""
        tx_hash = params.get("hash")
        if not isinstance(tx_hash, str) or not _is_hash(tx_hash):
            raise RpcError(INVALID_PARAMS, "hash must be 64 hex digits")
        answer: dict[str, Any] = {
            "txHash": tx_hash,
            "latestLedger": self.node.latest.sequence,
            "latestLedgerCloseTime": str(self.node.latest.close_time),
            "oldestLedger": self.oldest.sequence,
            "oldestLedgerCloseTime": str(self.oldest.close_time),
        }
        row = self.node.transaction(tx_hash.lower())
        if row is None or row.ledger < self.oldest.sequence:
            return {"status": "NOT_FOUND", **answer}
        # A fee bump is found by either hash, and returned under the requested one.
        return {**_transaction(row), **answer, "createdAt": str(row.close_time)}

    def get_events(self, params: Params) -> dict[str, Any]:
        """Events that pass any filter, in the order of their ids."""
        limit, cursor = _page(params, default=100, most=10_000)
        filters = parse_filters(params.get("filters"))
        end = _integer(params.get("endLedger") or 0, "endLedger")
        if cursor is None:
            start, after = _integer(params.get("startLedger") or 0, "startLedger"), None
            if start <= 0:
                raise RpcError(INVALID_PARAMS, "startLedger must be positive")
        else:
            if end or params.get("startLedger"):
                raise RpcError(INVALID_PARAMS, "ledger ranges and cursor cannot both be set")
            after = _cursor(parse_event_id, cursor)
            start = after[0]
        if not self.oldest.sequence <= start <= self.node.latest.sequence:
            raise RpcError(INVALID_REQUEST, self._range_text("startLedger"))
        stop = min(start + EVENT_SCAN, self.node.latest.sequence + 1, end or start + EVENT_SCAN)
        found = self._scan(start, stop, after, filters, limit)
        full = len(found) == limit
        last = found[-1].id if full else event_id(stop - 1, LAST_TX, LAST_OP, LAST_EVENT)
        return {
            "events": [_event(row, self.node.ledger(row.ledger)) for row in found],
            "latestLedger": self.node.latest.sequence,
            "latestLedgerCloseTime": str(self.node.latest.close_time),
            "oldestLedger": self.oldest.sequence,
            "oldestLedgerCloseTime": str(self.oldest.close_time),
            "cursor": last,
        }

    def _scan(
        self,
        start: int,
        stop: int,
        after: tuple[int, int, int, int] | None,
        filters: tuple[Filter, ...],
        limit: int,
    ) -> list[EventRow]:
        found: list[EventRow] = []
        for sequence in range(start, stop):
            for row in self.node.ledger(sequence).events:
                if after is not None and (row.ledger, row.tx, row.op, row.index) <= after:
                    continue
                if not filters or any(each.matches(row) for each in filters):
                    found.append(row)
                    if len(found) == limit:
                        return found
        return found

    def get_ledger_entries(self, params: Params) -> dict[str, Any]:
        """Live entries by key; a key with no entry is simply absent from the answer."""
        keys = params.get("keys")
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise RpcError(INVALID_PARAMS, "keys must be a list of base64 ledger keys")
        if len(keys) > 200:
            raise RpcError(INVALID_PARAMS, f"key count ({len(keys)}) exceeds maximum 200")
        entries = [self._entry(key) for key in keys]
        return {
            "entries": [entry for entry in entries if entry is not None],
            "latestLedger": self.node.latest.sequence,
        }

    def _entry(self, key: str) -> dict[str, Any] | None:
        try:
            known = xdr.LedgerKey.from_xdr(key)
        except (ValueError, EOFError) as error:
            raise RpcError(INVALID_PARAMS, f"cannot unmarshal key value {key}") from error
        if known.type == xdr.LedgerEntryType.TTL:
            raise RpcError(INVALID_PARAMS, "ledger ttl entries cannot be queried directly")
        raw = self.node.entry(known.to_xdr_bytes())
        if raw is None:
            return None
        entry = xdr.LedgerEntry.from_xdr_bytes(raw)
        modified = entry.last_modified_ledger_seq.uint32
        answer = {
            "key": key,
            "xdr": entry.data.to_xdr(),
            "lastModifiedLedgerSeq": modified,
            "extXdr": entry.ext.to_xdr(),
        }
        if known.type in _SOROBAN_ENTRIES:
            answer["liveUntilLedgerSeq"] = modified + LIVE_LEDGERS
        return answer

    def get_fee_stats(self, _: Params) -> dict[str, Any]:
        """There is no surge pricing: every transaction pays the base fee."""
        rows = [
            self.node.ledger(sequence)
            for sequence in range(
                max(self.oldest.sequence, self.node.latest.sequence - 49),
                self.node.latest.sequence + 1,
            )
        ]
        return {
            "sorobanInclusionFee": _fees(rows),
            "inclusionFee": _fees(rows[-10:]),
            "latestLedger": self.node.latest.sequence,
        }

    def send_transaction(self, params: Params) -> dict[str, Any]:
        """Queue a transaction; it does not wait for the ledger that takes it."""
        text = params.get("transaction")
        if not isinstance(text, str):
            raise RpcError(INVALID_PARAMS, "transaction must be a base64 envelope")
        latest = self.node.latest
        try:
            submission = self.node.submit(self.node.envelope(text))
        except (UnreadableTransaction, ValueError, EOFError) as error:
            raise RpcError(INVALID_PARAMS, "invalid_xdr") from error
        answer: dict[str, Any] = {
            "status": submission.status,
            "hash": submission.hash,
            "latestLedger": latest.sequence,
            "latestLedgerCloseTime": str(latest.close_time),
        }
        if submission.error is not None:
            answer["errorResultXdr"] = submission.error.to_xdr()
        if submission.status == "PENDING" and self.close_on_submit:
            self.node.close_ledger()
        return answer

    def get_head(self, _: Params) -> dict[str, Any]:
        """`devnet_getHead`: the last ledger and its close time in milliseconds."""
        return _head(self.node.latest)

    def close_ledger(self, params: Params) -> dict[str, Any]:
        """`devnet_closeLedger`: close a ledger now, at `closeTimeMs` if that is given.

        With `withoutSet` it takes the empty transaction set, and what is queued waits on.
        """
        close_time_ms = params.get("closeTimeMs")
        if close_time_ms is not None:
            close_time_ms = _integer(close_time_ms, "closeTimeMs")
        try:
            row = self.node.close_ledger(
                close_time_ms=close_time_ms, without_set=params.get("withoutSet") is True
            )
        except TimeWentBack as error:
            raise RpcError(INVALID_PARAMS, str(error)) from error
        return _head(row)

    def upgrade(self, params: Params) -> dict[str, Any]:
        """`devnet_upgrade`: the next ledger applies `protocolVersion`."""
        protocol = _integer(params.get("protocolVersion"), "protocolVersion")
        try:
            self.node.upgrade(protocol)
        except NotAnUpgrade as error:
            raise RpcError(INVALID_PARAMS, str(error)) from error
        return {"protocolVersion": protocol}

    def _start(self, params: Params, name: str) -> int:
        start = _integer(params.get(name) or 0, name)
        if not self.oldest.sequence <= start <= self.node.latest.sequence:
            raise RpcError(INVALID_REQUEST, self._range_text(name))
        return start

    def _range_text(self, name: str) -> str:
        first, last = self.oldest.sequence, self.node.latest.sequence
        return f"{name} must be within the ledger range: {first} - {last}"


METHODS: dict[str, Callable[[Rpc, Params], dict[str, Any]]] = {
    "getHealth": Rpc.get_health,
    "getNetwork": Rpc.get_network,
    "getVersionInfo": Rpc.get_version_info,
    "getLatestLedger": Rpc.get_latest_ledger,
    "getLedgers": Rpc.get_ledgers,
    "getTransactions": Rpc.get_transactions,
    "getTransaction": Rpc.get_transaction,
    "getEvents": Rpc.get_events,
    "getLedgerEntries": Rpc.get_ledger_entries,
    "getFeeStats": Rpc.get_fee_stats,
    "sendTransaction": Rpc.send_transaction,
    "simulateTransaction": lambda rpc, params: simulate_transaction(rpc.node, params),
    "devnet_getHead": Rpc.get_head,
    "devnet_closeLedger": Rpc.close_ledger,
    "devnet_upgrade": Rpc.upgrade,
}
"""Everything that is answered."""


def _page(params: Params, *, default: int, most: int) -> tuple[int, str | None]:
    """Limit and cursor of a request."""
    pagination = params.get("pagination") or {}
    if not isinstance(pagination, dict):
        raise RpcError(INVALID_PARAMS, "pagination must be an object")
    limit = _integer(pagination.get("limit") or default, "limit")
    if not 0 < limit <= most:
        raise RpcError(INVALID_PARAMS, f"limit must not exceed {most}")
    cursor = pagination.get("cursor") or None
    if cursor is not None and not isinstance(cursor, str):
        raise RpcError(INVALID_PARAMS, "cursor must be a string")
    return limit, cursor


def _integer(value: Any, name: str) -> int:
    if isinstance(value, str) and value.isdigit():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise RpcError(INVALID_PARAMS, f"{name} must be a whole number")
    return value


def _cursor(parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise RpcError(INVALID_PARAMS, f"invalid cursor: {error}") from error


def _is_hash(text: str) -> bool:
    return len(text) == 64 and all(digit in "0123456789abcdefABCDEF" for digit in text)


def _head(row: LedgerRow) -> dict[str, Any]:
    return {
        "sequence": row.sequence,
        "hash": row.hash,
        "protocolVersion": row.protocol,
        "closeTimeMs": row.close_time_ms,
    }


def _ledger(row: LedgerRow) -> dict[str, Any]:
    return {
        "hash": row.hash,
        "sequence": row.sequence,
        "ledgerCloseTime": str(row.close_time),
        "headerXdr": b64(row.header),
        "metadataXdr": b64(row.meta),
    }


def _transaction(row: TransactionRow) -> dict[str, Any]:
    events: dict[str, Any] = {"transactionEventsXdr": [b64(e) for e in row.transaction_events]}
    if row.contract_events:
        events["contractEventsXdr"] = [[b64(e) for e in op] for op in row.contract_events]
    answer: dict[str, Any] = {
        "status": "SUCCESS" if row.succeeded else "FAILED",
        "txHash": row.hash,
        "applicationOrder": row.order,
        "feeBump": row.inner_hash is not None,
        "envelopeXdr": b64(row.envelope),
        "resultXdr": b64(row.result),
        "resultMetaXdr": b64(row.meta),
        "events": events,
        "ledger": row.ledger,
    }
    if row.diagnostics:
        answer["diagnosticEventsXdr"] = [b64(event) for event in row.diagnostics]
    return answer


def _event(row: EventRow, ledger: LedgerRow) -> dict[str, Any]:
    closed = datetime.fromtimestamp(ledger.close_time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "type": row.kind,
        "ledger": row.ledger,
        "ledgerClosedAt": closed,
        "contractId": row.contract,
        "id": row.id,
        "operationIndex": row.op,
        "transactionIndex": row.tx,
        "txHash": row.tx_hash,
        "topic": list(row.topics),
        "value": row.value,
    }


def _fees(rows: list[LedgerRow]) -> dict[str, Any]:
    fee, count = str(BASE_FEE), sum(len(row.transactions) for row in rows)
    points = ("max", "min", "mode", *(f"p{n}0" for n in range(1, 10)), "p95", "p99")
    return {
        **dict.fromkeys(points, fee),
        "transactionCount": str(count),
        "ledgerCount": len(rows),
    }
