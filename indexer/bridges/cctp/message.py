"""CCTP V2 messages as bytes, the same on every chain.

Layout: Circle's MessageV2.sol (148-byte header) and BurnMessageV2.sol (228-byte body, then hook
data without a length prefix); integers are big-endian. The source emits a message with nonce,
executed threshold, executed fee and expiration still zero; the attestation service fills those
four in, so the attested bytes differ from the source bytes exactly there.
"""

from dataclasses import dataclass

from eth_hash.auto import keccak

from indexer.addresses import is_payable
from indexer.bridges.cctp.events import MessageSent
from indexer.chains.events import Provenance
from indexer.errors import Undecodable
from warehouse_schema.identifiers import (
    BaseUnits,
    Bytes32,
    StellarAddress,
    bytes32,
)

MESSAGE_VERSION = 1
BURN_BODY_VERSION = 1
HEADER_SIZE = 148
BURN_BODY_SIZE = 228
TRANSFER_TAG_SIZE = 16

_FORWARD_HOOK_VERSION = 0
_ATTESTED_RANGES = (slice(12, 44), slice(144, 148), slice(312, 344), slice(344, 376))
"""Nonce and executed threshold of the header, executed fee and expiration of the burn body."""
_ATTESTED_BODY_RANGE = slice(164, 228)
"""Executed fee and expiration, counted from the start of the burn body."""


@dataclass(frozen=True, slots=True)
class BurnMessage:
    """BurnMessageV2: the body of a message that mints for a burn. Amounts have 6 decimals."""

    burn_token: Bytes32
    mint_recipient: Bytes32
    amount: BaseUnits
    """Gross of the fee."""
    message_sender: Bytes32
    """Caller of the source messenger: a router if one was used. From Stellar the raw key, for
    accounts and contracts alike."""
    max_fee: BaseUnits
    fee_executed: BaseUnits
    """Zero in source bytes."""
    expiration_block: int
    """First block or ledger of the destination that rejects the message; 0 (as in source bytes):
    never."""
    hook_data: bytes


@dataclass(frozen=True, slots=True)
class CctpMessage:
    """MessageV2: a message from a sender on one domain to a recipient on another."""

    source_domain: int
    destination_domain: int
    nonce: Bytes32
    """Zero in source bytes: the attestation service sets it."""
    sender: Bytes32
    recipient: Bytes32
    destination_caller: Bytes32
    """The only address that may deliver the message; zero: anyone."""
    min_finality_threshold: int
    """1000: fast, 2000: standard."""
    finality_threshold_executed: int
    """Zero in source bytes."""
    raw_body: bytes
    body: BurnMessage | None
    """None when `raw_body` is not a V2 burn body: anyone may send messages of their own."""


def parse_message(message: bytes) -> CctpMessage:
    """Read source or attested bytes. Raises `Undecodable` if this is not a V2 message."""
    if len(message) < HEADER_SIZE:
        raise Undecodable(
            f"a CCTP message has {len(message)} bytes; its header alone has {HEADER_SIZE}"
        )
    version = _number(message, 0, 4)
    if version != MESSAGE_VERSION:
        raise Undecodable(f"a CCTP message has version {version}; V2 messages have version 1")
    raw_body = message[HEADER_SIZE:]
    return CctpMessage(
        source_domain=_number(message, 4, 4),
        destination_domain=_number(message, 8, 4),
        nonce=bytes32(message[12:44]),
        sender=bytes32(message[44:76]),
        recipient=bytes32(message[76:108]),
        destination_caller=bytes32(message[108:140]),
        min_finality_threshold=_number(message, 140, 4),
        finality_threshold_executed=_number(message, 144, 4),
        raw_body=raw_body,
        body=parse_burn_body(raw_body),
    )


def parse_burn_body(body: bytes) -> BurnMessage | None:
    """Read a message body; None when it is not a V2 burn body (too short, or another version)."""
    if not _is_burn_body(body):
        return None
    return BurnMessage(
        burn_token=bytes32(body[4:36]),
        mint_recipient=bytes32(body[36:68]),
        amount=BaseUnits(_number(body, 68, 32)),
        message_sender=bytes32(body[100:132]),
        max_fee=BaseUnits(_number(body, 132, 32)),
        fee_executed=BaseUnits(_number(body, 164, 32)),
        expiration_block=_number(body, 196, 32),
        hook_data=body[228:],
    )


