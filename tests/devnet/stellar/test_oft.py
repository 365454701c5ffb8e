"""OFT on the Stellar stand-in: sends, verification and delivery of USDT0 packets."""

import pytest
from eth_hash.auto import keccak
from stellar_sdk import scval
from stellar_sdk.operation import ChangeTrust

from devnet.evm_messages import Packet, oft_message
from devnet.stellar.accounts import PACKET_VERIFIER, PACKET_WORKER, RELAYER, USDT0, keypair
from devnet.stellar.contracts import oft
from devnet.stellar.contracts.oft import NATIVE_FEE, MessagingFee, Origin, SendParam
from devnet.stellar.registry import padded
from devnet.stellar.values import struct
from tests.devnet.stellar.cctp import AT, REMOTES, code
from tests.devnet.stellar.chain import Chain, events, value

PEER = padded(REMOTES.oft)
TO = padded(b"\x22" * 20)


@pytest.fixture
def chain():
    return Chain(REMOTES)


@pytest.fixture
def alice(chain):
    return chain.open("alice", usdt0=1_000_000_000)


@pytest.fixture
def relayer():
    return keypair(RELAYER)


def send(chain, source, amount, *, fee=NATIVE_FEE, run="call", **fields):
    values = {
        "compose_msg": b"",
        "dst_eid": 30101,
        "extra_options": b"",
        "min_amount_ld": 0,
        "oft_cmd": b"",
        "to": TO,
    } | fields
    return getattr(chain, run)(
        source,
        AT.oft,
        "send",
        scval.to_address(source.public_key),
        struct(SendParam).encode(SendParam(amount_ld=amount, **values)),
        struct(MessagingFee).encode(MessagingFee(fee, 0)),
        scval.to_address(source.public_key),
    )


def test_send_burns_pays_fee_and_emits_packet(chain, alice):
    before = chain.account(alice.public_key).balance
    row = send(chain, alice, 10_000_001)
    assert row.succeeded
    burned, paid, passed_on, packet_sent, oft_sent = events(row)
    assert (burned[0], burned[1][:2], burned[2]) == (
        AT.usdt0_sac,
        ["burn", alice.public_key],
        10_000_000,
    )
    assert (paid[0], paid[1][1:3], paid[2]) == (
        AT.native_sac,
        [alice.public_key, AT.endpoint],
        NATIVE_FEE,
    )
    assert passed_on[1][2] == keypair(PACKET_WORKER).public_key
    packet = Packet.decode(packet_sent[2]["encoded_packet"])
    assert packet == Packet(1, 30600, AT.raw("oft"), 30101, PEER, oft_message(TO, 1_000_000))
    assert packet_sent[1] == ["packet_sent"]
    assert oft_sent == (
        AT.oft,
        ["oft_sent", packet.guid, 30101, alice.public_key],
        {"amount_received_ld": 10_000_000, "amount_sent_ld": 10_000_000},
    )
    receipt = value(row)
    assert receipt[0]["guid"] == packet.guid
    assert receipt[1]["amount_sent_ld"] == 10_000_000
    assert chain.balance(alice.public_key, USDT0) == 990_000_000
    assert chain.account(alice.public_key).balance < before - NATIVE_FEE


def test_packet_nonces_have_no_gaps(chain, alice):
    rows = [send(chain, alice, 10_000_000), send(chain, alice, 10_000_000)]
    packets = [Packet.decode(events(row)[-2][2]["encoded_packet"]) for row in rows]
    assert [packet.nonce for packet in packets] == [1, 2]
    send(chain, alice, 10_000_000, fee=NATIVE_FEE - 1, run="refused")
    assert value(send(chain, alice, 10_000_000))[0]["nonce"] == 3


def test_excess_fee_is_refunded(chain, alice):
    row = send(chain, alice, 10_000_000, fee=NATIVE_FEE + 5)
    refund = events(row)[3]
    assert (refund[1][1:3], refund[2]) == ([AT.endpoint, alice.public_key], 5)


@pytest.mark.parametrize(
    ("amount", "options", "expected"),
    [
        (10_000_000, {"fee": NATIVE_FEE - 1}, oft.INSUFFICIENT_FEE),
        (10_000_000, {"dst_eid": 30184}, oft.NO_PEER),
        (10_000_001, {"min_amount_ld": 10_000_001}, oft.SLIPPAGE),
        (9, {}, oft.INVALID_AMOUNT),
        (10_000_000, {"compose_msg": b"x"}, oft.INVALID_OPTIONS),
        (2_000_000_000, {}, 10),
    ],
)
def test_invalid_send_fails_with_its_code(chain, alice, amount, options, expected):
    assert code(expected) in send(chain, alice, amount, run="refused", **options)
    assert chain.balance(alice.public_key, USDT0) == 1_000_000_000


def packet_for(to, amount_sd=1_000_000, nonce=1, **fields):
    values = {
        "src_eid": 30101,
        "sender": PEER,
        "dst_eid": 30600,
        "receiver": AT.raw("oft"),
    } | fields
    return Packet(nonce=nonce, message=oft_message(to, amount_sd), **values)


