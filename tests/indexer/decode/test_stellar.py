import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from stellar_sdk import MuxedAccount, scval, xdr

from indexer.addresses import contract_as_bytes32
from indexer.bridges.cctp.events import (
    DepositForBurn,
    MessageReceived,
    MessageSent,
    MintAndForward,
    MintAndWithdraw,
)
from indexer.bridges.cctp.message import burn_key
from indexer.bridges.oft.events import (
    LzReceiveAlert,
    OftReceived,
    OftSent,
    PacketDelivered,
    PacketSent,
    PacketVerified,
)
from indexer.bridges.oft.packet import guid_of
from indexer.chains.events import Event
from indexer.chains.raw import StellarEvent
from indexer.config.networks import StellarChain
from indexer.decode.stellar import decode
from indexer.errors import Undecodable
from tests.factories.stellar_events import account, contract, make_stellar_event, word
from tests.factories.stellar_recorded import (
    PUBNET,
    TESTNET,
    recorded_cctp,
    recorded_of_others,
    recorded_oft_send,
)
from warehouse_schema.identifiers import StellarAddress

TESTNET_OFT = StellarAddress("CB4M3EC45CYVUYHRUY6T3UYBCM3E5JVA7SQF5OTIQY2IR3KHL3RT42GE")
TESTNET_ENDPOINT = StellarAddress("CALTBA5S6GRJEHAXFP45LGGLKWWAF7HTZCPNUBUJF2HWWRRLQNV35AIV")
WITH_OFT: StellarChain = dataclasses.replace(
    TESTNET, lz_eid=40600, oft=TESTNET_OFT, lz_endpoint=TESTNET_ENDPOINT
)
SENDER = word("a peer")


def _fields(row: Event | None) -> dict[str, Any]:
    """A row's own fields."""
    assert row is not None
    return {k: v for k, v in dataclasses.asdict(row).items() if k != "seen"}


def _bytes(value: str) -> xdr.SCVal:
    return scval.to_bytes(bytes.fromhex(value.removeprefix("0x")))


# CCTP.


def test_recorded_cctp_events_decode_to_their_rows(golden: Callable[[str, Any], None]) -> None:
    rows = {
        name: decode(event, PUBNET) for name, event in recorded_cctp("cctp-pubnet.json").items()
    }
    golden("stellar/expected/cctp-pubnet.json", rows)
    assert [type(row) for row in rows.values()] == [
        DepositForBurn,
        MessageSent,
        MintAndWithdraw,
        MessageReceived,
        MintAndForward,
    ]


def test_messenger_has_6_decimals_and_forwarder_7() -> None:
    events = recorded_cctp("cctp-pubnet.json")
    burn, _, mint, _, forward = (decode(event, PUBNET) for event in events.values())
    assert isinstance(burn, DepositForBurn)
    assert burn.amount == 2_000_000
    assert isinstance(mint, MintAndWithdraw)
    assert (mint.amount, mint.fee_collected) == (27_956_964, 3_634)
    assert isinstance(forward, MintAndForward)
    assert forward.amount == 999_900


def test_received_message_has_its_burn_key() -> None:
    received = decode(recorded_cctp("cctp-pubnet.json")["03 message_received"], PUBNET)
    assert isinstance(received, MessageReceived)
    attested = received.message_body
    source = attested[:164] + bytes(64) + attested[228:]
    assert received.burn_key == burn_key(6, 27, received.sender, source)


def test_administrative_cctp_events_are_not_kept() -> None:
    events = recorded_cctp("cctp-pubnet-admin.json").values()
    assert len(events) == 22
    assert [decode(event, PUBNET) for event in events] == [None] * 22


def test_message_of_other_protocol_has_no_burn_key() -> None:
    message = (
        bytes.fromhex("00000001" + "0000001b" + "00000006")
        + bytes(32)
        + b"\1" * 32
        + b"\2" * 32
        + bytes(40)
        + b"hello"
    )
    decoded = decode(_message_sent(message), PUBNET)
    assert isinstance(decoded, MessageSent)
    assert decoded.burn_key is None
    assert (decoded.source_domain, decoded.destination_domain) == (27, 6)


def test_muxed_recipient_of_the_forwarder_is_read() -> None:
    muxed = MuxedAccount(account("customer"), 77).account_muxed
    assert muxed is not None
    event = make_stellar_event(
        str(PUBNET.cctp_forwarder),
        [scval.to_symbol("mint_and_forward")],
        scval.to_struct(
            {
                "amount": scval.to_int128(5),
                "forward_recipient": scval.to_address(muxed),
                "token": scval.to_address(PUBNET.usdc_contract),
            }
        ),
    )
    decoded = decode(event, PUBNET)
    assert isinstance(decoded, MintAndForward)
    assert decoded.forward_recipient == muxed


@pytest.mark.parametrize("message", [b"", b"\0" * 147, b"\0\0\0\2" + b"\0" * 144])
def test_invalid_message_is_undecodable(message: bytes) -> None:
    with pytest.raises(Undecodable):
        decode(_message_sent(message), PUBNET)


