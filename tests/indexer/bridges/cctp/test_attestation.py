"""Attestations are accepted exactly where the destination's contract accepts them."""

import json
from pathlib import Path

import pytest
from eth_keys.datatypes import PrivateKey
from eth_utils.crypto import keccak

from indexer.bridges.cctp.attestation import check_signatures
from indexer.bridges.cctp.message import source_bytes
from indexer.config.networks import load_network
from indexer.errors import Undecodable
from warehouse_schema.identifiers import EvmAddress

GOLDEN = Path(__file__).parents[3] / "golden" / "cctp"
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
MESSAGE = b"a message" * 50
KEYS = sorted(
    (PrivateKey(bytes([n]) * 32) for n in (1, 2, 3)),
    key=lambda key: key.public_key.to_address(),
)
ADDRESSES = [EvmAddress(key.public_key.to_address()) for key in KEYS]


def sign(*keys: PrivateKey, message: bytes = MESSAGE) -> bytes:
    return b"".join(_signature(key, message) for key in keys)


def _signature(key: PrivateKey, message: bytes) -> bytes:
    signature = key.sign_msg_hash(keccak(message))
    r, s = signature.r.to_bytes(32, "big"), signature.s.to_bytes(32, "big")
    return r + s + bytes([27 + signature.v])


def with_high_s(signature: bytes) -> bytes:
    """The other signature of the same key and message."""
    s = ORDER - int.from_bytes(signature[32:64], "big")
    return signature[:32] + s.to_bytes(32, "big") + bytes([55 - signature[64]])


def refusal(attestation: bytes, trusted: list[EvmAddress] = ADDRESSES) -> str | None:
    return check_signatures(MESSAGE, attestation, trusted, 2).refusal


def recorded() -> list[tuple[bytes, bytes]]:
    answers = [
        json.loads((GOLDEN / "attested-messages.json").read_text()),
        json.loads((GOLDEN / "service-answer-arc-testnet.json").read_text())["response"],
        json.loads((GOLDEN / "service-answer-forwarded-testnet.json").read_text()),
    ]
    return [
        (bytes.fromhex(item["message"][2:]), bytes.fromhex(item["attestation"][2:]))
        for answer in answers
        for item in answer["messages"]
        if "attestation" in item
    ]


@pytest.mark.parametrize(("message", "attestation"), recorded())
def test_recorded_attestations_are_by_testnet_attesters(message: bytes, attestation: bytes) -> None:
    testnet = load_network("testnet")
    signing = check_signatures(
        message, attestation, testnet.attesters, testnet.attestation_threshold
    )
    assert (signing.refusal, signing.attesters) == (None, testnet.attesters)


def test_testnet_attesters_equal_the_recorded_ones() -> None:
    named = json.loads((GOLDEN / "attesters.json").read_text())["testnet"]
    assert list(load_network("testnet").attesters) == named


@pytest.mark.parametrize("name", ["mainnet"])
def test_no_configured_attesters_refuse_any_attestation(name: str) -> None:
    network = load_network(name)
    (message, attestation), *_ = recorded()
    signing = check_signatures(
        message, attestation, network.attesters, network.attestation_threshold
    )
    assert signing.refusal is not None
    assert "names no attesters" in signing.refusal
    assert len(signing.attesters) == 2


def test_two_trusted_signatures_in_order_are_accepted() -> None:
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert refusal(sign(KEYS[first], KEYS[second])) is None


@pytest.mark.parametrize(
    ("attestation", "reason"),
    [
        (sign(KEYS[1], KEYS[0]), "not strictly ascending"),
        (sign(KEYS[0], KEYS[0]), "not strictly ascending"),
        (sign(KEYS[0]), "1 attesters signed; it takes 2"),
        (sign(*KEYS), "3 attesters signed; it takes 2"),
        (sign(KEYS[0]) + with_high_s(sign(KEYS[1])), "high s"),
        (sign(KEYS[0]) * 17, "longer than any can be"),
        (b"", "not of whole signatures"),
        (sign(KEYS[0], KEYS[1])[:-1], "not of whole signatures"),
        (sign(KEYS[0], KEYS[1])[:-1] + b"\x00", "v 0"),
        (bytes(64) + b"\x1b" + sign(KEYS[1]), "cannot be"),
    ],
)
def test_attestation_invalid_on_chain_is_refused(attestation: bytes, reason: str) -> None:
    found = refusal(attestation)
    assert found is not None
    assert reason in found


def test_unknown_attester_is_refused() -> None:
    found = refusal(sign(KEYS[0], KEYS[1]), trusted=[ADDRESSES[0], ADDRESSES[2]])
    assert found is not None
    assert ADDRESSES[1] in found


def test_signatures_of_another_message_have_unknown_signers() -> None:
    found = refusal(sign(KEYS[0], KEYS[1], message=MESSAGE + b"!"))
    assert found is not None


def test_high_s_recovers_the_same_signer_and_is_refused() -> None:
    attestation = with_high_s(sign(KEYS[0])) + sign(KEYS[1])
    signing = check_signatures(MESSAGE, attestation, ADDRESSES, 2)
    assert signing.attesters == tuple(ADDRESSES[:2])
    assert signing.refusal is not None


def test_foreign_attested_message_loses_only_header_fields() -> None:
    (burn, _), *_ = recorded()
    foreign = burn[:148] + b"somebody's own body"
    emitted = source_bytes(foreign)
    assert emitted[12:44] == bytes(32)
    assert emitted[144:148] == bytes(4)
    assert emitted[148:] == foreign[148:]
    assert (emitted[:12], emitted[44:144]) == (foreign[:12], foreign[44:144])


def test_malformed_message_has_no_source_bytes() -> None:
    with pytest.raises(Undecodable):
        source_bytes(b"short")
