import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest
from eth_utils.crypto import keccak

from devnet.evm_node import DEPOSIT_ARTIFACTS, artifact, signature_of
from indexer.addresses import evm_as_bytes32
from indexer.bridges.cctp.events import (
    DepositForBurn,
    MessageReceived,
    MessageSent,
    MintAndWithdraw,
)
from indexer.bridges.cctp.message import parse_message, source_bytes
from indexer.bridges.deposit_address.events import DepositRefunded
from indexer.bridges.deposit_address.factory import FACTORY
from indexer.bridges.oft.events import (
    LzReceiveAlert,
    OftReceived,
    OftSent,
    PacketDelivered,
    PacketSent,
    PacketVerified,
)
from indexer.bridges.oft.packet import guid_of
from indexer.bridges.tokens.events import Erc20Transfer
from indexer.chains.events import Event, Provenance
from indexer.chains.evm.abi import TRANSFER_TOPIC, topic_of
from indexer.chains.raw import EvmLog
from indexer.config.networks import EvmChain, load_network
from indexer.decode.evm import DECODERS, decode, event_topics
from indexer.errors import ConfigurationError, Undecodable
from tests.conftest import GOLDEN
from warehouse_schema.identifiers import (
    Address,
    BaseUnits,
    BlockHash,
    Bytes32,
    ChainId,
    EvmAddress,
    Height,
    TxHash,
    UnixSeconds,
)

USER = EvmAddress("0x" + "0a" * 20)
ROUTER = EvmAddress("0x" + "0b" * 20)
ETHEREUM_ID = ChainId("eip155:1")
GUID = Bytes32("0x" + "1d" * 32)
STELLAR_OFT = Bytes32("0x5d672cb21b3afcdda54546c7f5b9fd346920e41f8fe8f39e838e5d7bd7435546")


# Chains


def sepolia() -> EvmChain:
    chain = load_network("testnet").chain(ChainId("eip155:11155111"))
    assert isinstance(chain, EvmChain)
    return chain


def arc_testnet() -> EvmChain:
    """Arc has Circle's testnet contracts at the addresses that all EVM testnets share."""
    return dataclasses.replace(
        sepolia(),
        id=ChainId("eip155:5042002"),
        cctp_domain=26,
        usdc=EvmAddress("0x3600000000000000000000000000000000000000"),
    )


def ethereum() -> EvmChain:
    """As if the deposit factory had been deployed there."""
    chain = load_network("mainnet").chain(ETHEREUM_ID)
    assert isinstance(chain, EvmChain)
    return dataclasses.replace(chain, deposit_factory=FACTORY)


def with_oft(oft: str, *, eid: int, endpoint: str, token: str) -> EvmChain:
    return dataclasses.replace(
        ethereum(),
        lz_eid=eid,
        oft=EvmAddress(oft),
        lz_endpoint=EvmAddress(endpoint),
        usdt0=EvmAddress(token),
    )


def recorded_endpoint(oft: str) -> EvmChain:
    """The chain of the recorded LayerZero logs, with one of their applications as our OFT."""
    endpoint = "0x6f475642a6e85809b1c36fa62763669b1b48dd5b"
    return with_oft(oft, eid=30327, endpoint=endpoint, token="0x" + "0c" * 20)


# Logs


def make_seen(position: int = 7, chain: ChainId = ETHEREUM_ID) -> Provenance:
    return Provenance(
        chain=chain,
        height=Height(100),
        block_hash=BlockHash("0x" + "b0" * 32),
        tx_hash=TxHash("0x" + "70" * 32),
        position=position,
        block_time=UnixSeconds(1_700_000_000),
    )


def make_log(address: str | None, signature: str, *topics: str, data: bytes = b"") -> EvmLog:
    assert address is not None
    return EvmLog(make_seen(), EvmAddress(address), (topic_of(signature), *topics), data)


