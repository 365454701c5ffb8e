"""A Stellar RPC node in this process, with ledgers and events that a test gives it.

It keeps RPC's rules: which ledgers may be asked for, how many filters of what shape, what a cursor
is, how far one call looks. `answer_with` replaces the answers of a method.
"""

import base64
import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from stellar_sdk import xdr

from devnet.local_http import HOST
from devnet.local_server import Handler, Server, answering
from indexer.chains.raw import StellarEvent
from indexer.chains.stellar.xdr.event_ids import parse_event_id
from tests.factories.sdk_ledgers import header_entry
from tests.factories.stellar_recorded import FOLDER

PASSPHRASE = "Standalone Network ; February 2017"
_MOST = 5


class RpcError(Exception):
    """A JSON-RPC error to answer with."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class HttpAnswer(Exception):
    """An HTTP answer to give instead of JSON-RPC."""

    def __init__(self, status: int, body: bytes = b"", **headers: str) -> None:
        super().__init__(str(status))
        self.status, self.body, self.headers = status, body, headers


class FakeStellarNode:
    """Ledgers 1 … `latest`, closed 5 seconds apart as `make_seen` has them."""

    def __init__(self, *, latest: int, oldest: int = 1, passphrase: str = PASSPHRASE) -> None:
        self.url = ""
        self.passphrase, self.protocol, self.oldest = passphrase, 27, oldest
        self.version, self.core = "30.0.0-4f524bba", "stellar-core 27.1.0 (3589a696)"
        """What getVersionInfo says that the node and its core are."""
        self.scan = 10_000
        """Ledgers that one getEvents call looks at."""
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.headers: list[xdr.LedgerHeaderHistoryEntry] = []
        self.events: list[tuple[StellarEvent, bool]] = []
        self.entries: dict[str, str] = {}
        """Base64 LedgerEntryData by the base64 key that asks for it."""
        self._answers: dict[str, Callable[[dict[str, Any], Any], Any]] = {}
        for _ in range(latest):
            self.close_ledger()

    @property
    def latest(self) -> int:
        return len(self.headers)

    def close_ledger(self) -> None:
        parent = self.headers[-1].hash if self.headers else xdr.Hash(bytes(32))
        self.headers.append(_header(self.latest + 1, parent))

    def emit(self, *events: StellarEvent, successful: bool = True) -> None:
        self.events += [(event, successful) for event in events]

    def hash_of(self, ledger: int) -> str:
        return self.headers[ledger - 1].hash.hash.hex()

    def answer_with(self, method: str, change: Callable[[dict[str, Any], Any], Any]) -> None:
        """Answer a method by `change(params, what would have been answered)`."""
        self._answers[method] = change

    def requests(self, method: str) -> list[dict[str, Any]]:
        return [params for name, params in self.calls if name == method]

    def call(self, method: str, params: dict[str, Any]) -> Any:
        self.calls.append((method, params))
        answer = getattr(self, f"_{method}", None)
        if answer is None:
            raise RpcError(-32601, "method not found")
        if method not in self._answers:
            return answer(params)
        return self._answers[method](params, lambda: answer(params))

    def _getNetwork(self, _: Any) -> Any:  # noqa: N802
        return {"passphrase": self.passphrase, "protocolVersion": self.protocol}

    def _getVersionInfo(self, _: Any) -> Any:  # noqa: N802
        return {
            "version": self.version,
            "captiveCoreVersion": self.core,
            "protocolVersion": self.protocol,
        }

    def _getHealth(self, _: Any) -> Any:  # noqa: N802
        return {
            "status": "healthy",
            "latestLedger": self.latest,
            "oldestLedger": self.oldest,
            "ledgerRetentionWindow": 120_960,
        }

    def _getLedgers(self, params: Any) -> Any:  # noqa: N802
        first = params["startLedger"]
        self._check_start(first)
        page = self.headers[first - 1 :][: params["pagination"]["limit"]]
        return {"ledgers": [_ledger_record(entry) for entry in page], **self._ends()}

    def _getLedgerEntries(self, params: Any) -> Any:  # noqa: N802
        found = [key for key in params["keys"] if key in self.entries]
        entries = [
            {"key": key, "xdr": self.entries[key], "lastModifiedLedgerSeq": 1} for key in found
        ]
        return {"entries": entries, "latestLedger": self.latest}

    def _simulateTransaction(self, _: Any) -> Any:  # noqa: N802
        return {"error": "HostError: Error(Storage, MissingValue)", "latestLedger": self.latest}

    def _getEvents(self, params: Any) -> Any:  # noqa: N802
        limit = params["pagination"]["limit"]
        cursor = params["pagination"].get("cursor")
        _check_filters(params["filters"])
        if cursor is None:
            first, end = params["startLedger"], params["endLedger"]
        else:
            if "startLedger" in params or "endLedger" in params:
                raise RpcError(-32602, "ledger ranges and cursor cannot both be set")
            # The cursor of a page that was not full is the last place of the ledgers it looked at.
            first = (int(cursor[:19]) >> 32) + cursor.endswith("-4294967295")
            end = self.latest + 1
        self._check_start(first)
        end = min(end, first + self.scan, self.latest + 1)
        found = [
            (event, successful)
            for event, successful in sorted(self.events, key=lambda each: each[0].event_id)
            if first <= event.seen.height < end
            and (cursor is None or event.event_id > cursor)
            and any(_passes(event, each) for each in params["filters"])
        ][:limit]
        reached = f"{((end - 1) << 32) | 0xFFFFFFFF:019d}-4294967295"
        return {
            "events": [event_record(*each) for each in found],
            "cursor": found[-1][0].event_id if len(found) == limit else reached,
            **self._ends(),
        }

    def _check_start(self, first: int) -> None:
        if not self.oldest <= first <= self.latest:
            raise RpcError(-32600, "startLedger must be within the ledger range")

    def _ends(self) -> dict[str, Any]:
        return {"latestLedger": self.latest, "oldestLedger": self.oldest}


@contextmanager
def serving(node: FakeStellarNode) -> Iterator[FakeStellarNode]:
    """The node behind a URL on this machine."""

    class RequestHandler(Handler):
        def do_POST(self) -> None:
            request = json.loads(self.body())
            try:
                answer = {"result": node.call(request["method"], request.get("params", {}))}
            except RpcError as error:
                answer = {"error": {"code": error.code, "message": error.message}}
            except HttpAnswer as http:
                headers = {name.replace("_", "-"): text for name, text in http.headers.items()}
                self.answer(http.status, http.body, headers)
                return
            response = json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer})
            self.answer(200, response.encode())

    with answering(Server((HOST, 0), RequestHandler)) as node.url:
        yield node


def event_record(event: StellarEvent, successful: bool = True) -> dict[str, Any]:
    """An event in getEvents' words."""
    closed = datetime.fromtimestamp(event.seen.block_time, UTC)
    return {
        "type": "contract",
        "ledger": event.seen.height,
        "ledgerClosedAt": closed.isoformat().replace("+00:00", "Z"),
        "contractId": event.contract,
        "id": event.event_id,
        "operationIndex": parse_event_id(event.event_id).operation,
        "transactionIndex": parse_event_id(event.event_id).transaction,
        "txHash": event.seen.tx_hash,
        "inSuccessfulContractCall": successful,
        # As a node's encoder has it: an empty list is left out.
        **({"topic": [_base64(topic) for topic in event.topics]} if event.topics else {}),
        "value": _base64(event.value),
    }


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _ledger_record(entry: xdr.LedgerHeaderHistoryEntry) -> dict[str, Any]:
    header = entry.header
    return {
        "hash": entry.hash.hash.hex(),
        "sequence": header.ledger_seq.uint32,
        "ledgerCloseTime": str(header.scp_value.close_time.time_point.uint64),
        "headerXdr": entry.to_xdr(),
        "metadataXdr": "AAAA",
    }


