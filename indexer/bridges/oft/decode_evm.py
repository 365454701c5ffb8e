"""Logs of LayerZero's IOFT and ILayerZeroEndpointV2."""

from collections.abc import Mapping

from indexer.addresses import evm_as_bytes32
from indexer.bridges.oft.events import (
    LzReceiveAlert,
    OftReceived,
    OftSent,
    PacketDelivered,
    PacketSent,
    PacketVerified,
)
from indexer.bridges.oft.packet import guid_of, parse_oft_message, parse_packet, sender_of
from indexer.chains.evm import abi
from indexer.chains.evm.abi import LogDecoder
from indexer.chains.raw import EvmLog
from indexer.config.networks import EvmChain
from indexer.errors import Undecodable
from warehouse_schema.identifiers import Address, Bytes32


def _oft_sent(log: EvmLog, _chain: EvmChain) -> OftSent:
    _, guid, sender = abi.topics(log, 3, words=3)
    return OftSent(
        seen=log.seen,
        guid=abi.topic_bytes32(guid),
        dst_eid=abi.uint(log, 0, 32),
        from_address=abi.topic_address(sender),
        amount_sent=abi.amount(log, 1),
        amount_received=abi.amount(log, 2),
    )


def _oft_received(log: EvmLog, _chain: EvmChain) -> OftReceived:
    _, guid, recipient = abi.topics(log, 3, words=2)
    return OftReceived(
        seen=log.seen,
        guid=abi.topic_bytes32(guid),
        src_eid=abi.uint(log, 0, 32),
        to_address=abi.topic_address(recipient),
        amount_received=abi.amount(log, 1),
    )


def _packet_sent(log: EvmLog, chain: EvmChain) -> PacketSent | None:
    abi.topics(log, 1)
    raw = abi.dynamic_bytes(log, 0)
    # Read from the bytes before parsing: another application's packet may be malformed.
    if sender_of(raw) != evm_as_bytes32(abi.required(chain.oft, "oft")):
        return None
    packet = parse_packet(raw)
    if packet.src_eid != chain.lz_eid:
        raise Undecodable(f"the packet says source {packet.src_eid}, the chain is {chain.lz_eid}")
    message = parse_oft_message(packet.message)
    return PacketSent(
        seen=log.seen,
        guid=packet.guid,
        nonce=packet.nonce,
        src_eid=packet.src_eid,
        sender=packet.sender,
        dst_eid=packet.dst_eid,
        receiver=packet.receiver,
        send_to=message.send_to,
        amount_shared=message.amount_shared,
        packet=raw,
        options=abi.dynamic_bytes(log, 1),
        send_library=abi.address(log, 2),
    )


def _packet_verified(log: EvmLog, chain: EvmChain) -> PacketVerified | None:
    abi.topics(log, 1, words=5)
    receiver = abi.address(log, 3)
    if not _is_ours(receiver, chain):
        return None
    src_eid, sender, nonce = _origin(log)
    return PacketVerified(
        seen=log.seen,
        guid=_local_guid(chain, src_eid, sender, nonce),
        src_eid=src_eid,
        sender=sender,
        nonce=nonce,
        receiver=receiver,
        payload_hash=abi.word_bytes32(log, 4),
    )


def _packet_delivered(log: EvmLog, chain: EvmChain) -> PacketDelivered | None:
    abi.topics(log, 1, words=4)
    receiver = abi.address(log, 3)
    if not _is_ours(receiver, chain):
        return None
    src_eid, sender, nonce = _origin(log)
    return PacketDelivered(
        seen=log.seen,
        guid=_local_guid(chain, src_eid, sender, nonce),
        src_eid=src_eid,
        sender=sender,
        nonce=nonce,
        receiver=receiver,
    )


def _lz_receive_alert(log: EvmLog, chain: EvmChain) -> LzReceiveAlert | None:
    _, receiver_topic, executor = abi.topics(log, 3)
    receiver = abi.topic_address(receiver_topic)
    if not _is_ours(receiver, chain):
        return None
    src_eid, sender, nonce = _origin(log)
    return LzReceiveAlert(
        seen=log.seen,
        # As emitted: anyone can emit an alert, so the guid may not match the origin.
        guid=abi.word_bytes32(log, 3),
        src_eid=src_eid,
        sender=sender,
        nonce=nonce,
        receiver=receiver,
        executor=abi.topic_address(executor),
        gas=abi.amount(log, 4),
        value=abi.amount(log, 5),
        message=abi.dynamic_bytes(log, 6),
        extra_data=abi.dynamic_bytes(log, 7),
        reason=abi.dynamic_bytes(log, 8),
    )


def _origin(log: EvmLog) -> tuple[int, Bytes32, int]:
    """Source endpoint, sender and nonce: the `Origin` in the first three words."""
    return abi.uint(log, 0, 32), abi.word_bytes32(log, 1), abi.uint(log, 2, 64)


def _is_ours(receiver: Address, chain: EvmChain) -> bool:
    return receiver == Address(abi.required(chain.oft, "oft"))


def _local_guid(chain: EvmChain, src_eid: int, sender: Bytes32, nonce: int) -> Bytes32:
    """The guid of a packet that came here, to our OFT."""
    receiver = evm_as_bytes32(abi.required(chain.oft, "oft"))
    return guid_of(nonce, src_eid, sender, abi.required(chain.lz_eid, "lz_eid"), receiver)


DECODERS: Mapping[str, Mapping[str, LogDecoder]] = {
    "oft": {
        "OFTSent(bytes32,uint32,address,uint256,uint256)": _oft_sent,
        "OFTReceived(bytes32,uint32,address,uint256)": _oft_received,
    },
    "lz_endpoint": {
        "PacketSent(bytes,bytes,address)": _packet_sent,
        "PacketVerified((uint32,bytes32,uint64),address,bytes32)": _packet_verified,
        "PacketDelivered((uint32,bytes32,uint64),address)": _packet_delivered,
        "LzReceiveAlert(address,address,(uint32,bytes32,uint64),bytes32,uint256,uint256,bytes"
        ",bytes,bytes)": _lz_receive_alert,
    },
}
"""Field of `EvmChain` that names the contract → event signature → decoder."""
