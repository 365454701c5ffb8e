import json
from collections.abc import Callable
from typing import Any

import pytest
from eth_utils.crypto import keccak

from indexer.bridges.oft.packet import guid_of, parse_oft_message, parse_packet
from indexer.errors import Undecodable
from tests.conftest import GOLDEN
from warehouse_schema.identifiers import Bytes32


def raw(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def real_header() -> tuple[bytes, Bytes32]:
    entry = json.loads((GOLDEN / "lz" / "packet-header-ethereum-to-stellar.json").read_text())
    return raw(entry["header"]), Bytes32(entry["guid"])


def real_packet() -> bytes:
    """The packet of the genuine PacketSent: its bytes stand behind two offsets and an address."""
    logs = json.loads((GOLDEN / "lz" / "endpoint-and-oft-logs.json").read_text())
    data = raw(next(log["data"] for log in logs if log["event"] == "PacketSent"))
    return data[128 : 128 + int.from_bytes(data[96:128], "big")]


def make_packet(message: bytes = bytes(40)) -> bytes:
    header, guid = real_header()
    return header + raw(guid) + message


def test_recorded_packet_is_parsed(golden: Callable[[str, Any], None]):
    golden("lz/expected/packet.json", parse_packet(real_packet()))


def test_guid_is_the_hash_of_the_path():
    header, guid = real_header()
    assert "0x" + keccak(header[1:]).hex() == guid
    packet = parse_packet(make_packet())
    assert packet.guid == guid
    assert (packet.nonce, packet.src_eid, packet.dst_eid) == (32, 30101, 30600)
    assert guid == guid_of(
        nonce=32,
        src_eid=30101,
        sender=Bytes32("0x0000000000000000000000006c96de32cea08842dcc4058c14d3aaad7fa41dee"),
        dst_eid=30600,
        receiver=Bytes32("0x5d672cb21b3afcdda54546c7f5b9fd346920e41f8fe8f39e838e5d7bd7435546"),
    )


def test_payload_hash_covers_guid_and_message():
    packet = parse_packet(real_packet())
    assert packet.payload_hash == "0x" + keccak(real_packet()[81:]).hex()


@pytest.mark.parametrize("offset", [1, 9, 13, 45, 49, 81])
def test_packet_with_guid_other_than_its_header_is_undecodable(offset):
    packet = bytearray(make_packet())
    packet[offset] ^= 1
    with pytest.raises(Undecodable, match="hashes to"):
        parse_packet(bytes(packet))


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (b"", "has 0 bytes"),
        (make_packet(b"")[:-1], "has 112 bytes"),
        (b"\2" + make_packet()[1:], "version 2"),
    ],
)
def test_malformed_packet_is_undecodable(packet, reason):
    with pytest.raises(Undecodable, match=reason):
        parse_packet(packet)


def test_oft_message_has_recipient_and_shared_amount():
    plain = parse_oft_message(b"\x11" * 32 + (2**64 - 1).to_bytes(8, "big"))
    assert plain.send_to == "0x" + "11" * 32
    assert plain.amount_shared == 2**64 - 1
    assert plain.compose == b""
    composed = parse_oft_message(b"\x11" * 32 + bytes(7) + b"\x05" + b"\x22" * 32 + b"hello")
    assert (composed.amount_shared, composed.compose) == (5, b"\x22" * 32 + b"hello")


def test_short_oft_message_is_undecodable():
    with pytest.raises(Undecodable, match="has 39 bytes"):
        parse_oft_message(bytes(39))
