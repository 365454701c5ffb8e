"""Columnar decoding against `decode`: equal events, or the log is left to `decode`."""

import json
import random
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from indexer.chains.events import Event
from indexer.chains.evm.abi import topic_of
from indexer.chains.evm.history import logs_from_frame
from indexer.chains.raw import EvmLog
from indexer.config.networks import EvmChain
from indexer.decode.columns import PROVENANCE, decode_columns, evm_layouts
from indexer.decode.evm import DECODERS, decode, event_topics
from indexer.errors import Undecodable
from indexer.facts.rows import EVENT_MAPPINGS, EVENT_TYPES
from tests.conftest import GOLDEN
from tests.factories.evm_logs import log_frame
from tests.indexer.decode.test_evm import (
    DEPOSIT_FOR_BURN,
    MESSAGE_RECEIVED,
    MINT_AND_WITHDRAW,
    OFT_RECEIVED,
    OFT_SENT,
    PACKET_DELIVERED,
    PACKET_SENT,
    PACKET_VERIFIED,
    REFUNDED,
    ROUTER,
    STELLAR_OFT,
    TRANSFER,
    USER,
    arc_testnet,
    changed,
    ethereum,
    make_alert,
    make_burn,
    make_log,
    make_message,
    make_message_sent,
    make_packet,
    make_packet_sent,
    make_seen,
    recorded,
    recorded_endpoint,
    recorded_log,
    sepolia,
    tail,
    topic,
    with_oft,
    word,
)

LAYOUTS = evm_layouts()

# What is compared


def rows_of(events: Iterable[Event]) -> list[tuple[str, tuple[Any, ...]]]:
    """Events as their tables' rows, in the text that the columns give."""
    return sorted(
        (type(each).__name__, tuple(map(as_text, EVENT_MAPPINGS[type(each)].row(each))))
        for each in events
    )


def as_text(value: Any) -> Any:
    return "0x" + value.hex() if isinstance(value, bytes) else value


def columnar_rows(logs: list[EvmLog], chain: EvmChain) -> list[tuple[str, tuple[Any, ...]]]:
    decoded = decode_columns(log_frame(logs), chain)
    for name, frame in decoded.events.items():
        shelf = EVENT_MAPPINGS[EVENT_TYPES[name]]
        assert frame.columns == [column.name for column in shelf.columns]
    return sorted(
        (name, row) for name, frame in decoded.events.items() for row in frame.iter_rows()
    )


def left_of(logs: list[EvmLog], chain: EvmChain) -> list[EvmLog]:
    return list(logs_from_frame(decode_columns(log_frame(logs), chain).undecided, chain.id))


def assert_the_same(logs: list[EvmLog], chain: EvmChain) -> None:
    """Columns and what they leave, decoded one by one, are what all logs one by one are."""
    placed = [changed(log, seen=make_seen(number, chain.id)) for number, log in enumerate(logs)]
    left = left_of(placed, chain)
    taken = [log for log in placed if log not in left]
    events = [decode(log, chain) for log in taken]
    kept = [event for event in events if event is not None]
    assert columnar_rows(placed, chain) == rows_of(kept)
    names = {
        log.seen.position: type(event).__name__
        for log, event in zip(taken, events, strict=True)
        if event
    }
    decided = decode_columns(log_frame(placed), chain).decided
    assert [names.get(n) for n in decided["position"]] == decided["event"].to_list()
    assert decided["position"].to_list() == [log.seen.position for log in taken]


# Genuine logs


def genuine() -> Iterator[tuple[EvmLog, EvmChain]]:
    burn = recorded("evm", "sepolia-deposit-for-burn.json")["log"]
    yield recorded_log(burn, sepolia(), sepolia().cctp_token_messenger), sepolia()
    for entry in recorded("evm", "arc-testnet-receipt.json")["receipt"]["logs"]:
        yield recorded_log(entry, arc_testnet()), arc_testnet()
    for entry in recorded("lz", "endpoint-and-oft-logs.json"):
        for application in (
            "0x06eb48763f117c7be887296cdcdfad2e4092739c",
            "0xcee9b58c2cdb01b8bf75a27e96ec09bf885ef55a",
            entry.get("address", "0x" + "0d" * 20),
        ):
            chain = recorded_endpoint(application)
            yield recorded_log(entry, chain, application), chain
    local = with_oft(
        "0x0165878a594ca255338adfa4d48449f69242eb8f",
        eid=30101,
        endpoint="0x5fbdb2315678afecb367f032d93f642f64180aa3",
        token="0x5fc8d32690cc91d4c39d9d3abcbd16989f875707",
    )
    receipts = json.loads((GOLDEN / "evm" / "local-oft-receipts.synthetic.json").read_text())
    for step in ("send", "verify", "receive"):
        for entry in receipts[step]["logs"]:
            yield recorded_log(entry, local), local


