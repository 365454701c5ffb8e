"""Columnar decoding of Stellar events against `decode`: equal, or the event is left to `decode`."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from stellar_sdk import StrKey, scval, xdr

from indexer.addresses import asset_contract
from indexer.chains.raw import StellarEvent
from indexer.chains.stellar.event_columns import events_from_frame
from indexer.config.networks import StellarChain
from indexer.decode.columns import decode_columns, stellar_layouts
from indexer.decode.stellar import DECODERS, decode
from indexer.errors import Undecodable
from indexer.facts.rows import EVENT_MAPPINGS, EVENT_TYPES
from tests.factories.stellar_events import (
    account,
    contract,
    event_frame,
    make_asset_event,
    make_escrow_event,
    make_stellar_event,
)
from tests.factories.stellar_recorded import TESTNET
from warehouse_schema.identifiers import AssetId

ISSUER = account("issuer")
CHAIN = replace(
    TESTNET,
    usdt0=AssetId(f"stellar:USDT0:{ISSUER}"),
    usdt0_contract=asset_contract("USDT0", ISSUER, TESTNET.passphrase),
)
USDC = CHAIN.usdc.removeprefix("stellar:")
ALICE, BOB = account("alice"), account("bob")
PARTIES = (
    *(ALICE, BOB, contract("wallet"), contract("pool")),
    StrKey.encode_med25519_public_key(bytes(40)),
    StrKey.encode_claimable_balance(bytes(33)),
    StrKey.encode_liquidity_pool(bytes(32)),
)
FIVE = scval.to_int128(5)


def transfer(data: xdr.SCVal = FIVE, *parties: str, **given: Any) -> StellarEvent:
    event = {"asset": USDC, "emitter": CHAIN.usdc_contract, "chain": CHAIN.id, **given}
    return make_asset_event("transfer", *(parties or (ALICE, BOB)), data=data, **event)


def moved(amount: int, **fields: xdr.SCVal) -> xdr.SCVal:
    entries = {"amount": scval.to_int128(amount), **fields}
    return scval.to_map({scval.to_symbol(name): each for name, each in entries.items()})


def placed(events: Iterable[StellarEvent]) -> list[StellarEvent]:
    """The events, each at a place of its own."""
    return [
        replace(
            event,
            seen=replace(event.seen, chain=CHAIN.id, position=number),
            event_id=f"{number:030d}",
        )
        for number, event in enumerate(events)
    ]


def assert_the_same(events: Iterable[StellarEvent], chain: StellarChain = CHAIN) -> int:
    """Columns, and what they leave, are what all one by one are. Returns how many they leave."""
    every = placed(events)
    found = decode_columns(event_frame(every), chain)
    left = list(events_from_frame(found.undecided, chain.id))
    taken = list(events_from_frame(found.decided, chain.id))
    assert sorted((*left, *taken), key=lambda event: event.seen.position) == every
    expected = [decode(event, chain) for event in taken]
    assert None not in expected
    assert [type(event).__name__ for event in expected] == found.decided["event"].to_list()
    for name, frame in found.events.items():
        mapping = EVENT_MAPPINGS[EVENT_TYPES[name]]
        assert frame.columns == [column.name for column in mapping.columns]
        assert [mapping.item(row) for row in frame.iter_rows()] == [
            event for event in expected if type(event).__name__ == name
        ]
    return len(left)


PLAIN = {
    "amount alone": transfer(),
    "nothing": transfer(scval.to_int128(0)),
    "large": transfer(scval.to_int128(2**124 - 1)),
    "with a muxed id": transfer(moved(5, to_muxed_id=scval.to_uint64(7))),
    "with the largest muxed id": transfer(
        moved(2**124 - 1, to_muxed_id=scval.to_uint64(2**64 - 1))
    ),
    "between contracts": transfer(FIVE, contract("wallet"), contract("pool")),
    "to itself": transfer(FIVE, ALICE, ALICE),
    "of USDT0": transfer(asset=f"USDT0:{ISSUER}", emitter=CHAIN.usdt0_contract),
}
LEFT = {
    "amount of 124 bits": transfer(scval.to_int128(2**124)),
    "largest amount": transfer(scval.to_int128(2**127 - 1)),
    "negative": transfer(scval.to_int128(-1)),
    "negative with a muxed id": transfer(moved(-1, to_muxed_id=scval.to_uint64(7))),
    "map of the amount alone": transfer(moved(5)),
    "muxed id that is void": transfer(moved(5, to_muxed_id=scval.to_void())),
    "muxed id that is text": transfer(moved(5, to_muxed_id=scval.to_string("memo"))),
    "muxed id that is bytes": transfer(moved(5, to_muxed_id=scval.to_bytes(bytes(32)))),
    "muxed id of another name": transfer(moved(5, to_muxed_ix=scval.to_uint64(7))),
    "map with more": transfer(moved(5, more=FIVE, to_muxed_id=scval.to_uint64(7))),
    "u64 amount": transfer(scval.to_uint64(5)),
    "text": transfer(scval.to_string("5")),
    "three topics": transfer(FIVE, ALICE),
    "five topics": transfer(FIVE, ALICE, BOB, ALICE),
    "other asset": transfer(asset=f"USDX:{ISSUER}"),
    "asset of the other token": transfer(asset=f"USDT0:{ISSUER}"),
    "name longer by a zero": transfer(asset=f"{USDC}\0"),
    "to a muxed account": transfer(FIVE, ALICE, PARTIES[4]),
    "from a liquidity pool": transfer(FIVE, PARTIES[6], ALICE),
    "mint": make_asset_event("mint", BOB, asset=USDC, emitter=CHAIN.usdc_contract, data=FIVE),
    "other contract": transfer(emitter=contract("foreign")),
    "escrow": make_escrow_event("deposit"),
    "no topics": make_stellar_event(CHAIN.usdc_contract, [], FIVE),
    "party that is no address": make_stellar_event(
        CHAIN.usdc_contract,
        [scval.to_symbol("transfer"), FIVE, scval.to_address(BOB), scval.to_string(USDC)],
        FIVE,
    ),
}


@pytest.mark.parametrize("event", PLAIN.values(), ids=PLAIN)
def test_plain_transfer_is_decoded_by_columns(event: StellarEvent) -> None:
    assert assert_the_same([event]) == 0


@pytest.mark.parametrize("event", LEFT.values(), ids=LEFT)
def test_other_event_is_left(event: StellarEvent) -> None:
    assert assert_the_same([event]) == 1


def test_many_events_keep_their_order() -> None:
    chosen = random.Random(7)
    events = chosen.choices([*PLAIN.values(), *LEFT.values()], k=500)
    assert 100 < assert_the_same(events) < 400
    assert assert_the_same([]) == 0


def test_asset_that_is_not_its_contracts_is_left() -> None:
    """Its contract's id is a setting: a forged one must not make columns trust a name."""
    chain = replace(CHAIN, usdc_contract=contract("forged"))
    event = placed([transfer(emitter=chain.usdc_contract)])
    assert assert_the_same(event, chain) == 1
    with pytest.raises(Undecodable, match="not its asset"):
        decode(event[0], chain)


