"""The recordings of `tests/golden`, in the words in which nodes speak."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from indexer.chains.stellar.xdr.event_ids import EventId, parse_event_id
from indexer.config.networks import EvmChain
from tests.system.replay.scaffolding import UNKNOWN_TIME, completed_hash, made_up_hash
from warehouse_schema.identifiers import EvmAddress, Height

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
LEDGER_FILES = tuple(sorted((GOLDEN / "stellar" / "ledgers").iterdir()))

_EMITTED_LAST = ("deposit_for_burn",)
"""The messenger emits its event after the transmitter's; the recording has them by name."""


@dataclass(frozen=True, slots=True)
class StellarRecord:
    """A Stellar contract event. Topics and value are base64 XDR, as in getEvents."""

    ledger: Height
    closed_at: int
    """Unix seconds; `UNKNOWN_TIME` where it was not recorded."""
    event_id: str
    tx_hash: str
    contract: str
    topics: tuple[str, ...]
    value: str


@dataclass(frozen=True, slots=True)
class EvmRecord:
    """An EVM log. Hashes, topics and data are `0x` hex."""

    height: Height
    block_hash: str | None
    """None where it was not recorded."""
    tx_hash: str
    log_index: int
    address: str
    topics: tuple[str, ...]
    data: str


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """An attested CCTP message."""

    name: str
    network: str
    message: bytes
    attestation: bytes | None
    """None where it was not recorded."""
    told: Mapping[str, Any] | None
    """The attestation service's own reading of the message, where that was recorded."""


# Stellar


def cctp_events() -> tuple[StellarRecord, ...]:
    """Events of the CCTP contracts on pubnet.

    Not recorded: event ids, so that transactions and events are numbered as they come; the
    transaction of `mint_and_forward`; some ledgers' close times.
    """
    files = ("cctp-pubnet.json", "cctp-pubnet-admin.json")
    entries = [entry for file in files for entry in _read("stellar/events", file)["events"]]
    by_ledger: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for entry in entries:
        by_ledger[entry["ledger"]].append(entry)
    return tuple(
        record for ledger in sorted(by_ledger) for record in _of_ledger(ledger, by_ledger[ledger])
    )


def _of_ledger(ledger: int, entries: list[dict[str, Any]]) -> Iterator[StellarRecord]:
    known = [_seconds(entry["ledgerClosedAt"]) for entry in entries if entry["ledgerClosedAt"]]
    closed_at = known[0] if known else UNKNOWN_TIME
    by_transaction: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in sorted(entries, key=lambda each: each["name"] in _EMITTED_LAST):
        tx_hash = entry["txHash"] or made_up_hash("stellar:pubnet", ledger, entry["name"])
        by_transaction[tx_hash].append(entry)
    for transaction, (tx_hash, group) in enumerate(by_transaction.items(), start=1):
        for index, entry in enumerate(group):
            operation = entry.get("operationIndex", 0)
            event_id = EventId(Height(ledger), transaction, operation, index)
            yield _stellar_record(entry, closed_at, str(event_id), tx_hash)


def oft_send() -> tuple[StellarRecord, ...]:
    """The eight events of one OFT send on Stellar testnet; recorded whole."""
    events = _read("stellar/events", "oft-testnet-send.getEvents.json")["result"]["events"]
    return tuple(
        _stellar_record(each, _seconds(each["ledgerClosedAt"]), each["id"], each["txHash"])
        for each in events
    )


def _stellar_record(
    entry: Mapping[str, Any], closed_at: int, event_id: str, tx_hash: str
) -> StellarRecord:
    return StellarRecord(
        ledger=parse_event_id(event_id).ledger,
        closed_at=closed_at,
        event_id=event_id,
        tx_hash=tx_hash,
        contract=entry["contractId"],
        topics=tuple(entry["topic"]),
        value=entry["value"],
    )


# EVM


def sepolia_burn(chain: EvmChain) -> EvmRecord:
    """One burn on Sepolia towards Stellar.

    Not recorded: block hash, log index, the middle of the transaction hash. The emitter was
    recorded in words, as the messenger of the testnets, whose address the network file has.
    """
    entry = _read("evm", "sepolia-deposit-for-burn.json")
    return EvmRecord(
        height=Height(entry["blockNumber"]),
        block_hash=None,
        tx_hash=completed_hash(entry["txHash"]),
        log_index=0,
        address=str(chain.cctp_token_messenger),
        topics=tuple(entry["log"]["topics"]),
        data=entry["log"]["data"],
    )


def arc_receipt() -> tuple[EvmRecord, ...]:
    """All logs of a mint on Arc testnet. Not recorded: block hash."""
    receipt = _read("evm", "arc-testnet-receipt.json")["receipt"]
    return tuple(
        EvmRecord(
            height=Height(int(receipt["blockNumber"])),
            block_hash=None,
            tx_hash=receipt["txHash"],
            log_index=log["logIndex"],
            address=log["address"],
            topics=tuple(log["topics"]),
            data=log["data"],
        )
        for log in receipt["logs"]
    )


def layerzero_logs() -> dict[str, EvmRecord]:
    """Event name → log, of the logs that name their block: recorded whole."""
    entries = _read("lz", "endpoint-and-oft-logs.json")
    return {
        entry["event"]: EvmRecord(
            height=Height(int(entry["blockNumber"], 16)),
            block_hash=entry["blockHash"],
            tx_hash=entry["transactionHash"],
            log_index=int(entry["logIndex"], 16),
            address=entry["address"],
            topics=tuple(entry["topics"]),
            data=entry["data"],
        )
        for entry in entries
        if "blockHash" in entry
    }


def receiver_of(event: EvmRecord) -> EvmAddress:
    """Whom a `PacketDelivered` or `PacketVerified` is for: the fourth word of its data."""
    return EvmAddress("0x" + event.data[2 + 3 * 64 + 24 : 2 + 4 * 64])


# Messages


def attested_messages() -> tuple[MessageRecord, ...]:
    """Every recorded message that the attestation service signed, or said it would deliver."""
    return (*_listed_messages(), *_service_messages())


def _listed_messages() -> Iterator[MessageRecord]:
    for entry in _read("cctp", "attested-messages.json")["messages"]:
        attestation = entry.get("attestation")
        yield MessageRecord(
            name=entry["id"],
            network=entry["network"],
            message=_bytes(entry["message"]),
            attestation=None if attestation is None else _bytes(attestation),
            told=None,
        )


def _service_messages() -> Iterator[MessageRecord]:
    for name in ("arc", "forwarded"):
        file = f"service-answer-{name}-testnet.json"
        answer = _read("cctp", file)
        for entry in answer.get("response", answer)["messages"]:
            yield MessageRecord(
                name=file.removesuffix(".json"),
                network="testnet",
                message=_bytes(entry["message"]),
                attestation=_bytes(entry["attestation"]),
                told=entry["decodedMessage"],
            )


def known_attesters() -> frozenset[EvmAddress]:
    """Whom the testnets' MessageTransmitters accept attestations of."""
    return frozenset(EvmAddress(each) for each in _read("cctp", "attesters.json")["testnet"])


# Files


def _read(folder: str, file: str) -> Any:
    return json.loads((GOLDEN / folder / file).read_text())


def _seconds(closed_at: str) -> int:
    return int(datetime.fromisoformat(closed_at).timestamp())


def _bytes(hexadecimal: str) -> bytes:
    return bytes.fromhex(hexadecimal.removeprefix("0x"))
