"""EVM logs to events by columns: what `evm.decode` does a log at a time, for a frame of them.

A layout says where in topics and data each field of an event lies, and what must hold for that
reading to be right. Logs that do not fit are left to `evm.decode`, which alone says whether such a
log is oddly encoded, undecodable or nobody's. So the two can only disagree about logs that are in
order, where tests hold them together. An amount beyond 128 bits, and an offset that no ABI encoder
writes, are left as well.

Hashes, addresses and bytes alike are lower-case hex behind `0x`, slices of the log's own hex. Only
guids and burn keys are made row by row, because polars has no keccak.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import polars as pl
from eth_hash.auto import keccak

from indexer.addresses import evm_as_bytes32
from indexer.bridges.cctp.message import BURN_BODY_SIZE, HEADER_SIZE
from indexer.bridges.oft.packet import OFT_MESSAGE_SIZE, PACKET_HEADER_SIZE, PACKET_MESSAGE_START
from indexer.chains.evm.abi import topic_of
from indexer.config.networks import EvmChain
from warehouse_schema.identifiers import EvmAddress

PROVENANCE = ("chain", "height", "block_hash", "tx_hash", "position", "block_time")

_WORD = 64
"""Hex digits of a word."""
_ALWAYS = pl.lit(value=True)
_BURN_BODY = 2 * BURN_BODY_SIZE
_ATTESTED = (2 * 164, 2 * 228)
"""Where a burn body has what the attestation service fills in: executed fee and expiration."""


@dataclass(frozen=True, slots=True)
class ColumnarEvents:
    """What became of a frame of logs."""

    logs: pl.DataFrame
    """The logs, with `event` (its type's name; null when it is nobody's or left) and `is_left`."""
    events: Mapping[str, pl.DataFrame]
    """Event type → provenance and fields, columns named as its table's."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A field's value, and whether it may be read so."""

    value: pl.Expr
    fits: pl.Expr = _ALWAYS


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where an event's fields lie. All of `fits` must hold, or the log is left."""

    event: str
    topics: int
    fields: Mapping[str, _Read]
    words: int | None = None
    """Exactly so many words of data; None: `fits` says."""
    fits: Sequence[pl.Expr] = ()
    is_ours: pl.Expr = _ALWAYS
    """Of logs that fit: false is nobody's."""
    hashed: Mapping[str, pl.Expr] = field(default_factory=dict)
    """Fields that are the keccak of hex; null of null. They may use `fields`."""
    agrees: pl.Expr = _ALWAYS
    """What must hold of `fields` and `hashed` together."""
    unkept: Sequence[str] = ()
    """Fields that are only there to be compared."""

    def fit(self) -> pl.Expr:
        """Whether a log has this layout; never null."""
        sizes = [pl.col("topics").list.len() == self.topics]
        if self.words is not None:
            sizes.append(pl.col("data").str.len_bytes() == 2 + _WORD * self.words)
        reads = (read.fits for read in self.fields.values())
        return pl.all_horizontal(*sizes, *self.fits, *reads).fill_null(value=False)


def decode_columns(logs: pl.DataFrame, chain: EvmChain) -> ColumnarEvents:
    """Decode the logs of a frame that has the columns of an `EvmLog`, but for its chain.

    `topics` is a list of texts, each of 32 bytes, and `data` a text; all is lower-case hex behind
    `0x`, which whoever read it from the node has checked.
    """
    rows = logs.with_row_index("row").with_columns(
        chain=pl.lit(chain.id), first_topic=pl.col("topics").list.get(0, null_on_oob=True)
    )
    layouts = _layouts_of(chain)
    found: dict[str, list[pl.DataFrame]] = {}
    outcomes = [pl.DataFrame(schema={"row": rows.schema["row"], "event": pl.String})]
    for emitter, part in rows.partition_by("address", "first_topic", as_dict=True).items():
        layout = layouts.get(emitter)
        if layout is not None:
            events, nobodys = _read(part, layout)
            found.setdefault(layout.event, []).append(events)
            outcomes.append(events.select("row", event=pl.lit(layout.event)))
            outcomes.append(nobodys.select("row", event=pl.lit(None, dtype=pl.String)))
    decided = pl.concat(outcomes).with_columns(is_left=pl.lit(value=False))
    return ColumnarEvents(
        logs=rows.select("row", *logs.columns)
        .join(decided, on="row", how="left", maintain_order="left")
        .with_columns(pl.col("is_left").fill_null(value=True))
        .drop("row"),
        events={
            event: pl.concat(frames).sort("row").drop("row") for event, frames in found.items()
        },
    )


