"""The recorded attested messages: who signed them, and whether chains saw what they say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from indexer.bridges.cctp.attestation import recover_attesters
from indexer.bridges.cctp.events import MessageReceived, MessageSent
from indexer.bridges.cctp.message import CctpMessage, parse_message
from indexer.chains.events import Event
from tests.system.replay import recordings
from tests.system.replay.movements import key_of
from tests.system.replay.recordings import MessageRecord
from warehouse_schema.identifiers import Bytes32, EvmAddress


@dataclass(frozen=True, slots=True)
class ReplayedMessage:
    """An attested message, parsed and held against everything that is recorded beside it."""

    name: str
    network: str
    message: CctpMessage
    burn_key: Bytes32
    attesters: tuple[EvmAddress, ...] | None
    """Recovered from the attestation; None where none was recorded."""
    is_attested: bool | None
    """Whether those are exactly the known attesters, in the ascending order the contracts want."""
    agrees_with_service: bool | None
    """Whether we read it as the attestation service did; None where its reading was not recorded"""
    events: tuple[str, ...]
    """Events in the warehouse with the same burn key: `MessageReceived on eip155:1`."""


def replay_messages(events: Mapping[str, Sequence[Event]]) -> list[ReplayedMessage]:
    """Every recorded message; `events` are the typed events of each network's warehouse."""
    return [_replayed(record, events[record.network]) for record in recordings.attested_messages()]


def _replayed(record: MessageRecord, events: Sequence[Event]) -> ReplayedMessage:
    message = parse_message(record.message)
    key = key_of(message)
    if key is None:
        raise ValueError(f"recorded message {record.name} has no burn body")
    attesters = None
    if record.attestation is not None:
        attesters = tuple(recover_attesters(record.message, record.attestation))
    return ReplayedMessage(
        name=record.name,
        network=record.network,
        message=message,
        burn_key=key,
        attesters=attesters,
        is_attested=None if attesters is None else _are_known(attesters),
        agrees_with_service=None if record.told is None else _says_the_same(message, record.told),
        events=tuple(
            f"{type(event).__name__} on {event.seen.chain}"
            for event in events
            if isinstance(event, MessageSent | MessageReceived) and event.burn_key == key
        ),
    )


def _are_known(attesters: tuple[EvmAddress, ...]) -> bool:
    return list(attesters) == sorted(recordings.known_attesters())


def _says_the_same(message: CctpMessage, told: Mapping[str, Any]) -> bool:
    """Whether the service's own reading has the same numbers and bytes as ours."""
    body, told_body = message.body, told["decodedMessageBody"]
    return body is not None and (
        message.source_domain,
        message.destination_domain,
        message.nonce,
        message.min_finality_threshold,
        message.finality_threshold_executed,
        body.amount,
        body.max_fee,
        body.fee_executed,
        body.expiration_block,
        "0x" + body.hook_data.hex(),
    ) == (
        int(told["sourceDomain"]),
        int(told["destinationDomain"]),
        told["nonce"],
        int(told["minFinalityThreshold"]),
        int(told["finalityThresholdExecuted"]),
        int(told_body["amount"]),
        int(told_body["maxFee"]),
        int(told_body["feeExecuted"]),
        int(told_body["expirationBlock"]),
        told_body["hookData"],
    )
