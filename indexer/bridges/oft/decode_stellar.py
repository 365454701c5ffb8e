"""Events of LayerZero's OFT and endpoint on Stellar.

Shapes: the contracts' own event specs. OFT amounts have Stellar's 7 decimals on both sides of a
transfer. The endpoint serves every OApp: its events are ours only where our OFT is the sender or
the receiver, and None otherwise.
"""

from collections.abc import Mapping

from indexer.addresses import contract_as_bytes32
from indexer.bridges.oft.events import (
    LzReceiveAlert,
    OftReceived,
    OftSent,
    PacketDelivered,
    PacketSent,
    PacketVerified,
)
from indexer.bridges.oft.packet import guid_of, parse_oft_message, parse_packet, sender_of
from indexer.chains.raw import StellarEvent
from indexer.chains.stellar.xdr.scval import (
    EventDecoder,
    ScMap,
    ScVal,
    Topics,
    address,
    amount,
    blob,
    mapping,
    u32,
    u64,
    word,
)
from indexer.config.networks import StellarChain
from indexer.errors import Undecodable
from warehouse_schema.identifiers import Address, Bytes32, StellarAddress


def _oft_sent(event: StellarEvent, _chain: StellarChain) -> OftSent:
    """OFT: topics guid, dst_eid, from."""
    topics, data = Topics.of(event, 4), ScMap.of(event)
    return OftSent(
        seen=event.seen,
        guid=topics.read(1, word),
        dst_eid=topics.read(2, u32),
        from_address=Address(topics.read(3, address)),
        amount_sent=data.read("amount_sent_ld", amount),
        amount_received=data.read("amount_received_ld", amount),
    )


def _oft_received(event: StellarEvent, _chain: StellarChain) -> OftReceived:
    """OFT: topics guid, src_eid, to."""
    topics, data = Topics.of(event, 4), ScMap.of(event)
    return OftReceived(
        seen=event.seen,
        guid=topics.read(1, word),
        src_eid=topics.read(2, u32),
        to_address=Address(topics.read(3, address)),
        amount_received=data.read("amount_received_ld", amount),
    )


def _packet_sent(event: StellarEvent, chain: StellarChain) -> PacketSent | None:
    """Endpoint: no topic but the name. The guid was recomputed from the packet's header."""
    Topics.of(event, 1)
    data = ScMap.of(event)
    raw = data.read("encoded_packet", blob)
    # Read from the bytes before parsing: another application's packet may be malformed.
    if chain.oft is None or sender_of(raw) != contract_as_bytes32(chain.oft):
        return None
    packet = parse_packet(raw)
    message = parse_oft_message(packet.message)
    return PacketSent(
        seen=event.seen,
        guid=packet.guid,
        nonce=packet.nonce,
        src_eid=packet.src_eid,
        sender=packet.sender,
        dst_eid=packet.dst_eid,
        receiver=packet.receiver,
        send_to=message.send_to,
        amount_shared=message.amount_shared,
        packet=raw,
        options=data.read("options", blob),
        send_library=Address(data.read("send_library", address)),
    )


def _packet_verified(event: StellarEvent, chain: StellarChain) -> PacketVerified | None:
    """Endpoint: topics origin, receiver."""
    topics = Topics.of(event, 3)
    receiver = topics.read(2, address)
    if receiver != chain.oft:
        return None
    src_eid, sender, nonce = topics.read(1, _origin)
    return PacketVerified(
        seen=event.seen,
        guid=_guid(chain, receiver, src_eid, sender, nonce),
        src_eid=src_eid,
        sender=sender,
        nonce=nonce,
        receiver=Address(receiver),
        payload_hash=ScMap.of(event).read("payload_hash", word),
    )


def _packet_delivered(event: StellarEvent, chain: StellarChain) -> PacketDelivered | None:
    """Endpoint: topics origin, receiver. The data says nothing and is not read."""
    topics = Topics.of(event, 3)
    receiver = topics.read(2, address)
    if receiver != chain.oft:
        return None
    src_eid, sender, nonce = topics.read(1, _origin)
    return PacketDelivered(
        seen=event.seen,
        guid=_guid(chain, receiver, src_eid, sender, nonce),
        src_eid=src_eid,
        sender=sender,
        nonce=nonce,
        receiver=Address(receiver),
    )


def _lz_receive_alert(event: StellarEvent, chain: StellarChain) -> LzReceiveAlert | None:
    """Endpoint: topics receiver, executor, origin, guid. Anyone can have one emitted."""
    topics = Topics.of(event, 5)
    receiver = topics.read(1, address)
    if receiver != chain.oft:
        return None
    src_eid, sender, nonce = topics.read(3, _origin)
    data = ScMap.of(event)
    return LzReceiveAlert(
        seen=event.seen,
        guid=topics.read(4, word),
        src_eid=src_eid,
        sender=sender,
        nonce=nonce,
        receiver=Address(receiver),
        executor=Address(topics.read(2, address)),
        gas=data.read("gas", amount),
        value=data.read("value", amount),
        message=data.read("message", blob),
        extra_data=data.read("extra_data", blob),
        reason=data.read("reason", blob),
    )


def _origin(value: ScVal) -> tuple[int, Bytes32, int]:
    """Source endpoint, sender and nonce of LayerZero's `Origin`."""
    fields = ScMap("origin", mapping(value))
    return fields.read("src_eid", u32), fields.read("sender", word), fields.read("nonce", u64)


def _guid(
    chain: StellarChain, receiver: StellarAddress, src_eid: int, sender: Bytes32, nonce: int
) -> Bytes32:
    if chain.lz_eid is None:
        raise Undecodable(f"a packet arrived, but {chain.id} has no endpoint id")
    return guid_of(nonce, src_eid, sender, chain.lz_eid, contract_as_bytes32(receiver))


DECODERS: Mapping[str, Mapping[str, EventDecoder]] = {
    "oft": {
        "oft_sent": _oft_sent,
        "oft_received": _oft_received,
    },
    "lz_endpoint": {
        "packet_sent": _packet_sent,
        "packet_verified": _packet_verified,
        "packet_delivered": _packet_delivered,
        "lz_receive_alert": _lz_receive_alert,
    },
}
"""Field of `StellarChain` that names the contract → topic 0 → decoder."""
