"""OFT and LayerZero on the local EVM chain: sends and deliveries."""

import pytest
from eth_abi.abi import decode

from devnet.evm import NATIVE_FEE, STELLAR_EID, EvmDevnet, deployer, packet_verifier
from devnet.evm_deployment import ENFORCED_OPTIONS
from devnet.evm_messages import ZERO_WORD, Packet, address_word, oft_message
from devnet.evm_node import Reverted, encode_call
from tests.devnet.evm.stand import (
    ALICE,
    BOB,
    GENUINE,
    NAMES,
    ONE,
    RECIPIENT,
    RELAYER,
    REMOTES,
    SEND_PARAM,
    inbound_packet,
    names,
    the_log,
)

# OFT, outbound


def test_send_logs_match_order_of_real_contracts(devnet: EvmDevnet):
    at = devnet.addresses
    fee = devnet.quote_send(to=RECIPIENT, amount=4 * ONE)
    receipt = devnet.oft_send(ALICE, to=RECIPIENT, amount=4 * ONE, native_fee=fee)
    assert names(receipt) == ["Transfer", "PacketSent", "OFTSent"]
    assert [log.address for log in receipt.logs] == [at.usdt0, at.endpoint, at.oft]
    burned, packet_sent, sent = receipt.logs
    assert burned.topics[1:] == (address_word(ALICE.address), ZERO_WORD)
    expected = Packet(
        nonce=1,
        src_eid=30101,
        sender=address_word(at.oft),
        dst_eid=30600,
        receiver=REMOTES.oft,
        message=oft_message(RECIPIENT, 4 * ONE),
    )
    assert decode(["bytes", "bytes", "address"], packet_sent.data) == (
        expected.encode(),
        ENFORCED_OPTIONS,
        at.endpoint,
    )
    assert devnet.sent_packets(receipt) == (expected.encode(),)
    assert sent.topics[1:] == (expected.guid, address_word(ALICE.address))
    assert decode(["uint32", "uint256", "uint256"], sent.data) == (30600, 4 * ONE, 4 * ONE)


def test_packet_bytes_and_guid_equal_recorded_packets():
    data = bytes.fromhex(GENUINE["packet_sent"]["data"][2:])
    encoded, _, _ = decode(["bytes", "bytes", "address"], data)
    packet = Packet.decode(encoded)
    assert (packet.nonce, packet.src_eid, packet.dst_eid) == (3244, 30327, 30111)
    header = bytes.fromhex(GENUINE["packet_header"]["header"][2:])
    towards_stellar = Packet(32, 30101, header[13:45], 30600, header[49:81], b"")
    assert towards_stellar.guid.hex() == GENUINE["packet_header"]["guid"][2:]
    with pytest.raises(ValueError, match="guid"):
        Packet.decode(encoded[:81] + bytes(32) + encoded[113:])


def test_nonces_of_a_path_start_at_one(devnet: EvmDevnet):
    at = devnet.addresses
    path = (at.oft, STELLAR_EID, REMOTES.oft)
    [predicted] = devnet.call(
        at.endpoint, "nextGuid(address,uint32,bytes32)", *path, returns="(bytes32)"
    )
    receipts = [devnet.oft_send(ALICE, to=RECIPIENT, amount=ONE) for _ in range(2)]
    packets = [Packet.decode(devnet.sent_packets(each)[0]) for each in receipts]
    assert [packet.nonce for packet in packets] == [1, 2]
    assert packets[0].guid == predicted