def recorded_log(entry: dict[str, Any], chain: EvmChain, address: str | None = None) -> EvmLog:
    """A log of a recorded file; some do not say their address, some no block."""
    position = entry.get("logIndex", 0)
    return EvmLog(
        seen=make_seen(position if isinstance(position, int) else int(position, 16), chain.id),
        address=EvmAddress(str(entry.get("address", address))),
        topics=tuple(entry["topics"]),
        data=bytes.fromhex(entry["data"].removeprefix("0x")),
    )


def recorded(room: str, name: str) -> Any:
    return json.loads((GOLDEN / room / name).read_text())


def word(value: int | str) -> bytes:
    if isinstance(value, int):
        return value.to_bytes(32, "big")
    return bytes.fromhex(value.removeprefix("0x")).rjust(32, b"\0")


def topic(value: int | str) -> str:
    return "0x" + word(value).hex()


def tail(data: bytes) -> bytes:
    """Length and padded bytes, as an ABI encoder puts them behind the offsets."""
    return word(len(data)) + data + bytes(-len(data) % 32)


DEPOSIT_FOR_BURN = (
    "DepositForBurn(address,uint256,address,bytes32,uint32,bytes32,bytes32,uint256,uint32,bytes)"
)
MINT_AND_WITHDRAW = "MintAndWithdraw(address,uint256,address,uint256)"
MESSAGE_RECEIVED = "MessageReceived(address,uint32,bytes32,bytes32,uint32,bytes)"
OFT_SENT = "OFTSent(bytes32,uint32,address,uint256,uint256)"
OFT_RECEIVED = "OFTReceived(bytes32,uint32,address,uint256)"
PACKET_SENT = "PacketSent(bytes,bytes,address)"
PACKET_VERIFIED = "PacketVerified((uint32,bytes32,uint64),address,bytes32)"
PACKET_DELIVERED = "PacketDelivered((uint32,bytes32,uint64),address)"
LZ_RECEIVE_ALERT = (
    "LzReceiveAlert(address,address,(uint32,bytes32,uint64),bytes32,uint256,uint256,bytes,bytes"
    ",bytes)"
)
TRANSFER = "Transfer(address,address,uint256)"
REFUNDED = "Refunded(address,address,address,uint256)"
NATIVE = EvmAddress("0x" + "00" * 20)


def make_burn(chain: EvmChain, *, hook: bytes = b"hook", **words: int | str) -> EvmLog:
    fields = {
        "amount": 5_000_000,
        "mint_recipient": "0x" + "11" * 32,
        "destination_domain": 27,
        "destination_token_messenger": "0x" + "22" * 32,
        "destination_caller": "0x" + "33" * 32,
        "max_fee": 500,
        "offset": 0xE0,
        **words,
    }
    data = b"".join(word(value) for value in fields.values()) + tail(hook)
    topics = (topic(str(chain.usdc)), topic(ROUTER), topic(1000))
    return make_log(chain.cctp_token_messenger, DEPOSIT_FOR_BURN, *topics, data=data)


def make_message(chain: EvmChain, *, sender: str | None = None, body: bytes | None = None) -> bytes:
    """A source message of the chain, to Stellar."""
    header = (1).to_bytes(4, "big") + int(chain.cctp_domain or 0).to_bytes(4, "big")
    header += (27).to_bytes(4, "big") + bytes(32)
    header += word(sender or str(chain.cctp_token_messenger)) + b"\x22" * 32 + b"\x33" * 32
    header += (1000).to_bytes(4, "big") + bytes(4)
    burn = (1).to_bytes(4, "big") + b"\x44" * 160 + bytes(64) + b"hook"
    return header + (burn if body is None else body)


def make_message_sent(chain: EvmChain, message: bytes) -> EvmLog:
    data = word(0x20) + tail(message)
    return make_log(chain.cctp_message_transmitter, "MessageSent(bytes)", data=data)