def test_any_u32_is_a_domain() -> None:
    message = bytes.fromhex("00000001" + "0000001b" + "ffffffff") + bytes(136)
    decoded = decode(_message_sent(message), PUBNET)
    assert isinstance(decoded, MessageSent)
    assert decoded.destination_domain == 2**32 - 1


def _message_sent(message: bytes) -> StellarEvent:
    return make_stellar_event(
        str(PUBNET.cctp_message_transmitter),
        [scval.to_symbol("message_sent")],
        scval.to_struct({"message": scval.to_bytes(message)}),
    )


# OFT.


def test_recorded_oft_send_decodes_to_its_rows(golden: Callable[[str, Any], None]) -> None:
    rows = [decode(event, WITH_OFT) for event in recorded_oft_send()]
    golden("stellar/expected/oft-testnet-send.json", rows)
    assert [type(row) for row in rows] == [type(None)] * 6 + [PacketSent, OftSent]


def test_packet_guid_equals_oft_and_header() -> None:
    packet, sent = [row for row in (decode(e, WITH_OFT) for e in recorded_oft_send()) if row]
    assert isinstance(packet, PacketSent)
    assert isinstance(sent, OftSent)
    recomputed = guid_of(
        packet.nonce, packet.src_eid, packet.sender, packet.dst_eid, packet.receiver
    )
    assert sent.guid == packet.guid == recomputed
    # 10 USDT0: 7 decimals in the event, 6 in the packet.
    assert (sent.amount_sent, packet.amount_shared) == (100_000_000, 10_000_000)


def test_packets_of_other_oapps_are_not_kept() -> None:
    other_oft = dataclasses.replace(WITH_OFT, oft=contract("another OFT"))
    rows = [decode(event, other_oft) for event in recorded_oft_send()]
    assert rows == [None] * 8


@pytest.mark.parametrize(
    "packet",
    [b"", b"\1" * 44, b"\1" * 60, b"\2" + bytes(200), b"\1" + b"\xff" * 150],
    ids=["nothing", "no whole sender", "no guid", "another version", "another guid"],
)
def test_foreign_packets_of_any_shape_are_ignored(packet: bytes) -> None:
    event = _endpoint_event("packet_sent", encoded_packet=scval.to_bytes(packet))
    assert decode(event, WITH_OFT) is None


@pytest.mark.parametrize("cut", [45, 112, 120])
def test_truncated_own_packet_is_undecodable(cut: int) -> None:
    (sent,) = [decode(e, WITH_OFT) for e in recorded_oft_send()][6:7]
    assert isinstance(sent, PacketSent)
    event = _endpoint_event("packet_sent", encoded_packet=scval.to_bytes(sent.packet[:cut]))
    with pytest.raises(Undecodable):
        decode(event, WITH_OFT)


def _origin(**changes: xdr.SCVal) -> xdr.SCVal:
    fields = {
        "nonce": scval.to_uint64(9),
        "sender": _bytes(SENDER),
        "src_eid": scval.to_uint32(30101),
    }
    return scval.to_struct(fields | changes)


def _endpoint_event(name: str, *topics: xdr.SCVal, **data: xdr.SCVal) -> StellarEvent:
    return make_stellar_event(
        TESTNET_ENDPOINT, [scval.to_symbol(name), *topics], scval.to_struct(data)
    )


def test_verified_packet_guid_follows_origin() -> None:
    event = _endpoint_event(
        "packet_verified",
        _origin(),
        scval.to_address(TESTNET_OFT),
        payload_hash=_bytes(word("payload")),
    )
    decoded = decode(event, WITH_OFT)
    assert isinstance(decoded, PacketVerified)
    assert _fields(decoded) == {
        "guid": guid_of(9, 30101, SENDER, 40600, contract_as_bytes32(TESTNET_OFT)),
        "src_eid": 30101,
        "sender": SENDER,
        "nonce": 9,
        "receiver": TESTNET_OFT,
        "payload_hash": word("payload"),
    }


@pytest.mark.parametrize("data", [scval.to_void(), scval.to_map({}), scval.to_uint32(1)])
def test_delivered_packet_data_is_ignored(data: xdr.SCVal) -> None:
    event = make_stellar_event(
        TESTNET_ENDPOINT,
        [scval.to_symbol("packet_delivered"), _origin(), scval.to_address(TESTNET_OFT)],
        data,
    )
    decoded = decode(event, WITH_OFT)
    assert isinstance(decoded, PacketDelivered)
    assert decoded.guid == guid_of(9, 30101, SENDER, 40600, contract_as_bytes32(TESTNET_OFT))


@pytest.mark.parametrize("name", ["packet_verified", "packet_delivered"])
def test_packets_to_other_oapps_are_not_kept(name: str) -> None:
    event = _endpoint_event(name, _origin(), scval.to_address(contract("another OApp")))
    assert decode(event, WITH_OFT) is None


