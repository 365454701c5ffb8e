"""Layouts of the OFT's EVM events for the columnar decoder; `decode_evm` decodes single logs."""

from collections.abc import Mapping

import polars as pl

from indexer.bridges.oft.packet import OFT_MESSAGE_SIZE, PACKET_HEADER_SIZE, PACKET_MESSAGE_START
from indexer.chains.evm.abi_columns import (
    WORD,
    address,
    address_word,
    amount,
    bytes32,
    bytes_at,
    dynamic_bytes,
    has_words,
    is_below,
    keccak_hex,
    padded,
    uint,
    uint32_hex,
    word,
)
from indexer.chains.layouts import (
    EventLayout,
    Field,
    LayoutTable,
    prefixed,
    topic,
)
from indexer.config.networks import EvmChain

_OFT_SENT = EventLayout(
    "OftSent",
    topics=3,
    fits=[has_words(3)],
    fields={
        "guid": bytes32(topic(1)),
        "dst_eid": uint(word(0), 32),
        "from_address": address(topic(2)),
        "amount_sent": amount(word(1)),
        "amount_received": amount(word(2)),
    },
)
_OFT_RECEIVED = EventLayout(
    "OftReceived",
    topics=3,
    fits=[has_words(2)],
    fields={
        "guid": bytes32(topic(1)),
        "src_eid": uint(word(0), 32),
        "to_address": address(topic(2)),
        "amount_received": amount(word(1)),
    },
)


def _packet_sent(chain: EvmChain) -> EventLayout:
    """`PacketV1Codec`: version, nonce, both ends (eid and OApp), guid, and the OFT's message."""
    packet, is_whole = bytes_at(0, 3 * 32)
    options, are_whole = dynamic_bytes(uint(word(1), 32).value)
    message = 2 * PACKET_MESSAGE_START
    send_library = address(word(2))
    is_ours = packet.str.slice(26, WORD) == address_word(chain.oft)
    return EventLayout(
        "PacketSent",
        topics=1,
        fits=[
            is_below(word(1), 32),
            # Other applications' packets need only a sender.
            ~is_ours
            | (
                packet.str.starts_with("01")
                & (packet.str.slice(18, 8) == uint32_hex(chain.lz_eid))
                & (packet.str.len_bytes() >= message + 2 * OFT_MESSAGE_SIZE)
                & are_whole
                & send_library.fits
            ),
        ],
        is_ours=is_ours,
        fields={
            "guid": Field(packet.str.slice(2, 2 * (PACKET_HEADER_SIZE - 1))),
            "packet_guid": Field(prefixed(packet.str.slice(2 * PACKET_HEADER_SIZE, WORD))),
            "nonce": Field(uint(padded(packet.str.slice(2, 16), 16), 64).value),
            "src_eid": Field(uint(padded(packet.str.slice(18, 8), 8), 32).value),
            "sender": Field(prefixed(packet.str.slice(26, WORD))),
            "dst_eid": Field(uint(padded(packet.str.slice(90, 8), 8), 32).value),
            "receiver": Field(prefixed(packet.str.slice(98, WORD))),
            "send_to": Field(prefixed(packet.str.slice(message, WORD))),
            "amount_shared": Field(
                uint(padded(packet.str.slice(message + WORD, 16), 16), 64).value
            ),
            "packet": Field(prefixed(packet), is_whole),
            "options": Field(prefixed(options)),
            "send_library": Field(send_library.value),
        },
        computed={"guid": keccak_hex},
        agrees=pl.col("guid") == pl.col("packet_guid"),
        dropped=["packet_guid"],
    )


def _arrival(chain: EvmChain, event: str, *, words: int, more: Mapping[str, Field]) -> EventLayout:
    """An event with the `Origin` of a packet to our OFT; its guid is computed."""
    receiver = address(word(3))
    here = pl.lit(uint32_hex(chain.lz_eid)), pl.lit(address_word(chain.oft))
    path = pl.concat_str(word(2).str.slice(48), word(0).str.slice(56), word(1), *here)
    return EventLayout(
        event,
        topics=1,
        fits=[has_words(words), pl.lit(chain.lz_eid is not None)],
        is_ours=receiver.value == chain.oft,
        fields={
            "guid": Field(path),
            "src_eid": uint(word(0), 32),
            "sender": bytes32(word(1)),
            "nonce": uint(word(2), 64),
            "receiver": receiver,
            **more,
        },
        computed={"guid": keccak_hex},
    )


LAYOUTS: LayoutTable = {
    "oft": {
        "OFTSent(bytes32,uint32,address,uint256,uint256)": _OFT_SENT,
        "OFTReceived(bytes32,uint32,address,uint256)": _OFT_RECEIVED,
    },
    "lz_endpoint": {
        "PacketSent(bytes,bytes,address)": _packet_sent,
        "PacketVerified((uint32,bytes32,uint64),address,bytes32)": lambda chain: _arrival(
            chain, "PacketVerified", words=5, more={"payload_hash": bytes32(word(4))}
        ),
        "PacketDelivered((uint32,bytes32,uint64),address)": lambda chain: _arrival(
            chain, "PacketDelivered", words=4, more={}
        ),
    },
}