def make_packet(chain: EvmChain, *, sender: str | None = None, src_eid: int | None = None) -> bytes:
    """A packet of one token from the chain's OFT to Stellar's."""
    source = src_eid or int(chain.lz_eid or 0)
    sender_word = Bytes32("0x" + word(sender or str(chain.oft)).hex())
    guid = guid_of(9, source, sender_word, 30600, STELLAR_OFT)
    header = b"\x01" + (9).to_bytes(8, "big") + source.to_bytes(4, "big") + word(sender_word)
    header += (30600).to_bytes(4, "big") + word(STELLAR_OFT)
    return header + word(guid) + b"\x55" * 32 + (1_000_000).to_bytes(8, "big")


def make_packet_sent(chain: EvmChain, packet: bytes) -> EvmLog:
    options = bytes.fromhex("0003010011010000000000000000000000000007a120")
    first = tail(packet)
    data = word(0x60) + word(0x60 + len(first)) + word(ROUTER) + first + tail(options)
    return make_log(chain.lz_endpoint, PACKET_SENT, data=data)


def make_alert(chain: EvmChain, receiver: str | None) -> EvmLog:
    parts = [b"message", b"", b"reason of the revert that is longer than one word"]
    offsets, at = [], 9 * 32
    for part in parts:
        offsets.append(word(at))
        at += len(tail(part))
    head: list[int | str] = [30600, STELLAR_OFT, 9, GUID, 500_000, 0]
    data = b"".join([*map(word, head), *offsets, *map(tail, parts)])
    topics = (topic(str(receiver)), topic(ROUTER))
    return make_log(chain.lz_endpoint, LZ_RECEIVE_ALERT, *topics, data=data)


def changed(log: EvmLog, **fields: Any) -> EvmLog:
    return dataclasses.replace(log, **fields)


# Genuine logs


def test_sepolia_burn_decodes_to_its_row(golden: Callable[[str, Any], None]):
    entry = recorded("evm", "sepolia-deposit-for-burn.json")["log"]
    log = recorded_log(entry, sepolia(), sepolia().cctp_token_messenger)
    row = decode(log, sepolia())
    assert isinstance(row, DepositForBurn)
    assert (row.amount, row.destination_domain, row.min_finality_threshold) == (10_000, 27, 1000)
    assert row.burn_token == str(sepolia().usdc)
    assert len(row.hook_data) == 88
    golden("evm/expected/sepolia-deposit-for-burn.json", row)


def test_arc_mint_is_3_rows_of_13_logs(golden: Callable[[str, Any], None]):
    logs = recorded("evm", "arc-testnet-receipt.json")["receipt"]["logs"]
    rows = [decode(recorded_log(log, arc_testnet()), arc_testnet()) for log in logs]
    assert len(rows) == 13
    kept = [row for row in rows if row is not None]
    kinds = [type(row) for row in kept if not isinstance(row, Erc20Transfer)]
    assert kinds == [MintAndWithdraw, MessageReceived]
    golden("evm/expected/arc-testnet-receipt.json", kept)


def test_native_18_decimal_copy_is_no_transfer():
    logs = recorded("evm", "arc-testnet-receipt.json")["receipt"]["logs"]
    transfers = [log for log in logs if log["topics"][0] == TRANSFER_TOPIC]
    rows = [decode(recorded_log(log, arc_testnet()), arc_testnet()) for log in transfers]
    assert {log["address"] for log in transfers} == {
        "0x3600000000000000000000000000000000000000",
        "0xfffffffffffffffffffffffffffffffffffffffe",
    }
    for log, row in zip(transfers, rows, strict=True):
        if log["address"].startswith("0xff"):
            assert row is None
        else:
            assert isinstance(row, Erc20Transfer)
            assert row.amount < 10**12


