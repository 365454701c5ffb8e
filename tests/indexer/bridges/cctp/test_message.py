import json
from typing import Any

import pytest
from eth_utils.crypto import keccak

from indexer.bridges.cctp.attestation import recover_attesters
from indexer.bridges.cctp.message import (
    BurnMessage,
    CctpMessage,
    attestation_digest,
    burn_key,
    forward_recipient,
    parse_burn_body,
    parse_message,
    source_bytes,
    transfer_tag,
)
from indexer.errors import Undecodable
from tests.conftest import GOLDEN
from tests.indexer.test_addresses import MUXED as MUXED_CONTRACT
from warehouse_schema.identifiers import BaseUnits, Bytes32

ATTESTERS = [
    "0x49fd63506e0d88e07511ad95bae7b2a31af98b28",
    "0x8867a67cda4bc788c6e819baeaec60b867865287",
]
"""Enabled on the testnets when the messages were attested."""
ACCOUNT = "GAMNA2Q6NTZSUBLMEXLTIXYORE7OXJJBMEGIX7T2OXDAKIA7CCKN4RJV"
CONTRACT = "CAE2G5Z77UP7GYPYGFOWFGW7C7J6I4YP2AFGSADRKQY62SYUFLPNFTXL"
MUXED = "MA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJUAAAAAAAAAAAACJUQ"
"""The muxed example of SEP-23."""
TAG = bytes(range(16))


def golden(name: str) -> Any:
    return json.loads((GOLDEN / "cctp" / name).read_text())


def raw(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def attested() -> dict[str, bytes]:
    entries = golden("attested-messages.json")["messages"]
    return {entry["id"]: raw(entry["message"]) for entry in entries}


def service_answers() -> list[dict[str, Any]]:
    first = golden("service-answer-arc-testnet.json")["response"]["messages"]
    second = golden("service-answer-forwarded-testnet.json")["messages"]
    return [*first, *second]


def every_message() -> list[bytes]:
    return [*attested().values(), *(raw(answer["message"]) for answer in service_answers())]


def signed() -> list[tuple[bytes, bytes]]:
    entries = [*golden("attested-messages.json")["messages"], *service_answers()]
    return [
        (raw(entry["message"]), raw(entry["attestation"]))
        for entry in entries
        if "attestation" in entry
    ]


def make_hook(
    recipient: str = ACCOUNT, *, version: int = 0, length: int | None = None, rest: bytes = b""
) -> bytes:
    strkey = recipient.encode()
    stated = len(strkey) if length is None else length
    return bytes(24) + version.to_bytes(4, "big") + stated.to_bytes(4, "big") + strkey + rest


def short(word: str) -> str:
    """As Circle's service writes a field: an EVM address where the upper bytes are zero."""
    is_address = word[2:26] == "0" * 24 and word[26:] != "0" * 40
    return "0x" + word[26:] if is_address else word


# Reading


def test_message_parses_as_by_the_attestation_service():
    for answer in service_answers():
        message, theirs = parse_message(raw(answer["message"])), answer["decodedMessage"]
        assert message.source_domain == int(theirs["sourceDomain"])
        assert message.destination_domain == int(theirs["destinationDomain"])
        assert message.nonce == theirs["nonce"] == answer["eventNonce"]
        assert short(message.sender) == theirs["sender"]
        assert short(message.recipient) == theirs["recipient"]
        # The service writes a zero word as a zero address.
        assert int(message.destination_caller, 16) == int(theirs["destinationCaller"], 16)
        assert message.min_finality_threshold == int(theirs["minFinalityThreshold"])
        assert message.finality_threshold_executed == int(theirs["finalityThresholdExecuted"])
        assert message.raw_body == raw(theirs["messageBody"])


def test_burn_body_parses_as_by_the_attestation_service():
    for answer in service_answers():
        body = parse_message(raw(answer["message"])).body
        theirs = answer["decodedMessage"]["decodedMessageBody"]
        assert body is not None
        assert short(body.burn_token) == theirs["burnToken"]
        assert short(body.mint_recipient) == theirs["mintRecipient"]
        assert body.amount == int(theirs["amount"])
        assert short(body.message_sender) == theirs["messageSender"]
        assert body.max_fee == int(theirs["maxFee"])
        assert body.fee_executed == int(theirs["feeExecuted"])
        assert body.expiration_block == int(theirs["expirationBlock"])
        assert body.hook_data == raw(theirs["hookData"])


def test_fast_stellar_burn_has_fee_expiration_and_recipient():
    message = parse_message(attested()["base-to-stellar-mainnet-fast"])
    assert (message.source_domain, message.destination_domain) == (6, 27)
    assert message.finality_threshold_executed == 1000
    assert message.body == BurnMessage(
        burn_token=Bytes32("0x000000000000000000000000833589fcd6edb6e08f4c7c32d4f71b54bda02913"),
        mint_recipient=Bytes32(
            "0x72bd20ff2f8281801bb05b7c29179026933256fabafeb13e94efd8ddbcfcf291"
        ),
        amount=BaseUnits(79_784_024),
        message_sender=Bytes32(
            "0x000000000000000000000000ea258496a9311ffe29cdf920ca0e8bb4b41c9f04"
        ),
        max_fee=BaseUnits(12_445),
        fee_executed=BaseUnits(10_371),
        expiration_block=0x03D9A2AB,
        hook_data=make_hook(ACCOUNT),
    )


def test_message_of_other_protocol_has_no_burn_body():
    message = attested()["base-to-stellar-mainnet-fast"]
    assert parse_message(message[:148]).body is None
    assert parse_message(message[:148] + b"hello").raw_body == b"hello"
    assert parse_burn_body(bytes(300)) is None
    assert parse_burn_body(message[148 : 148 + 227]) is None


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "has 0 bytes"),
        (bytes(147), "has 147 bytes"),
        (bytes(148), "has version 0"),
        (b"\0\0\0\2" + bytes(400), "has version 2"),
    ],
)
def test_non_v2_message_is_undecodable(message, reason):
    with pytest.raises(Undecodable, match=reason):
        parse_message(message)