def _header(ledger: int, parent: xdr.Hash) -> xdr.LedgerHeaderHistoryEntry:
    """A recorded header, made the one of another ledger."""
    entry = xdr.LedgerHeaderHistoryEntry.from_xdr_bytes(_TEMPLATE)
    entry.header.ledger_seq = xdr.Uint32(ledger)
    entry.header.previous_ledger_hash = parent
    closed = xdr.TimePoint(xdr.Uint64(1_700_000_000 + 5 * ledger))
    entry.header.scp_value.close_time = closed
    entry.hash = xdr.Hash(sha256(entry.header.to_xdr_bytes()).digest())
    return entry


def _check_filters(filters: list[dict[str, Any]]) -> None:
    too_many = len(filters) > _MOST or any(
        len(each["contractIds"]) > _MOST
        or len(each.get("topics", ())) > _MOST
        or any(not 1 <= len(topics) <= 4 for topics in each.get("topics", ()))
        for each in filters
    )
    uniform = len({(each["type"], "topics" in each) for each in filters}) == 1
    if too_many or not uniform:
        raise RpcError(-32602, "too many or uneven filters")


def _passes(event: StellarEvent, filter_: dict[str, Any]) -> bool:
    topics = [base64.b64encode(topic).decode() for topic in event.topics]
    return event.contract in filter_["contractIds"] and (
        "topics" not in filter_
        or any(
            len(wanted) == len(topics)
            and all(w in ("*", t) for w, t in zip(wanted, topics, strict=True))
            for wanted in filter_["topics"]
        )
    )


_TEMPLATE = header_entry(
    gzip.decompress((FOLDER / "ledgers" / "ledger-63092988.xdr.gz").read_bytes())
).to_xdr_bytes()