def test_received_message_has_its_source_key():
    logs = recorded("evm", "arc-testnet-receipt.json")["receipt"]["logs"]
    rows = [decode(recorded_log(log, arc_testnet()), arc_testnet()) for log in logs]
    (received,) = (row for row in rows if isinstance(row, MessageReceived))
    answer = recorded("cctp", "service-answer-arc-testnet.json")["response"]["messages"][0]
    attested = bytes.fromhex(answer["message"][2:])
    assert received.message_body == parse_message(attested).raw_body
    assert received.nonce == answer["eventNonce"]
    sent = decode(make_message_sent(sepolia(), source_bytes(attested)), sepolia())
    assert isinstance(sent, MessageSent)
    assert sent.burn_key == received.burn_key
    assert sent.burn_key is not None


def test_recorded_endpoint_logs_decode_to_their_rows(golden: Callable[[str, Any], None]):
    entries = recorded("lz", "endpoint-and-oft-logs.json")
    received, delivered, sent, verified, received_elsewhere = entries
    application = recorded_endpoint("0x06eb48763f117c7be887296cdcdfad2e4092739c")
    receiving = recorded_endpoint("0xcee9b58c2cdb01b8bf75a27e96ec09bf885ef55a")
    oft = recorded_endpoint(received["address"])
    rows = [
        decode(recorded_log(received, oft), oft),
        decode(recorded_log(received_elsewhere, oft, oft.oft), oft),
        decode(recorded_log(sent, application), application),
        decode(recorded_log(delivered, application), application),
        decode(recorded_log(verified, receiving), receiving),
    ]
    kinds = [OftReceived, OftReceived, PacketSent, PacketDelivered, PacketVerified]
    assert [type(row) for row in rows] == kinds
    golden("lz/expected/endpoint-and-oft-logs.json", rows)


def test_recorded_foreign_packets_are_ignored():
    chain = recorded_endpoint("0x" + "0d" * 20)
    for entry in recorded("lz", "endpoint-and-oft-logs.json"):
        if entry["event"] != "OFTReceived":
            assert decode(recorded_log(entry, chain), chain) is None


def decoded_oft_receipts() -> dict[str, list[Event | None]]:
    chain = with_oft(
        "0x0165878a594ca255338adfa4d48449f69242eb8f",
        eid=30101,
        endpoint="0x5fbdb2315678afecb367f032d93f642f64180aa3",
        token="0x5fc8d32690cc91d4c39d9d3abcbd16989f875707",
    )
    receipts = recorded("evm", "local-oft-receipts.synthetic.json")
    return {
        step: [decode(recorded_log(log, chain), chain) for log in receipts[step]["logs"]]
        for step in ("send", "verify", "receive")
    }


def test_synthetic_oft_receipts_decode(golden: Callable[[str, Any], None]):
    rows = decoded_oft_receipts()
    assert {step: [type(row) for row in found] for step, found in rows.items()} == {
        "send": [Erc20Transfer, PacketSent, OftSent],
        "verify": [PacketVerified],
        "receive": [Erc20Transfer, OftReceived, PacketDelivered],
    }
    golden("evm/expected/local-oft-receipts.synthetic.json", rows)


def test_events_of_one_message_share_its_guid():
    rows = decoded_oft_receipts()
    outgoing = {row.guid for row in rows["send"] if isinstance(row, PacketSent | OftSent)}
    incoming = {
        row.guid
        for row in [*rows["verify"], *rows["receive"]]
        if isinstance(row, PacketVerified | OftReceived | PacketDelivered)
    }
    assert len(outgoing) == len(incoming) == 1
    assert outgoing != incoming


# Made logs


def test_burn_keeps_gross_amount_and_hook_bytes():
    row = decode(make_burn(ethereum(), hook=b"x" * 33), ethereum())
    assert isinstance(row, DepositForBurn)
    assert (row.amount, row.max_fee, row.hook_data) == (5_000_000, 500, b"x" * 33)
    assert (row.depositor, row.burn_token) == (Address(ROUTER), str(ethereum().usdc))
    assert row.seen == make_seen()