def verify(chain, packet, by=PACKET_VERIFIER, run="call"):
    source = keypair(by)
    return getattr(chain, run)(
        source,
        AT.endpoint,
        "verify",
        scval.to_address(source.public_key),
        scval.to_bytes(packet.encode()),
    )


def deliver(chain, source, packet, run="call", message=None):
    origin = Origin(packet.nonce, packet.sender, packet.src_eid)
    return getattr(chain, run)(
        source,
        AT.oft,
        "lz_receive",
        scval.to_address(source.public_key),
        struct(Origin).encode(origin),
        scval.to_bytes(packet.guid),
        scval.to_bytes(packet.message if message is None else message),
        scval.to_bytes(b""),
        scval.to_int128(0),
    )


def waiting(chain, packet):
    return chain.invoke(
        keypair(RELAYER),
        AT.endpoint,
        "inbound_payload_hash",
        scval.to_address(AT.oft),
        scval.to_uint32(packet.src_eid),
        scval.to_bytes(packet.sender),
        scval.to_uint64(packet.nonce),
    )


def test_verified_packet_is_delivered_once(chain, relayer):
    bob = chain.open("bob", usdt0=0)
    packet = packet_for(bob.raw_public_key())
    origin = {"nonce": 1, "sender": PEER, "src_eid": 30101}
    verified = events(verify(chain, packet))
    assert verified == [
        (
            AT.endpoint,
            ["packet_verified", origin, AT.oft],
            {"payload_hash": keccak(packet.guid + packet.message)},
        )
    ]
    delivered, minted, received = events(deliver(chain, relayer, packet))
    assert delivered == (AT.endpoint, ["packet_delivered", origin, AT.oft], {})
    assert (minted[0], minted[1][:2], minted[2]) == (
        AT.usdt0_sac,
        ["mint", bob.public_key],
        10_000_000,
    )
    assert received == (
        AT.oft,
        ["oft_received", packet.guid, 30101, bob.public_key],
        {"amount_received_ld": 10_000_000},
    )
    assert chain.balance(bob.public_key, USDT0) == 10_000_000
    assert code(oft.PAYLOAD_NOT_FOUND) in deliver(chain, relayer, packet, run="refused")
    assert code(oft.PATH_NOT_VERIFIABLE) in verify(chain, packet, run="refused")


def test_missing_trustline_leaves_packet_for_retry(chain, relayer):
    bob = chain.open("bob")
    packet = packet_for(bob.raw_public_key())
    verify(chain, packet, run="invoke")
    assert code(13) in deliver(chain, relayer, packet, run="refused")
    assert waiting(chain, packet) == packet.payload_hash
    chain.run(bob, ChangeTrust(USDT0))
    deliver(chain, relayer, packet, run="invoke")
    assert chain.balance(bob.public_key, USDT0) == 10_000_000
    assert waiting(chain, packet) is None


def test_delivery_recognizes_a_contract_recipient(chain, relayer):
    packet = packet_for(AT.raw("escrow"))
    verify(chain, packet, run="invoke")
    received = events(deliver(chain, relayer, packet))[-1]
    assert received[1][3] == AT.escrow


def test_nonce_gap_holds_delivery_back(chain, relayer):
    bob = chain.open("bob", usdt0=0)
    first, second = (packet_for(bob.raw_public_key(), nonce=nonce) for nonce in (1, 2))
    verify(chain, second, run="invoke")
    assert code(oft.INVALID_NONCE) in deliver(chain, relayer, second, run="refused")
    verify(chain, first, run="invoke")
    deliver(chain, relayer, second, run="invoke")
    deliver(chain, relayer, first, run="invoke")
    assert chain.balance(bob.public_key, USDT0) == 20_000_000
    far = packet_for(bob.raw_public_key(), nonce=2 + 257)
    assert code(oft.PATH_NOT_VERIFIABLE) in verify(chain, far, run="refused")


def test_only_the_verifier_verifies_and_only_for_this_chain(chain):
    packet = packet_for(keypair("bob").raw_public_key())
    assert code(oft.UNAUTHORIZED) in verify(chain, packet, by=RELAYER, run="refused")
    elsewhere = packet_for(keypair("bob").raw_public_key(), dst_eid=30184)
    assert code(oft.UNSUPPORTED_EID) in verify(chain, elsewhere, run="refused")


def test_packet_of_unknown_peer_is_not_delivered(chain, relayer):
    bob = chain.open("bob", usdt0=0)
    forged = packet_for(bob.raw_public_key(), sender=b"\x66" * 32)
    verify(chain, forged, run="invoke")
    assert code(oft.ONLY_PEER) in deliver(chain, relayer, forged, run="refused")


def test_altered_message_is_not_delivered(chain, relayer):
    bob, carol = chain.open("bob", usdt0=0), chain.open("carol", usdt0=0)
    packet = packet_for(bob.raw_public_key())
    verify(chain, packet, run="invoke")
    altered = oft_message(carol.raw_public_key(), 1_000_000)
    error = deliver(chain, relayer, packet, message=altered, run="refused")
    assert code(oft.PAYLOAD_NOT_FOUND) in error