def burn_key(
    source_domain: int, destination_domain: int, sender: Bytes32, body: bytes
) -> Bytes32 | None:
    """A key that a burn and its mint share, computed from either side's logs alone.

    keccak256 of both domains (u32), the sending messenger and the body with what the attestation
    service fills in zeroed. None when the body is not a V2 burn body. Burns that agree in
    every byte share a key; a `transfer_tag` in the hook data makes them differ.
    """
    if not _is_burn_body(body):
        return None
    domains = source_domain.to_bytes(4, "big") + destination_domain.to_bytes(4, "big")
    source_body = _zeroed(body, (_ATTESTED_BODY_RANGE,))
    return bytes32(keccak(domains + bytes.fromhex(sender[2:]) + source_body))


def sent_event(
    seen: Provenance, raw: bytes, message: CctpMessage, messenger: Bytes32 | None
) -> MessageSent:
    """The event of a message (parsed from `raw`) of a chain with that TokenMessenger.

    The transmitter sets `sender` to its caller. Anyone may send messages of their own, burn-shaped
    ones too: only the messenger's are burns and have a burn key.
    """
    domains = message.source_domain, message.destination_domain
    is_burn = message.sender == messenger
    return MessageSent(
        seen=seen,
        message=raw,
        source_domain=message.source_domain,
        destination_domain=message.destination_domain,
        sender=message.sender,
        recipient=message.recipient,
        burn_key=burn_key(*domains, message.sender, message.raw_body) if is_burn else None,
    )


def source_bytes(message: bytes) -> bytes:
    """The bytes that the source chain emitted for an attested message, burn or not.

    Of another message than a burn the attestation service fills in the header only. Raises
    `Undecodable` if this is not a V2 message.
    """
    is_burn = parse_message(message).body is not None
    return _zeroed(message, _ATTESTED_RANGES if is_burn else _ATTESTED_RANGES[:2])


def forward_recipient(hook_data: bytes) -> StellarAddress | None:
    """The recipient that Stellar's CctpForwarder pays: a `G…`, `C…` or `M…` strkey.

    None when the forwarder would reject the hook data: too short, another version than 0, or no
    valid strkey. A muxed contract (`W…`) is none: no source says that the forwarder pays one. The
    forwarder also rejects the token's and its own address; callers that know them check that.
    Layout: CctpForwarder's message.rs.
    """
    split = _split_forward_hook(hook_data)
    if split is None:
        return None
    text = split[0].decode("ascii", errors="replace")
    return StellarAddress(text) if is_payable(text) else None


def transfer_tag(hook_data: bytes) -> bytes | None:
    """The 16-byte id that our burns carry; None when there are not exactly 16 bytes for it.

    Towards Stellar it follows the recipient's strkey, where the forwarder ignores it; towards an
    EVM chain it is the whole hook data. A label, not a proof: anyone can copy it.
    """
    split = _split_forward_hook(hook_data)
    tag = hook_data if split is None else split[1]
    return tag if len(tag) == TRANSFER_TAG_SIZE else None


def attestation_digest(message: bytes) -> bytes:
    """The signed digest: keccak256 of the attested message."""
    return keccak(message)


def _is_burn_body(body: bytes) -> bool:
    return len(body) >= BURN_BODY_SIZE and _number(body, 0, 4) == BURN_BODY_VERSION


def _split_forward_hook(hook_data: bytes) -> tuple[bytes, bytes] | None:
    """Strkey and the bytes after it. The first 24 bytes name a relayer; the contract skips them."""
    if len(hook_data) < 32 or _number(hook_data, 24, 4) != _FORWARD_HOOK_VERSION:
        return None
    end = 32 + _number(hook_data, 28, 4)
    return (hook_data[32:end], hook_data[end:]) if len(hook_data) >= end else None


def _number(data: bytes, start: int, size: int) -> int:
    return int.from_bytes(data[start : start + size], "big")


def _zeroed(data: bytes, ranges: tuple[slice, ...]) -> bytes:
    blanked = bytearray(data)
    for each in ranges:
        blanked[each] = bytes(each.stop - each.start)
    return bytes(blanked)