def test_messenger_message_has_burn_key():
    message = make_message(ethereum())
    row = decode(make_message_sent(ethereum(), message), ethereum())
    assert isinstance(row, MessageSent)
    assert row.burn_key is not None
    assert row.message == message
    assert (row.source_domain, row.destination_domain) == (0, 27)


@pytest.mark.parametrize("body", [None, b"", b"hello", bytes(300)])
def test_foreign_message_has_no_burn_key(body):
    message = make_message(ethereum(), sender=ROUTER, body=body)
    row = decode(make_message_sent(ethereum(), message), ethereum())
    assert isinstance(row, MessageSent)
    assert row.burn_key is None
    assert row.sender == evm_as_bytes32(ROUTER)


def test_own_packet_has_recipient_and_amount():
    packet = make_packet(ethereum())
    row = decode(make_packet_sent(ethereum(), packet), ethereum())
    assert isinstance(row, PacketSent)
    assert (row.nonce, row.src_eid, row.dst_eid) == (9, 30101, 30600)
    assert (row.send_to, row.amount_shared) == ("0x" + "55" * 32, 1_000_000)
    assert (row.packet, row.send_library) == (packet, Address(ROUTER))
    assert row.options.hex() == "0003010011010000000000000000000000000007a120"


@pytest.mark.parametrize("size", [0, 12, 44, 45, 112, 300])
def test_malformed_foreign_packet_is_ignored(size):
    assert decode(make_packet_sent(ethereum(), b"\x07" * size), ethereum()) is None


def test_verified_and_delivered_have_the_packet_guid():
    chain = ethereum()
    origin = word(30600) + word(STELLAR_OFT) + word(12)
    verified = make_log(
        chain.lz_endpoint,
        PACKET_VERIFIED,
        data=origin + word(str(chain.oft)) + b"\x66" * 32,
    )
    delivered = make_log(chain.lz_endpoint, PACKET_DELIVERED, data=origin + word(str(chain.oft)))
    packed = (12).to_bytes(8, "big") + (30600).to_bytes(4, "big") + word(STELLAR_OFT)
    packed += (30101).to_bytes(4, "big") + word(str(chain.oft))
    for log in (verified, delivered):
        row = decode(log, chain)
        assert isinstance(row, PacketVerified | PacketDelivered)
        assert row.guid == "0x" + keccak(packed).hex()
        assert (row.src_eid, row.sender, row.nonce) == (30600, STELLAR_OFT, 12)
        assert row.receiver == str(chain.oft)


def test_alert_about_our_oft_is_decoded():
    row = decode(make_alert(ethereum(), ethereum().oft), ethereum())
    assert isinstance(row, LzReceiveAlert)
    assert (row.guid, row.nonce, row.executor) == (GUID, 9, Address(ROUTER))
    assert (row.gas, row.value) == (500_000, 0)
    assert (row.message, row.extra_data) == (b"message", b"")
    assert row.reason == b"reason of the revert that is longer than one word"


def test_alert_about_other_oapp_is_ignored():
    assert decode(make_alert(ethereum(), ROUTER), ethereum()) is None


def test_largest_amount_is_exact():
    chain = ethereum()
    log = make_log(chain.usdt0, TRANSFER, topic(USER), topic(ROUTER), data=word(2**256 - 1))
    assert decode(log, chain) == Erc20Transfer(
        seen=make_seen(),
        token=EvmAddress(str(chain.usdt0)),
        sender=USER,
        recipient=ROUTER,
        amount=BaseUnits(2**256 - 1),
    )


# Not ours


def test_refund_of_known_token_is_decoded():
    chain = ethereum()
    assert decode(REFUND, chain) == DepositRefunded(
        seen=REFUND.seen,
        deposit=ROUTER,
        token=EvmAddress(str(chain.usdc)),
        refund_to=USER,
        amount=BaseUnits(5),
    )
    for stranger in (NATIVE, ROUTER):
        topics = (*REFUND.topics[:2], topic(stranger))
        assert decode(changed(REFUND, topics=topics), chain) is None


