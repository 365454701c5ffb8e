"""Recorded Stellar events of `tests/golden/stellar/events`, as a node would give them."""

import base64
import json
from datetime import datetime
from pathlib import Path
from typing import Any

from indexer.chains.raw import StellarEvent
from indexer.chains.stellar.xdr.event_ids import parse_event_id
from indexer.config.networks import StellarChain, load_network
from tests.factories.stellar_events import make_seen
from warehouse_schema.identifiers import StellarAddress

FOLDER = Path(__file__).parents[1] / "golden" / "stellar"
PUBNET: StellarChain = load_network("mainnet").stellar
TESTNET: StellarChain = load_network("testnet").stellar


def recorded_cctp(file: str) -> dict[str, StellarEvent]:
    """Event name → event, of `cctp-pubnet.json` or `cctp-pubnet-admin.json`.

    The record has no event ids, so that events of one transaction are numbered as they come.
    """
    records = json.loads((FOLDER / "events" / file).read_text())["events"]
    return {
        f"{number:02d} {record['name']}": _event(record, record["topic"], PUBNET, index=number)
        for number, record in enumerate(records)
    }


def recorded_oft_send() -> list[StellarEvent]:
    """The eight events of one OFT send on testnet, with their own ids."""
    path = FOLDER / "events" / "oft-testnet-send.getEvents.json"
    records = json.loads(path.read_text())["result"]["events"]
    return [_event(record, record["topic"], TESTNET, **_place(record["id"])) for record in records]


def recorded_of_others() -> list[StellarEvent]:
    """Events of protocols that are not ours."""
    events = []
    for name in ("aquarius-trade", "phoenix-swap", "reflector", "soroswap-swap"):
        record = json.loads((FOLDER / "events" / f"{name}.json").read_text())
        parts = record.get("events", [record])
        events += [
            _event(record | part, part["topics"], PUBNET, index=number)
            for number, part in enumerate(parts)
        ]
    return events


def _place(event_id: str) -> dict[str, Any]:
    parsed = parse_event_id(event_id)
    return {
        "transaction": parsed.transaction,
        "operation": parsed.operation,
        "index": parsed.index,
    }


def _event(
    record: dict[str, Any], topics: list[str], chain: StellarChain, **place: Any
) -> StellarEvent:
    closed = record.get("ledgerClosedAt") or record.get("ledger_closed_at")
    seen, event_id = make_seen(
        chain=chain.id,
        ledger=record["ledger"],
        tx_hash=record.get("txHash") or record.get("tx_hash"),
        block_time=None if closed is None else int(datetime.fromisoformat(closed).timestamp()),
        **place,
    )
    return StellarEvent(
        seen=seen,
        event_id=str(event_id),
        contract=StellarAddress(record.get("contractId") or record["contract_id"]),
        topics=tuple(base64.b64decode(topic) for topic in topics),
        value=base64.b64decode(record["value"]),
    )