def damaged(event: StellarEvent, chosen: random.Random) -> Iterator[StellarEvent]:
    """The event with a byte changed, added or missing in one of its parts."""
    for place in range(5):
        raw = event.value if place == 4 else event.topics[place]
        at = chosen.randrange(len(raw))
        for changed in (
            raw[:at] + bytes([raw[at] ^ (1 << chosen.randrange(8))]) + raw[at + 1 :],
            raw[:at] + raw[at + 1 :],
            raw + b"\0",
        ):
            topics = [changed if n == place else topic for n, topic in enumerate(event.topics)]
            value = changed if place == 4 else event.value
            yield replace(event, topics=tuple(topics), value=value)


@pytest.mark.parametrize("seed", range(20))
def test_damaged_transfer_is_never_decoded_otherwise(seed: int) -> None:
    """A changed byte gives another key or amount, as `decode` reads it, or is left to it."""
    chosen = random.Random(seed)
    for event in PLAIN.values():
        assert_the_same(damaged(event, chosen))


def test_parties_of_all_kinds() -> None:
    pairs = [(sender, recipient) for sender in PARTIES for recipient in PARTIES]
    assert assert_the_same(transfer(FIVE, *pair) for pair in pairs) == 7 * 7 - 4 * 4


def test_every_layout_has_a_tested_decoder() -> None:
    layouts = stellar_layouts()
    assert {role: {*names} for role, names in layouts.items()} == {
        "usdc_contract": {"transfer"},
        "usdt0_contract": {"transfer"},
    }
    for role, names in layouts.items():
        assert set(names) <= set(DECODERS[role])
