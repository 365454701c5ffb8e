"""LayerZero V2 packets and OFT messages as bytes, the same on every chain.

Layout: LayerZero's PacketV1Codec.sol and OFTMsgCodec.sol; integers are big-endian. Senders and
receivers are the OFT contracts, not users: EVM addresses left-padded, Stellar contract ids raw.
"""

from dataclasses import dataclass

from eth_hash.auto import keccak

from indexer.errors import Undecodable
from warehouse_schema.identifiers import BaseUnits, Bytes32, bytes32

PACKET_VERSION = 1
PACKET_HEADER_SIZE = 81
PACKET_MESSAGE_START = 113
"""After the header and the guid."""
OFT_MESSAGE_SIZE = 40
"""Of a plain transfer; a composed one appends composer and message."""

_SENDER = slice(13, 45)


@dataclass(frozen=True, slots=True)
class LzPacket:
    """One message between two OApps. `guid` is what its header hashes to; that was checked."""

    nonce: int
    """Counts the packets of one path (sender, destination, receiver) from 1."""
    src_eid: int
    sender: Bytes32
    dst_eid: int
    receiver: Bytes32
    guid: Bytes32
    message: bytes

    @property
    def payload_hash(self) -> Bytes32:
        """keccak256 of guid and message: what the destination endpoint verifies."""
        return bytes32(keccak(bytes.fromhex(self.guid[2:]) + self.message))


@dataclass(frozen=True, slots=True)
class OftMessage:
    """The message between two OFTs."""

    send_to: Bytes32
    amount_shared: BaseUnits
    """`amountSD`: 6 shared decimals."""
    compose: bytes
    """Composer (32 bytes) and its message; empty for a plain transfer."""


def parse_packet(packet: bytes) -> LzPacket:
    """Read a packet. Raises `Undecodable` on a bad shape or a guid that is not its header's."""
    if len(packet) < PACKET_MESSAGE_START:
        raise Undecodable(
            f"a LayerZero packet has {len(packet)} bytes; header and guid alone have"
            f" {PACKET_MESSAGE_START}"
        )
    if packet[0] != PACKET_VERSION:
        raise Undecodable(f"a LayerZero packet has version {packet[0]}, not {PACKET_VERSION}")
    nonce, src_eid = int.from_bytes(packet[1:9], "big"), int.from_bytes(packet[9:13], "big")
    sender, receiver = bytes32(packet[_SENDER]), bytes32(packet[49:81])
    dst_eid = int.from_bytes(packet[45:49], "big")
    guid = bytes32(packet[PACKET_HEADER_SIZE:PACKET_MESSAGE_START])
    computed = guid_of(nonce, src_eid, sender, dst_eid, receiver)
    if guid != computed:
        raise Undecodable(f"a LayerZero packet says guid {guid}; its header hashes to {computed}")
    return LzPacket(nonce, src_eid, sender, dst_eid, receiver, guid, packet[PACKET_MESSAGE_START:])


def sender_of(packet: bytes) -> Bytes32 | None:
    """The sending OApp in the packet's header; None if the bytes end before it."""
    sender = packet[_SENDER]
    return bytes32(sender) if len(sender) == 32 else None


def guid_of(nonce: int, src_eid: int, sender: Bytes32, dst_eid: int, receiver: Bytes32) -> Bytes32:
    """The message id, computed equally on both sides (LayerZero's GUID.sol).

    `PacketVerified` and `PacketDelivered` carry no guid: pass the local endpoint id as `dst_eid`
    and the receiving OFT as `receiver`.
    """
    return bytes32(
        keccak(
            nonce.to_bytes(8, "big")
            + src_eid.to_bytes(4, "big")
            + bytes.fromhex(sender[2:])
            + dst_eid.to_bytes(4, "big")
            + bytes.fromhex(receiver[2:])
        )
    )


def parse_oft_message(message: bytes) -> OftMessage:
    """Read the message of an OFT's packet. Raises `Undecodable` when it is too short for one."""
    if len(message) < OFT_MESSAGE_SIZE:
        raise Undecodable(
            f"an OFT message has {len(message)} bytes; the shortest has {OFT_MESSAGE_SIZE}"
        )
    return OftMessage(
        send_to=bytes32(message[:32]),
        amount_shared=BaseUnits(int.from_bytes(message[32:40], "big")),
        compose=message[OFT_MESSAGE_SIZE:],
    )