def test_unneeded_events_are_ignored():
    chain = ethereum()
    approval = "Approval(address,address,uint256)"
    assert decode(make_log(ROUTER, TRANSFER, topic(USER), topic(USER)), chain) is None
    assert decode(make_log(chain.usdc, approval, topic(USER), topic(USER)), chain) is None
    assert decode(make_log(chain.oft, "PeerSet(uint32,bytes32)"), chain) is None
    assert decode(make_log(chain.oft, DEPOSIT_FOR_BURN), chain) is None
    assert decode(EvmLog(make_seen(), EvmAddress(str(chain.usdc)), (), b""), chain) is None


def test_chain_without_contracts_has_no_events():
    base = load_network("mainnet").chain(ChainId("eip155:8453"))
    assert isinstance(base, EvmChain)
    assert base.oft is None
    assert decode(make_packet_sent(ethereum(), make_packet(ethereum())), base) is None


# Undecodable


def dirty(address: str) -> str:
    return "0x" + "00" * 11 + "01" + address[2:]


ETHEREUM = ethereum()
BURN = make_burn(ETHEREUM)
MINT = make_log(
    ETHEREUM.cctp_token_messenger,
    MINT_AND_WITHDRAW,
    topic(USER),
    topic(str(ETHEREUM.usdc)),
    data=word(1) + word(2),
)
RECEIVED = make_log(
    ETHEREUM.cctp_message_transmitter,
    MESSAGE_RECEIVED,
    topic(USER),
    topic(77),
    topic(2000),
    data=word(27) + b"\x22" * 32 + word(0x60) + tail(b"body"),
)
SENT = make_log(ETHEREUM.oft, OFT_SENT, GUID, topic(USER), data=word(30600) + word(1) + word(1))
CREDITED = make_log(ETHEREUM.oft, OFT_RECEIVED, GUID, topic(USER), data=word(30600) + word(1))
VERIFIED = make_log(
    ETHEREUM.lz_endpoint,
    PACKET_VERIFIED,
    data=word(30600) + word(STELLAR_OFT) + word(1) + word(str(ETHEREUM.oft)) + word(5),
)
MOVED = make_log(ETHEREUM.usdc, TRANSFER, topic(USER), topic(ROUTER), data=word(1))
PACKET = make_packet_sent(ETHEREUM, make_packet(ETHEREUM))
REFUND = make_log(
    FACTORY, REFUNDED, topic(ROUTER), topic(str(ETHEREUM.usdc)), data=word(USER) + word(5)
)