def _read(part: pl.DataFrame, layout: _Layout) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Events of the logs that have the layout, and the logs that have it and are nobody's."""
    fitting = part.filter(layout.fit())
    is_ours = layout.is_ours.fill_null(value=False)
    nobodys = fitting.filter(~is_ours)
    fields = {name: read.value for name, read in layout.fields.items()}
    events = fitting.filter(is_ours).select("row", *PROVENANCE, **fields)
    for name, preimage in layout.hashed.items():
        events = events.with_columns(_keccak(name, events.select(preimage).to_series()))
    return events.filter(layout.agrees.fill_null(value=False)).drop(layout.unkept), nobodys


def _keccak(name: str, preimages: pl.Series) -> pl.Series:
    hashes = (
        None if preimage is None else "0x" + keccak(bytes.fromhex(preimage)).hex()
        for preimage in preimages
    )
    return pl.Series(name, list(hashes), dtype=pl.String)


@cache
def _layouts_of(chain: EvmChain) -> Mapping[tuple[Any, ...], _Layout]:
    """(contract, topic 0) → layout, for the contracts that this chain has."""
    emitters: dict[str, Sequence[EvmAddress | None]] = {
        "token_messenger": [chain.cctp_token_messenger],
        "message_transmitter": [chain.cctp_message_transmitter],
        "oft": [chain.oft],
        "lz_endpoint": [chain.lz_endpoint],
        "deposit_factory": [chain.deposit_factory],
        "token": chain.tokens,
    }
    return {
        (address, topic_of(signature)): layout(chain)
        for role, layouts in LAYOUTS.items()
        for address in emitters[role]
        if address is not None
        for signature, layout in layouts.items()
    }


# Words of the ABI, as hex without prefix


def _topic(index: int) -> pl.Expr:
    return pl.col("topics").list.get(index, null_on_oob=True).str.slice(2)


def _word(index: int) -> pl.Expr:
    return pl.col("data").str.slice(2 + _WORD * index, _WORD)