def test_recorded_logs_decode_as_one_by_one():
    found = list(genuine())
    assert len(found) > 25
    for log, chain in found:
        assert_the_same([log], chain)


def test_every_own_recorded_event_is_decided():
    for log, chain in genuine():
        if decode(log, chain) is not None:
            assert left_of([log], chain) == []


# Made logs


def made(chain: EvmChain) -> dict[str, EvmLog]:
    """One log in order of every event that has a layout, and what else the contracts say."""
    origin = word(30600) + word(STELLAR_OFT) + word(12)
    body = make_message(chain)[148:]
    received = word(2) + word("0x" + "77" * 32) + word(0x60) + tail(body)
    return {
        DEPOSIT_FOR_BURN: make_burn(chain),
        MINT_AND_WITHDRAW: make_log(
            chain.cctp_token_messenger,
            MINT_AND_WITHDRAW,
            topic(USER),
            topic(str(chain.usdc)),
            data=word(7) + word(1),
        ),
        "MessageSent(bytes)": make_message_sent(chain, make_message(chain)),
        MESSAGE_RECEIVED: make_log(
            chain.cctp_message_transmitter,
            MESSAGE_RECEIVED,
            topic(USER),
            topic("0x" + "99" * 32),
            topic(2000),
            data=received,
        ),
        OFT_SENT: make_log(
            chain.oft,
            OFT_SENT,
            topic("0x" + "1d" * 32),
            topic(USER),
            data=word(30600) + word(5) * 2,
        ),
        OFT_RECEIVED: make_log(
            chain.oft,
            OFT_RECEIVED,
            topic("0x" + "1e" * 32),
            topic(USER),
            data=word(30600) + word(5),
        ),
        PACKET_SENT: make_packet_sent(chain, make_packet(chain)),
        PACKET_VERIFIED: make_log(
            chain.lz_endpoint, PACKET_VERIFIED, data=origin + word(str(chain.oft)) + b"\x66" * 32
        ),
        PACKET_DELIVERED: make_log(
            chain.lz_endpoint, PACKET_DELIVERED, data=origin + word(str(chain.oft))
        ),
        REFUNDED: make_log(
            chain.deposit_factory,
            REFUNDED,
            topic(ROUTER),
            topic(str(chain.usdc)),
            data=word(USER) + word(5),
        ),
        TRANSFER: make_log(chain.usdt0, TRANSFER, topic(USER), topic(ROUTER), data=word(5)),
    }


def test_every_layout_has_a_tested_decoder():
    signatures = {signature for layouts in LAYOUTS.values() for signature in layouts}
    assert signatures == set(made(ethereum()))
    for role, layouts in LAYOUTS.items():
        assert set(layouts) <= set(DECODERS[role])


def test_every_log_is_decoded_by_columns():
    logs = list(made(ethereum()).values())
    assert_the_same(logs, ethereum())
    assert left_of(logs, ethereum()) == []
    assert len(columnar_rows(logs, ethereum())) == len(logs)


def test_log_order_is_preserved():
    logs = [changed(log, seen=make_seen(n)) for n, log in enumerate(made(ethereum()).values())]
    decoded = decode_columns(log_frame(logs), ethereum())
    assert decoded.decided["position"].to_list() == list(range(len(logs)))
    assert set(decoded.events[next(iter(decoded.events))].columns) >= set(PROVENANCE)
    empty = decode_columns(log_frame([]), ethereum())
    assert (empty.events, empty.decided.height, empty.undecided.height) == ({}, 0, 0)


@pytest.mark.parametrize("hook", [b"", b"x", b"y" * 31, b"z" * 33, bytes(200)])
def test_hook_data_of_any_length_is_read(hook: bytes):
    log = make_burn(ethereum(), hook=hook)
    assert_the_same([log], ethereum())
    assert left_of([log], ethereum()) == []


@pytest.mark.parametrize(
    "message",
    [
        make_message(ethereum()),
        make_message(ethereum(), sender=ROUTER),
        make_message(ethereum(), body=b""),
        make_message(ethereum(), body=b"hello"),
        make_message(ethereum(), body=bytes(300)),
        make_message(ethereum(), body=(1).to_bytes(4, "big") + bytes(223)),
        make_message(ethereum(), body=(1).to_bytes(4, "big") + b"\xab" * 224),
        make_message(sepolia())[:-1],
    ],
    ids=["burn", "stranger", "empty", "short", "no-version", "one-short", "no-hook", "cut"],
)
def test_all_message_kinds_decode_to_equal_rows(message: bytes):
    assert_the_same([make_message_sent(ethereum(), message)], ethereum())