# One transfer, two chains


def test_source_bytes_have_four_ranges_zeroed():
    filled = {*range(12, 44), *range(144, 148), *range(312, 376)}
    for message in every_message():
        source = source_bytes(message)
        assert len(source) == len(message)
        assert all(byte == 0 for i, byte in enumerate(source) if i in filled)
        assert all(byte == message[i] for i, byte in enumerate(source) if i not in filled)
        body = parse_message(source).body
        assert body is not None
        assert (body.fee_executed, body.expiration_block) == (0, 0)
        assert source_bytes(source) == source


def test_burn_and_its_mint_have_the_same_key():
    for message in every_message():
        here, there = parse_message(source_bytes(message)), parse_message(message)
        assert key_of(here) == key_of(there) is not None


def test_burn_key_hashes_domains_sender_and_source_body():
    message = attested()["base-to-stellar-mainnet-fast"]
    body = bytearray(message[148:])
    body[164:228] = bytes(64)
    expected = keccak(message[4:12] + message[44:76] + bytes(body))
    assert key_of(parse_message(message)) == "0x" + expected.hex()


def test_different_burns_have_different_keys():
    assert len({key_of(parse_message(message)) for message in every_message()}) == 6
    parsed = parse_message(every_message()[0])
    key = key_of(parsed)
    assert key != burn_key(7, parsed.destination_domain, parsed.sender, parsed.raw_body)
    assert key != burn_key(parsed.source_domain, 28, parsed.sender, parsed.raw_body)
    assert key != burn_key(6, 27, parsed.recipient, parsed.raw_body)