def _is_below(word: pl.Expr, bits: int) -> pl.Expr:
    return word.str.starts_with("0" * ((256 - bits) // 4))


def _bytes32(word: pl.Expr) -> _Read:
    return _Read(_prefixed(word), word.str.len_bytes() == _WORD)


def _address(word: pl.Expr) -> _Read:
    return _Read(_prefixed(word.str.slice(24)), _is_below(word, 160))


def _u32(word: pl.Expr) -> _Read:
    value = word.str.slice(56).str.to_integer(base=16, dtype=pl.Int64, strict=False)
    return _Read(value, _is_below(word, 32))


def _u64(word: pl.Expr) -> _Read:
    value = word.str.slice(48).str.to_integer(base=16, dtype=pl.UInt64, strict=False)
    return _Read(value, _is_below(word, 64))


def _amount(word: pl.Expr) -> _Read:
    value = word.str.slice(32).str.to_integer(base=16, dtype=pl.UInt128, strict=False)
    return _Read(value, _is_below(word, 128))


def _prefixed(digits: pl.Expr) -> pl.Expr:
    return pl.concat_str(pl.lit("0x"), digits)


def _tail(offset: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """The `bytes` whose length stands at an offset in bytes, as hex, and whether all are there."""
    start = 2 + 2 * offset
    length_word = pl.col("data").str.slice(start, _WORD)
    length = 2 * _u32(length_word).value
    content = pl.col("data").str.slice(start + _WORD, length)
    is_whole = (length_word.str.len_bytes() == _WORD) & (content.str.len_bytes() == length)
    return content, _is_below(length_word, 32) & is_whole


def _fixed_tail(head: int, offset: int) -> tuple[pl.Expr, pl.Expr]:
    """The `bytes` of a head word, if it says the offset that an ABI encoder gives it."""
    content, is_whole = _tail(pl.lit(offset, dtype=pl.Int64))
    return content, is_whole & (_word(head) == f"{offset:064x}")


# CCTP


def _deposit_for_burn(_chain: EvmChain) -> _Layout:
    hook_data, is_whole = _fixed_tail(6, 7 * 32)
    return _Layout(
        "DepositForBurn",
        topics=4,
        fields={
            "burn_token": _address(_topic(1)),
            "amount": _amount(_word(0)),
            "depositor": _address(_topic(2)),
            "mint_recipient": _bytes32(_word(1)),
            "destination_domain": _u32(_word(2)),
            "destination_token_messenger": _bytes32(_word(3)),
            "destination_caller": _bytes32(_word(4)),
            "max_fee": _amount(_word(5)),
            "min_finality_threshold": _u32(_topic(3)),
            "hook_data": _Read(_prefixed(hook_data), is_whole),
        },
    )


def _mint_and_withdraw(_chain: EvmChain) -> _Layout:
    return _Layout(
        "MintAndWithdraw",
        topics=3,
        words=2,
        fields={
            "mint_recipient": _address(_topic(1)),
            "amount": _amount(_word(0)),
            "mint_token": _address(_topic(2)),
            "fee_collected": _amount(_word(1)),
        },
    )


def _message_sent(chain: EvmChain) -> _Layout:
    """`MessageV2`: version, both domains, nonce, sender, recipient, caller, thresholds, body."""
    message, is_whole = _fixed_tail(0, 32)
    sender, body = message.str.slice(88, _WORD), message.str.slice(2 * HEADER_SIZE)
    is_burn = _is_burn_body(body) & (sender == _hex_word(chain.cctp_token_messenger))
    domains = message.str.slice(8, 16)
    return _Layout(
        "MessageSent",
        topics=1,
        fits=[
            message.str.starts_with("00000001"),
            message.str.slice(8, 8) == _u32_hex(chain.cctp_domain),
            message.str.len_bytes() >= 2 * HEADER_SIZE,
        ],
        fields={
            "message": _Read(_prefixed(message), is_whole),
            "source_domain": _u32(_padded(message.str.slice(8, 8))),
            "destination_domain": _u32(_padded(message.str.slice(16, 8))),
            "sender": _bytes32(sender),
            "recipient": _bytes32(message.str.slice(152, _WORD)),
            "burn_key": _Read(pl.when(is_burn).then(_burn_key_preimage(domains, sender, body))),
        },
        hashed={"burn_key": pl.col("burn_key")},
    )


def _message_received(chain: EvmChain) -> _Layout:
    body, is_whole = _fixed_tail(2, 3 * 32)
    here = _u32_hex(chain.cctp_domain)
    domains = pl.concat_str(_word(0).str.slice(56), pl.lit(here))
    preimage = _burn_key_preimage(domains, _word(1), body)
    return _Layout(
        "MessageReceived",
        topics=4,
        fits=[pl.lit(here is not None)],
        fields={
            "caller": _address(_topic(1)),
            "source_domain": _u32(_word(0)),
            "nonce": _bytes32(_topic(2)),
            "sender": _bytes32(_word(1)),
            "finality_threshold_executed": _u32(_topic(3)),
            "message_body": _Read(_prefixed(body), is_whole),
            "burn_key": _Read(pl.when(_is_burn_body(body)).then(preimage)),
        },
        hashed={"burn_key": pl.col("burn_key")},
    )


def _is_burn_body(body: pl.Expr) -> pl.Expr:
    return (body.str.len_bytes() >= _BURN_BODY) & body.str.starts_with("00000001")


def _burn_key_preimage(domains: pl.Expr, sender: pl.Expr, body: pl.Expr) -> pl.Expr:
    """As `cctp_message.burn_key`: both domains, the messenger, and the body as the source sent."""
    start, end = _ATTESTED
    unattested = [body.str.slice(0, start), pl.lit("0" * (end - start)), body.str.slice(end)]
    return pl.concat_str(domains, sender, *unattested)


def _hex_word(address: EvmAddress | None) -> str | None:
    return None if address is None else evm_as_bytes32(address)[2:]


def _u32_hex(number: int | None) -> str | None:
    return None if number is None else f"{number:08x}"


def _padded(digits: pl.Expr) -> pl.Expr:
    """Eight digits as a word."""
    return pl.concat_str(pl.lit("0" * (_WORD - 8)), digits)


# OFT and LayerZero endpoint


def _oft_sent(_chain: EvmChain) -> _Layout:
    return _Layout(
        "OftSent",
        topics=3,
        words=3,
        fields={
            "guid": _bytes32(_topic(1)),
            "dst_eid": _u32(_word(0)),
            "from_address": _address(_topic(2)),
            "amount_sent": _amount(_word(1)),
            "amount_received": _amount(_word(2)),
        },
    )


def _oft_received(_chain: EvmChain) -> _Layout:
    return _Layout(
        "OftReceived",
        topics=3,
        words=2,
        fields={
            "guid": _bytes32(_topic(1)),
            "src_eid": _u32(_word(0)),
            "to_address": _address(_topic(2)),
            "amount_received": _amount(_word(1)),
        },
    )


def _packet_sent(chain: EvmChain) -> _Layout:
    """`PacketV1Codec`: version, nonce, both ends (eid and OApp), guid, and the OFT's message."""
    packet, is_whole = _fixed_tail(0, 3 * 32)
    options, are_whole = _tail(_u32(_word(1)).value)
    message = 2 * PACKET_MESSAGE_START
    path = packet.str.slice(2, 2 * (PACKET_HEADER_SIZE - 1))
    ours = packet.str.slice(26, _WORD) == _hex_word(chain.oft)
    return _Layout(
        "PacketSent",
        topics=1,
        fits=[
            _is_below(_word(1), 32),
            # Of others' packets only the sender matters; ours must be in order.
            ~ours
            | (
                packet.str.starts_with("01")
                & (packet.str.slice(18, 8) == _u32_hex(chain.lz_eid))
                & (packet.str.len_bytes() >= message + 2 * OFT_MESSAGE_SIZE)
                & are_whole
                & _address(_word(2)).fits
            ),
        ],
        is_ours=ours,
        fields={
            "guid": _Read(path),
            "said": _Read(_prefixed(packet.str.slice(2 * PACKET_HEADER_SIZE, _WORD))),
            "nonce": _Read(
                packet.str.slice(2, 16).str.to_integer(base=16, dtype=pl.UInt64, strict=False)
            ),
            "src_eid": _Read(_u32(_padded(packet.str.slice(18, 8))).value),
            "sender": _Read(_prefixed(packet.str.slice(26, _WORD))),
            "dst_eid": _Read(_u32(_padded(packet.str.slice(90, 8))).value),
            "receiver": _Read(_prefixed(packet.str.slice(98, _WORD))),
            "send_to": _Read(_prefixed(packet.str.slice(message, _WORD))),
            "amount_shared": _Read(
                packet.str.slice(message + _WORD, 16).str.to_integer(
                    base=16, dtype=pl.UInt64, strict=False
                )
            ),
            "packet": _Read(_prefixed(packet), is_whole),
            "options": _Read(_prefixed(options)),
            "send_library": _Read(_address(_word(2)).value),
        },
        hashed={"guid": pl.col("guid")},
        agrees=pl.col("guid") == pl.col("said"),
        unkept=["said"],
    )


def _packet_verified(chain: EvmChain) -> _Layout:
    return _arrival(chain, "PacketVerified", words=5, more={"payload_hash": _bytes32(_word(4))})


def _packet_delivered(chain: EvmChain) -> _Layout:
    return _arrival(chain, "PacketDelivered", words=4, more={})


def _arrival(chain: EvmChain, event: str, *, words: int, more: Mapping[str, _Read]) -> _Layout:
    """An event with the `Origin` of a packet to our OFT; its guid is computed."""
    receiver = _address(_word(3))
    here = pl.lit(_u32_hex(chain.lz_eid)), pl.lit(_hex_word(chain.oft))
    path = pl.concat_str(_word(2).str.slice(48), _word(0).str.slice(56), _word(1), *here)
    return _Layout(
        event,
        topics=1,
        words=words,
        fits=[pl.lit(chain.lz_eid is not None)],
        is_ours=receiver.value == chain.oft,
        fields={
            "guid": _Read(path),
            "src_eid": _u32(_word(0)),
            "sender": _bytes32(_word(1)),
            "nonce": _u64(_word(2)),
            "receiver": receiver,
            **more,
        },
        hashed={"guid": pl.col("guid")},
    )


# ERC-20


def _transfer(_chain: EvmChain) -> _Layout:
    return _Layout(
        "Erc20Transfer",
        topics=3,
        words=1,
        fields={
            "token": _Read(pl.col("address")),
            "sender": _address(_topic(1)),
            "recipient": _address(_topic(2)),
            "amount": _amount(_word(0)),
        },
    )


# Deposit addresses


def _refunded(chain: EvmChain) -> _Layout:
    token = _address(_topic(2))
    return _Layout(
        "DepositRefunded",
        topics=3,
        words=2,
        is_ours=token.value.is_in(chain.tokens),
        fields={
            "deposit": _address(_topic(1)),
            "token": token,
            "refund_to": _address(_word(0)),
            "amount": _amount(_word(1)),
        },
    )


LAYOUTS: Mapping[str, Mapping[str, Callable[[EvmChain], _Layout]]] = {
    "token_messenger": {
        "DepositForBurn(address,uint256,address,bytes32,uint32,bytes32,bytes32,uint256,uint32"
        ",bytes)": _deposit_for_burn,
        "MintAndWithdraw(address,uint256,address,uint256)": _mint_and_withdraw,
    },
    "message_transmitter": {
        "MessageSent(bytes)": _message_sent,
        "MessageReceived(address,uint32,bytes32,bytes32,uint32,bytes)": _message_received,
    },
    "oft": {
        "OFTSent(bytes32,uint32,address,uint256,uint256)": _oft_sent,
        "OFTReceived(bytes32,uint32,address,uint256)": _oft_received,
    },
    "lz_endpoint": {
        "PacketSent(bytes,bytes,address)": _packet_sent,
        "PacketVerified((uint32,bytes32,uint64),address,bytes32)": _packet_verified,
        "PacketDelivered((uint32,bytes32,uint64),address)": _packet_delivered,
    },
    "deposit_factory": {
        "Refunded(address,address,address,uint256)": _refunded,
    },
    "token": {
        "Transfer(address,address,uint256)": _transfer,
    },
}
"""Contract → event signature → layout, for the events of `evm.DECODERS` that have one."""