def _alert(receiver: str) -> StellarEvent:
    return _endpoint_event(
        "lz_receive_alert",
        scval.to_address(receiver),
        scval.to_address(account("executor")),
        _origin(),
        _bytes(word("guid")),
        gas=scval.to_int128(200_000),
        value=scval.to_int128(0),
        message=scval.to_bytes(b"message"),
        extra_data=scval.to_bytes(b""),
        reason=scval.to_bytes(b"out of gas"),
    )


def test_alert_for_our_oft_is_decoded() -> None:
    event = _alert(TESTNET_OFT)
    decoded = decode(event, WITH_OFT)
    assert isinstance(decoded, LzReceiveAlert)
    assert _fields(decoded) == {
        "guid": word("guid"),
        "src_eid": 30101,
        "sender": SENDER,
        "nonce": 9,
        "receiver": TESTNET_OFT,
        "executor": account("executor"),
        "gas": 200_000,
        "value": 0,
        "message": b"message",
        "extra_data": b"",
        "reason": b"out of gas",
    }


def test_alert_for_other_oapp_is_not_kept() -> None:
    assert decode(_alert(contract("another OApp")), WITH_OFT) is None


def test_oft_credit_is_decoded() -> None:
    event = make_stellar_event(
        TESTNET_OFT,
        [
            scval.to_symbol("oft_received"),
            _bytes(word("guid")),
            scval.to_uint32(30101),
            scval.to_address(account("customer")),
        ],
        scval.to_struct({"amount_received_ld": scval.to_int128(100_000_000)}),
    )
    decoded = decode(event, WITH_OFT)
    assert isinstance(decoded, OftReceived)
    assert _fields(decoded) == {
        "guid": word("guid"),
        "src_eid": 30101,
        "to_address": account("customer"),
        "amount_received": 100_000_000,
    }


def test_malformed_origin_is_undecodable() -> None:
    event = _endpoint_event(
        "packet_verified",
        _origin(nonce=scval.to_uint32(9)),
        scval.to_address(TESTNET_OFT),
        payload_hash=_bytes(word("payload")),
    )
    with pytest.raises(Undecodable, match=r"packet_verified: topic 1 origin: nonce is SCV_U32"):
        decode(event, WITH_OFT)


# Who is who.


def test_events_of_other_protocols_are_not_ours() -> None:
    events = recorded_of_others()
    assert len(events) == 11
    assert [decode(event, PUBNET) for event in events] == [None] * 11


@pytest.mark.parametrize("name", list(recorded_cctp("cctp-pubnet.json")))
def test_contract_decides_the_decoder(name: str) -> None:
    event = recorded_cctp("cctp-pubnet.json")[name]
    elsewhere = dataclasses.replace(event, contract=contract("an impostor"))
    assert decode(elsewhere, PUBNET) is None


def test_event_name_counts_only_at_its_contract() -> None:
    burn = recorded_cctp("cctp-pubnet.json")["00 deposit_for_burn"]
    assert PUBNET.cctp_forwarder is not None
    at_the_forwarder = dataclasses.replace(burn, contract=PUBNET.cctp_forwarder)
    assert decode(at_the_forwarder, PUBNET) is None


@pytest.mark.parametrize("topics", [(), (scval.to_string("deposit_for_burn").to_xdr_bytes(),)])
def test_event_without_a_name_is_not_kept(topics: tuple[bytes, ...]) -> None:
    burn = recorded_cctp("cctp-pubnet.json")["00 deposit_for_burn"]
    assert decode(dataclasses.replace(burn, topics=topics), PUBNET) is None


@pytest.mark.parametrize("name", list(recorded_cctp("cctp-pubnet.json")))
def test_one_topic_more_or_less_is_undecodable(name: str) -> None:
    event = recorded_cctp("cctp-pubnet.json")[name]
    with pytest.raises(Undecodable, match="topics"):
        decode(dataclasses.replace(event, topics=(*event.topics, event.topics[0])), PUBNET)


@pytest.mark.parametrize("name", list(recorded_cctp("cctp-pubnet.json")))
@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\0\0\0\x63",
        scval.to_void().to_xdr_bytes(),
        scval.to_map({}).to_xdr_bytes(),
        scval.to_uint32(7).to_xdr_bytes() + b"\0",
    ],
)
def test_data_of_another_shape_is_undecodable(name: str, value: bytes) -> None:
    event = recorded_cctp("cctp-pubnet.json")[name]
    with pytest.raises(Undecodable, match=name[3:]):
        decode(dataclasses.replace(event, value=value), PUBNET)


def test_topic_zero_that_is_not_xdr_is_undecodable() -> None:
    burn = recorded_cctp("cctp-pubnet.json")["00 deposit_for_burn"]
    with pytest.raises(Undecodable, match="topic 0"):
        decode(dataclasses.replace(burn, topics=(b"\0",)), PUBNET)
