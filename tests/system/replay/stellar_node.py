"""A Stellar RPC node that knows recorded events, and nothing of their ledgers but numbers.

MADE UP: every header it gives. The events' contents are genuine; the ledgers around them were not
recorded, so a header holds the recorded number and close time, a parent that never was, and zeros.
It hashes to its own name, because the reader checks that, and the name is therefore none of
Stellar's. Where two recorded ledgers follow one another their made-up headers join, as the
warehouse insists; they never join a genuine one.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from stellar_sdk import xdr

from indexer.chains.stellar.xdr.event_ids import parse_event_id
from indexer.config.networks import StellarChain
from tests.system.replay.recordings import StellarRecord
from tests.system.replay.scaffolding import UNKNOWN_PROTOCOL, made_up_hash
from tests.system.replay.serving import Refused
from warehouse_schema.identifiers import Height

_INVALID = -32600
_UNKNOWN_METHOD = -32601
_END_OF_LEDGER = 0xFFFFFFFF


class RecordedStellarNode:
    """Answers getNetwork, getHealth, getLedgers and getEvents from records."""

    def __init__(self, chain: StellarChain, records: Sequence[StellarRecord]) -> None:
        self._chain = chain
        self._records = sorted(records, key=lambda each: each.event_id)
        self._closed_at = {each.ledger: each.closed_at for each in records}
        self._methods: dict[str, Callable[[Any], dict[str, Any]]] = {
            "getNetwork": self._network,
            "getHealth": self._health,
            "getLedgers": self._ledgers,
            "getEvents": self._events,
        }

    def call(self, method: str, params: Any) -> dict[str, Any]:
        """The result of one call. Raises `Refused` for a ledger that was not recorded."""
        if method not in self._methods:
            raise Refused(_UNKNOWN_METHOD, "method not found")
        return self._methods[method](params)

    def _network(self, _: Any) -> dict[str, Any]:
        return {"passphrase": self._chain.passphrase, "protocolVersion": UNKNOWN_PROTOCOL}

    def _health(self, _: Any) -> dict[str, Any]:
        return {"status": "healthy", **self._reach()}

    def _ledgers(self, params: Any) -> dict[str, Any]:
        ledger = Height(params["startLedger"])
        self._check_recorded(ledger)
        # One ledger whatever the limit: the next one was not recorded.
        header = self._header(ledger)
        record = {
            "hash": header.hash.hash.hex(),
            "sequence": ledger,
            "ledgerCloseTime": str(self._closed_at[ledger]),
            "headerXdr": header.to_xdr(),
        }
        return {"ledgers": [record], **self._reach()}

    def _events(self, params: Any) -> dict[str, Any]:
        first, end = Height(params["startLedger"]), params["endLedger"]
        self._check_recorded(first)
        found = [
            _rpc_event(record)
            for record in self._records
            if first <= record.ledger < end
            and any(_passes(record, each) for each in params["filters"])
        ]
        if len(found) >= params["pagination"]["limit"]:
            raise Refused(_INVALID, "more events than one page; this node has no second one")
        cursor = f"{(end - 1) << 32 | _END_OF_LEDGER:019d}-{_END_OF_LEDGER:010d}"
        return {"events": found, "cursor": cursor, **self._reach()}

    def _reach(self) -> dict[str, int]:
        return {"oldestLedger": min(self._closed_at), "latestLedger": max(self._closed_at)}

    def _check_recorded(self, ledger: Height) -> None:
        if ledger not in self._closed_at:
            raise Refused(_INVALID, f"ledger {ledger} was not recorded")

    def _header(self, ledger: Height) -> xdr.LedgerHeaderHistoryEntry:
        header = _blank_header()
        header.ledger_seq = xdr.Uint32(ledger)
        header.scp_value.close_time = xdr.TimePoint(xdr.Uint64(self._closed_at[ledger]))
        header.previous_ledger_hash = self._parent_hash(ledger)
        name = xdr.Hash(sha256(header.to_xdr_bytes()).digest())
        extension = xdr.LedgerHeaderHistoryEntryExt(0)
        return xdr.LedgerHeaderHistoryEntry(hash=name, header=header, ext=extension)

    def _parent_hash(self, ledger: Height) -> xdr.Hash:
        parent = Height(ledger - 1)
        if parent in self._closed_at:
            return self._header(parent).hash
        return xdr.Hash(bytes.fromhex(made_up_hash(self._chain.id, parent)))


def _blank_header() -> xdr.LedgerHeader:
    nothing = xdr.Hash(bytes(32))
    return xdr.LedgerHeader(
        ledger_version=xdr.Uint32(UNKNOWN_PROTOCOL),
        previous_ledger_hash=nothing,
        scp_value=xdr.StellarValue(
            tx_set_hash=nothing,
            close_time=xdr.TimePoint(xdr.Uint64(0)),
            upgrades=[],
            ext=xdr.StellarValueExt(xdr.StellarValueType.STELLAR_VALUE_BASIC),
        ),
        tx_set_result_hash=nothing,
        bucket_list_hash=nothing,
        ledger_seq=xdr.Uint32(0),
        total_coins=xdr.Int64(0),
        fee_pool=xdr.Int64(0),
        inflation_seq=xdr.Uint32(0),
        id_pool=xdr.Uint64(0),
        base_fee=xdr.Uint32(0),
        base_reserve=xdr.Uint32(0),
        max_tx_set_size=xdr.Uint32(0),
        skip_list=[nothing] * 4,
        ext=xdr.LedgerHeaderExt(0),
    )


def _rpc_event(record: StellarRecord) -> dict[str, Any]:
    closed = datetime.fromtimestamp(record.closed_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    place = parse_event_id(record.event_id)
    return {
        "type": "contract",
        "ledger": record.ledger,
        "ledgerClosedAt": closed,
        "contractId": record.contract,
        "id": record.event_id,
        "operationIndex": place.operation,
        "transactionIndex": place.transaction,
        "txHash": record.tx_hash,
        "inSuccessfulContractCall": True,
        "topic": list(record.topics),
        "value": record.value,
    }


def _passes(record: StellarRecord, wanted: dict[str, Any]) -> bool:
    if record.contract not in wanted["contractIds"]:
        return False
    return "topics" not in wanted or any(_matches(record, each) for each in wanted["topics"])


def _matches(record: StellarRecord, segments: list[str]) -> bool:
    return len(segments) == len(record.topics) and all(
        segment in ("*", topic) for segment, topic in zip(segments, record.topics, strict=True)
    )