@pytest.mark.parametrize(
    "log", [BURN, MINT, RECEIVED, SENT, CREDITED, VERIFIED, MOVED, PACKET, REFUND]
)
def test_well_formed_logs_decode(log):
    assert decode(log, ETHEREUM) is not None


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (changed(BURN, topics=BURN.topics[:3]), "DepositForBurn.*3 topics, not 4"),
        (changed(BURN, topics=(*BURN.topics, GUID)), "5 topics, not 4"),
        (changed(BURN, data=b""), "0 bytes"),
        (changed(BURN, data=BURN.data[: 7 * 32]), "224 bytes"),
        (changed(BURN, data=BURN.data[:257]), "257 bytes, and 4 at offset 256"),
        (make_burn(ETHEREUM, offset=2**255), "bytes, and 32 at offset"),
        (make_burn(ETHEREUM, offset=0x100), "bytes"),
        (make_burn(ETHEREUM, destination_domain=2**32), "does not fit 32 bits"),
        (
            changed(BURN, topics=(BURN.topics[0], BURN.topics[1], dirty(ROUTER), topic(1000))),
            "does not fit 160 bits",
        ),
        (changed(BURN, topics=(*BURN.topics[:3], topic(2**32))), "does not fit 32 bits"),
        (changed(BURN, topics=(*BURN.topics[:3], "0x3e8")), "is not 32 bytes"),
        (changed(MINT, topics=(MINT.topics[0], dirty(USER), MINT.topics[2])), "fit 160 bits"),
        (changed(MINT, data=MINT.data[:-1]), "63 bytes, not 64"),
        (changed(MINT, data=MINT.data + b"\0"), "65 bytes, not 64"),
        (changed(RECEIVED, data=RECEIVED.data[:-33]), "bytes"),
        (changed(RECEIVED, data=word(2**32) + RECEIVED.data[32:]), "does not fit 32 bits"),
        (make_message_sent(ETHEREUM, bytes(100)), "MessageSent.*100 bytes"),
        (make_message_sent(ETHEREUM, bytes(200)), "version 0"),
        (
            make_message_sent(ETHEREUM, make_message(dataclasses.replace(ETHEREUM, cctp_domain=3))),
            "source domain 3, the chain is 0",
        ),
        (changed(SENT, topics=SENT.topics[:2]), "2 topics, not 3"),
        (changed(SENT, data=SENT.data[:64]), "64 bytes, not 96"),
        (changed(SENT, data=word(2**32) + SENT.data[32:]), "does not fit 32 bits"),
        (changed(CREDITED, data=CREDITED.data + bytes(32)), "96 bytes, not 64"),
        (changed(VERIFIED, data=VERIFIED.data[:-32]), "128 bytes, not 160"),
        (
            changed(VERIFIED, data=VERIFIED.data[:64] + word(2**64) + VERIFIED.data[96:]),
            "does not fit 64 bits",
        ),
        (changed(MOVED, topics=(*MOVED.topics, topic(1))), "4 topics, not 3"),
        (changed(MOVED, topics=(MOVED.topics[0], MOVED.topics[1], dirty(USER))), "fit 160 bits"),
        (changed(MOVED, data=b""), "0 bytes, not 32"),
        (
            make_packet_sent(ETHEREUM, make_packet(ETHEREUM, src_eid=30110)),
            "source 30110, the chain is 30101",
        ),
        (make_packet_sent(ETHEREUM, make_packet(ETHEREUM)[:-1]), "39 bytes"),
        (make_packet_sent(ETHEREUM, make_packet(ETHEREUM)[:100]), "100 bytes"),
        (changed(PACKET, data=PACKET.data[:96]), "bytes"),
        (changed(REFUND, topics=REFUND.topics[:2]), "Refunded.*2 topics, not 3"),
        (changed(REFUND, data=word(5)), "32 bytes, not 64"),
        (changed(REFUND, data=word(2**160) + word(5)), "does not fit 160 bits"),
    ],
)
def test_malformed_own_log_is_undecodable(log, reason):
    with pytest.raises(Undecodable, match=reason) as caught:
        decode(log, ETHEREUM)
    assert log.address in str(caught.value)
    assert log.seen.tx_hash in str(caught.value)


@pytest.mark.parametrize(
    ("contract", "topic0"),
    [
        (
            ETHEREUM.cctp_token_messenger,
            "0x2fa9ca894982930190727e75500a97d8dc500233a5065e0f3126c48fbe0343c0",
        ),
        (
            ETHEREUM.cctp_token_messenger,
            "0x1b2a7ff080b8cb6ff436ce0372e399692bbfb6d4ae5766fd8d58a7b8cc6142e6",
        ),
        (
            ETHEREUM.cctp_message_transmitter,
            "0x58200b4c34ae05ee816d710053fff3fb75af4395915d3d2a771b24aa10e3cc5d",
        ),
    ],
    ids=["DepositForBurn", "MintAndWithdraw", "MessageReceived"],
)
def test_cctp_v1_event_names_wrong_contract(contract, topic0):
    log = EvmLog(make_seen(), contract, (topic0,), b"")
    with pytest.raises(Undecodable, match="CCTP V1"):
        decode(log, ETHEREUM)