def test_excess_fee_is_refunded(devnet: EvmDevnet):
    def wei(address: str) -> int:
        return int(devnet.rpc("eth_getBalance", address, "latest"), 16)

    refund_to = "0x00000000000000000000000000000000000000aa"
    endpoint_before = wei(devnet.addresses.endpoint)
    devnet.oft_send(
        ALICE, to=RECIPIENT, amount=ONE, native_fee=NATIVE_FEE + 5, refund_address=refund_to
    )
    assert wei(refund_to) == 5
    assert wei(devnet.addresses.endpoint) - endpoint_before == NATIVE_FEE


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"value": NATIVE_FEE - 1}, ("NotEnoughNative", (NATIVE_FEE - 1,))),
        ({"value": NATIVE_FEE + 1}, ("NotEnoughNative", (NATIVE_FEE + 1,))),
        (
            {"native_fee": NATIVE_FEE - 1},
            ("LZ_InsufficientFee", (NATIVE_FEE, NATIVE_FEE - 1, 0, 0)),
        ),
        ({"dst_eid": 30184}, ("NoPeer", (30184,))),
        ({"min_amount": ONE + 1}, ("SlippageExceeded", (ONE, ONE + 1))),
        ({"extra_options": b"\0\1\2"}, ("InvalidOptions", (b"\0\1\2",))),
        ({"amount": 2**64}, ("AmountSDOverflowed", (2**64,))),
        ({"amount": 1001 * ONE}, ("ERC20: burn amount exceeds balance", ())),
    ],
)
def test_invalid_send_reverts_with_real_error(devnet: EvmDevnet, change, error):
    send = {"to": RECIPIENT, "amount": ONE} | change
    with pytest.raises(Reverted) as refused:
        devnet.oft_send(ALICE, **send)
    assert (refused.value.name, refused.value.arguments) == error


def test_extra_options_follow_enforced_options(devnet: EvmDevnet):
    extra = bytes.fromhex("0003010011010000000000000000000000000000c350")
    receipt = devnet.oft_send(ALICE, to=RECIPIENT, amount=ONE, extra_options=extra)
    _, options, _ = decode(["bytes", "bytes", "address"], the_log(receipt, "PacketSent").data)
    assert options == ENFORCED_OPTIONS + extra[2:]


def test_send_without_options_is_refused(devnet: EvmDevnet):
    call = encode_call("setPeer(uint32,bytes32)", 30110, RECIPIENT)
    devnet.send(deployer(), devnet.addresses.oft, call)
    with pytest.raises(Reverted, match="LZ_ULN_InvalidWorkerOptions"):
        devnet.oft_send(ALICE, to=RECIPIENT, amount=ONE, dst_eid=30110)


def test_quote_gives_the_received_amount(devnet: EvmDevnet):
    limit, fees, receipt = devnet.call(
        devnet.addresses.oft,
        f"quoteOFT({SEND_PARAM})",
        (STELLAR_EID, RECIPIENT, 5, 5, b"", b"", b""),
        returns="((uint256,uint256),(int256,string)[],(uint256,uint256))",
    )
    assert (limit, fees, receipt) == ((0, 1000 * ONE), (), (5, 5))


# OFT, inbound


def test_delivery_logs_match_order_of_real_contracts(devnet: EvmDevnet):
    at = devnet.addresses
    packet = inbound_packet()
    verified = devnet.lz_verify(packet.encode())
    assert names(verified) == ["PacketVerified"]
    assert decode(["(uint32,bytes32,uint64)", "address", "bytes32"], verified.logs[0].data) == (
        packet.origin,
        at.oft,
        packet.payload_hash,
    )
    receipt = devnet.lz_receive(RELAYER, packet.encode())
    assert names(receipt) == ["Transfer", "OFTReceived", "PacketDelivered"]
    assert [log.address for log in receipt.logs] == [at.usdt0, at.oft, at.endpoint]
    minted, received, delivered = receipt.logs
    assert minted.topics[1:] == (ZERO_WORD, address_word(BOB.address))
    assert received.topics[1:] == (packet.guid, address_word(BOB.address))
    assert decode(["uint32", "uint256"], received.data) == (30600, 7 * ONE)
    assert decode(["(uint32,bytes32,uint64)", "address"], delivered.data) == (packet.origin, at.oft)
    assert devnet.balance_of(at.usdt0, BOB.address) == 7 * ONE


def test_unverified_packet_is_not_delivered(devnet: EvmDevnet):
    with pytest.raises(Reverted) as refused:
        devnet.lz_receive(RELAYER, inbound_packet().encode())
    assert (refused.value.name, refused.value.arguments) == ("LZ_InvalidNonce", (1,))


def test_packet_is_delivered_once(devnet: EvmDevnet):
    packet = inbound_packet()
    devnet.lz_verify_and_receive(packet.encode())
    with pytest.raises(Reverted) as refused:
        devnet.lz_receive(RELAYER, packet.encode())
    assert refused.value.name == "LZ_PayloadHashNotFound"
    assert refused.value.arguments == (ZERO_WORD, packet.payload_hash)
    with pytest.raises(Reverted, match="LZ_PathNotVerifiable"):
        devnet.lz_verify(packet.encode())