def test_message_without_burn_has_no_key():
    assert burn_key(6, 27, Bytes32("0x" + "11" * 32), b"hello") is None
    assert burn_key(6, 27, Bytes32("0x" + "11" * 32), bytes(300)) is None


def key_of(message: CctpMessage) -> Bytes32 | None:
    return burn_key(
        message.source_domain, message.destination_domain, message.sender, message.raw_body
    )


# Hook data


def test_recorded_hook_data_names_its_recipient():
    recipients = {}
    for name, message in attested().items():
        body = parse_message(message).body
        assert body is not None
        recipients[name] = forward_recipient(body.hook_data)
    assert recipients == {
        "base-to-stellar-mainnet-fast": ACCOUNT,
        "stellar-to-arbitrum-mainnet-circle-forwarded": None,
        "base-sepolia-to-stellar-testnet-fast": (
            "GCU6CR7T7CNIFBFRAKALLG46FYHMCNRRGW5I55NE5MY6RDHXLUXXXB22"
        ),
        "base-sepolia-to-stellar-testnet-malformed-hook": None,
    }


@pytest.mark.parametrize("recipient", [ACCOUNT, CONTRACT, MUXED])
def test_every_kind_of_recipient_is_read(recipient):
    assert forward_recipient(make_hook(recipient)) == recipient
    assert forward_recipient(make_hook(recipient, rest=TAG)) == recipient
    relayed = b"cctp-forward".ljust(24, b"\0") + make_hook(recipient)[24:]
    assert forward_recipient(relayed) == recipient


@pytest.mark.parametrize(
    "hook",
    [
        b"",
        bytes(31),
        make_hook(version=1),
        make_hook(length=57),
        make_hook(length=55),
        make_hook(length=2**32 - 1),
        make_hook(ACCOUNT[:-1] + "W"),
        make_hook(ACCOUNT.lower()),
        make_hook("0x" + "11" * 27),
        make_hook("é" * 28),
        make_hook(""),
        make_hook(MUXED_CONTRACT),
    ],
    ids=[
        *("nothing", "short", "version", "too long", "cut", "huge"),
        *("checksum", "case", "evm", "not ascii", "empty", "muxed contract"),
    ],
)
def test_hook_data_refused_by_forwarder_has_no_recipient(hook):
    assert forward_recipient(hook) is None


def test_tag_is_16_bytes_after_the_recipient():
    assert transfer_tag(make_hook(rest=TAG)) == TAG
    assert transfer_tag(make_hook(MUXED, rest=TAG)) == TAG
    assert transfer_tag(make_hook()) is None
    assert transfer_tag(make_hook(rest=TAG + b"\0")) is None
    assert transfer_tag(make_hook(rest=TAG[:-1])) is None


def test_tag_is_the_whole_hook_data_towards_evm():
    assert transfer_tag(TAG) == TAG
    assert transfer_tag(TAG[:-1]) is None
    assert transfer_tag(b"") is None


# Attestations


def test_recorded_attestations_are_by_known_attesters():
    assert len(signed()) == 3
    for message, attestation in signed():
        assert recover_attesters(message, attestation) == ATTESTERS


def test_attestation_covers_attested_bytes_not_source_bytes():
    message, attestation = signed()[0]
    assert attestation_digest(message) == keccak(message)
    assert not set(ATTESTERS) & set(recover_attesters(source_bytes(message), attestation))


@pytest.mark.parametrize(
    ("attestation", "reason"),
    [
        (b"", "0 bytes"),
        (bytes(64), "64 bytes"),
        (bytes(131), "131 bytes"),
        (bytes(65), "v 0"),
        (bytes(64) + b"\x1d", "v 29"),
        (b"\xff" * 64 + b"\x1b", "cannot be"),
        (bytes(64) + b"\x1b", "cannot be"),
    ],
)
def test_malformed_attestation_is_refused(attestation, reason):
    with pytest.raises(ValueError, match=reason):
        recover_attesters(b"message", attestation)