def test_contract_without_its_setting_is_refused():
    broken = dataclasses.replace(ETHEREUM, cctp_domain=None)
    with pytest.raises(ConfigurationError, match="cctp_domain"):
        decode(RECEIVED, broken)


# Topics

PUBLISHED = {
    DEPOSIT_FOR_BURN: "0x0c8c1cbdc5190613ebd485511d4e2812cfa45eecb79d845893331fedad5130a5",
    MINT_AND_WITHDRAW: "0x50c55e915134d457debfa58eb6f4342956f8b0616d51a89a3659360178e1ab63",
    "MessageSent(bytes)": "0x8c5261668696ce22758910d05bab8f186d6eb247ceac2af2e82c7dc17669b036",
    MESSAGE_RECEIVED: "0xff48c13eda96b1cceacc6b9edeedc9e9db9d6226afbc30146b720c19d3addb1c",
    OFT_SENT: "0x85496b760a4b7f8d66384b9df21b381f5d1b1e79f229a47aaf4c232edc2fe59a",
    OFT_RECEIVED: "0xefed6d3500546b29533b128a29e3a94d70788727f0507505ac12eaf2e578fd9c",
    PACKET_SENT: "0x1ab700d4ced0c005b164c0f789fd09fcbb0156d4c2041b8a3bfbcd961cd1567f",
    PACKET_VERIFIED: "0x0d87345f3d1c929caba93e1c3821b54ff3512e12b66aa3cfe54b6bcbc17e59b4",
    PACKET_DELIVERED: "0x3cd5e48f9730b129dc7550f0fcea9c767b7be37837cd10e55eb35f734f4bca04",
    LZ_RECEIVE_ALERT: "0x7edfa10fe10193301ad8a8bea7e968c7bcabcc64981f368e3aeada40ce26ae2c",
    TRANSFER: "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",
    REFUNDED: "0xb7c482f0c0b7ad56e2c7004be448a8ead98a8bbe84675fd80b273563099f8560",
}
"""First topics as Circle, LayerZero and public indexers publish them; and that of our factory."""


def test_first_topics_are_the_published_ones():
    ours = {s: topic_of(s) for decoders in DECODERS.values() for s in decoders}
    v1 = {signature for signature in ours if signature not in PUBLISHED}
    assert {s: t for s, t in ours.items() if s not in v1} == PUBLISHED
    assert len(v1) == 3


def test_devnet_deposit_factory_has_the_same_event():
    [entry] = [e for e in artifact("DepositFactory", DEPOSIT_ARTIFACTS).abi if e["type"] == "event"]
    assert topic_of(signature_of(entry)) == PUBLISHED[REFUNDED]
    assert [each["indexed"] for each in entry["inputs"]] == [True, True, False, False]


def test_contracts_have_their_own_topic_filters():
    interest = event_topics(ETHEREUM)
    assert set(interest) == set(ETHEREUM.event_contracts)
    for role in (
        *("cctp_token_messenger", "cctp_message_transmitter"),
        *("oft", "lz_endpoint", "deposit_factory"),
    ):
        assert set(interest[getattr(ETHEREUM, role)]) == {topic_of(s) for s in DECODERS[role]}


def test_transfers_are_filtered_by_recipient():
    for chain in (*load_network("mainnet").evm, *load_network("testnet").evm):
        topics = {topic for topics in event_topics(chain).values() for topic in topics}
        assert TRANSFER_TOPIC not in topics


def test_token_that_is_its_oft_has_oft_topics():
    chain = dataclasses.replace(ETHEREUM, oft=ETHEREUM.usdt0)
    topics = event_topics(chain)[EvmAddress(str(chain.oft))]
    assert set(topics) == {topic_of(OFT_SENT), topic_of(OFT_RECEIVED)}
    assert isinstance(decode(changed(SENT, address=chain.oft), chain), OftSent)
    assert isinstance(decode(changed(MOVED, address=chain.usdt0), chain), Erc20Transfer)