def test_message_other_than_the_verified_one_is_refused(devnet: EvmDevnet):
    devnet.lz_verify(inbound_packet().encode())
    with pytest.raises(Reverted, match="LZ_PayloadHashNotFound"):
        devnet.lz_receive(RELAYER, inbound_packet(amount=8 * ONE).encode())


def test_verified_packets_are_delivered_in_any_order(devnet: EvmDevnet):
    at = devnet.addresses
    path = (at.oft, STELLAR_EID, REMOTES.oft)
    first, second, third = (inbound_packet(nonce=n).encode() for n in (1, 2, 3))
    devnet.lz_verify(third)
    with pytest.raises(Reverted) as refused:
        devnet.lz_receive(RELAYER, third)
    assert refused.value.arguments == (1,)
    devnet.lz_verify(first)
    devnet.lz_verify(second)
    inbound = devnet.call(
        at.endpoint, "inboundNonce(address,uint32,bytes32)", *path, returns="(uint64)"
    )
    assert inbound == (3,)
    for packet in (third, first, second):
        assert devnet.lz_receive(RELAYER, packet).succeeded
    lazy = devnet.call(
        at.endpoint, "lazyInboundNonce(address,uint32,bytes32)", *path, returns="(uint64)"
    )
    assert lazy == (3,)


def test_failed_delivery_can_be_retried(devnet: EvmDevnet):
    at = devnet.addresses
    packet = inbound_packet()
    devnet.lz_verify(packet.encode())
    revoke = encode_call("setMinter(address,bool)", at.oft, False)
    devnet.send(deployer(), at.usdt0, revoke)
    with pytest.raises(Reverted, match="caller is not a minter"):
        devnet.lz_receive(RELAYER, packet.encode())
    devnet.send(deployer(), at.usdt0, encode_call("setMinter(address,bool)", at.oft, True))
    assert devnet.lz_receive(RELAYER, packet.encode()).succeeded


def test_only_the_verifier_can_verify(devnet: EvmDevnet):
    packet = inbound_packet()
    call = encode_call(
        "verify((uint32,bytes32,uint64),address,bytes32)",
        packet.origin,
        devnet.addresses.oft,
        packet.payload_hash,
    )
    with pytest.raises(Reverted, match="LZ_InvalidReceiveLibrary"):
        devnet.send(ALICE, devnet.addresses.endpoint, call)
    assert devnet.send(packet_verifier(), devnet.addresses.endpoint, call).succeeded


def test_packet_of_unknown_peer_opens_no_path(devnet: EvmDevnet):
    with pytest.raises(Reverted, match="LZ_PathNotInitializable"):
        devnet.lz_verify(inbound_packet(sender=RECIPIENT).encode())


def test_only_the_endpoint_can_make_the_oft_mint(devnet: EvmDevnet):
    packet = inbound_packet()
    call = encode_call(
        "lzReceive((uint32,bytes32,uint64),bytes32,bytes,address,bytes)",
        packet.origin,
        packet.guid,
        packet.message,
        ALICE.address,
        b"",
    )
    with pytest.raises(Reverted, match="OnlyEndpoint"):
        devnet.send(ALICE, devnet.addresses.oft, call)


def test_alert_names_receiver_executor_and_packet(devnet: EvmDevnet):
    packet = inbound_packet()
    call = encode_call(
        "lzReceiveAlert((uint32,bytes32,uint64),address,bytes32,uint256,uint256,bytes,bytes,bytes)",
        packet.origin,
        devnet.addresses.oft,
        packet.guid,
        500_000,
        0,
        packet.message,
        b"",
        b"reason",
    )
    receipt = devnet.send(RELAYER, devnet.addresses.endpoint, call)
    [alert] = receipt.logs
    assert NAMES[alert.topics[0].hex()] == "LzReceiveAlert"
    assert alert.topics[1:] == (
        address_word(devnet.addresses.oft),
        address_word(RELAYER.address),
    )
    values = ["(uint32,bytes32,uint64)", "bytes32", "uint256", "uint256", "bytes", "bytes", "bytes"]
    assert decode(values, alert.data) == (
        packet.origin,
        packet.guid,
        500_000,
        0,
        packet.message,
        b"",
        b"reason",
    )