@pytest.mark.parametrize("size", [0, 12, 44, 45, 112, 300])
def test_foreign_packets_are_ignored(size: int):
    log = make_packet_sent(ethereum(), b"\x07" * size)
    assert_the_same([log], ethereum())
    assert columnar_rows([log], ethereum()) == []


def test_refund_of_unknown_token_is_ignored():
    chain = ethereum()
    data = word(USER) + word(5)
    tokens = (ROUTER, "0x" + "00" * 20)
    logs = [
        make_log(chain.deposit_factory, REFUNDED, topic(ROUTER), topic(token), data=data)
        for token in tokens
    ]
    assert_the_same(logs, chain)
    assert columnar_rows(logs, chain) == left_of(logs, chain) == []


def test_malformed_logs_are_undecided():
    chain = ethereum()
    wrong = [
        make_burn(chain, offset=0xE1),
        make_burn(chain, destination_domain=2**32),
        make_burn(chain, amount=2**128),
        make_message_sent(chain, make_message(sepolia(), sender=ROUTER)[:140]),
        make_packet_sent(chain, make_packet(chain, src_eid=30102)),
        make_packet_sent(chain, make_packet(chain)[:-1]),
        make_packet_sent(chain, make_packet(chain)[:81] + b"\x01" * 72),
        make_log(chain.usdt0, TRANSFER, topic(USER), data=word(5)),
        make_log(chain.usdt0, TRANSFER, topic(2**160), topic(USER), data=word(5)),
        make_log(chain.oft, OFT_SENT, topic(1), topic(USER), data=word(1) * 2),
        make_alert(chain, chain.oft),
        make_log(chain.oft, "Unknown(uint256)", data=word(1)),
        EvmLog(make_seen(), make_burn(chain).address, (), b""),
    ]
    assert left_of(wrong, chain) == wrong


def test_every_wanted_event_has_a_layout():
    on_purpose = {
        topic_of(signature)
        for role, decoders in DECODERS.items()
        for signature in set(decoders) - set(LAYOUTS.get(role, {}))
    }
    assert len(on_purpose) == 4
    reachable = {first for firsts in event_topics(ethereum()).values() for first in firsts}
    assert on_purpose <= reachable


# Random logs


def mutated(log: EvmLog, dice: random.Random) -> EvmLog:
    """The log with something about it changed, mostly so that it is no longer in order."""
    data, topics = bytearray(log.data), list(log.topics)
    match dice.randrange(9):
        case 0:
            data = data[: dice.randrange(len(data) + 1)]
        case 1:
            data += dice.randbytes(dice.randrange(1, 80))
        case 2 | 3:
            at = dice.randrange(0, len(data), 32)
            kept = dice.choice((0, 4, 8, 12, 16, 20, 28, 31))
            data[at + kept : at + 32] = dice.randbytes(len(data[at + kept : at + 32]))
        case 4:
            at = dice.randrange(0, len(data), 32)
            data[at : at + 32] = word(dice.choice((0, 1, 32, 2**31, 2**64 - 1, 2**128, 2**256 - 1)))
        case 5:
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        case 6:
            topics.insert(dice.randrange(1, len(topics) + 1), topic(dice.randrange(2**160)))
        case 7 if len(topics) > 1:
            topics.pop()
        case _ if len(topics) > 1:
            bits = dice.choice((8, 32, 33, 160, 161, 256))
            topics[dice.randrange(1, len(topics))] = topic(dice.getrandbits(bits))
        case _:
            pass
    return changed(log, topics=tuple(topics), data=bytes(data))


@pytest.mark.parametrize("seed", range(4))
def test_columnar_decoding_equals_single_logs(seed: int):
    dice = random.Random(seed)
    models = list(made(ethereum()).values())
    logs = [mutated(dice.choice(models), dice) for _ in range(1500)]
    assert_the_same(logs, ethereum())
    placed = [changed(log, seen=make_seen(number)) for number, log in enumerate(logs)]
    left = left_of(placed, ethereum())
    assert 100 < len(left) < len(placed) - 100
    for log in left:
        try:
            decode(log, ethereum())
        except Undecodable:
            break
    else:
        pytest.fail("none of the logs left was undecodable: the dice are too kind")
