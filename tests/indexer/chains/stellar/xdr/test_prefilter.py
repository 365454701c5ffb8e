"""Prefilter of ledgers: every ledger with a wanted event is a hit."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stellar_sdk import StrKey, scval, xdr

from indexer.chains.stellar.filters import requested_events
from indexer.chains.stellar.xdr.close_meta import decode_ledger
from indexer.chains.stellar.xdr.prefilter import accounts_in, names_contract
from tests.factories.stellar_events import account, contract
from tests.factories.stellar_lake import (
    DEVNET,
    history_metas,
    recorded_raws,
    watched_accounts,
)
from tests.factories.stellar_ledgers import HEIGHTS
from tests.factories.stellar_recorded import PUBNET

ACCOUNTS = st.binary(min_size=32, max_size=32).map(StrKey.encode_ed25519_public_key)


def test_recorded_ledgers_match_no_contract_of_ours() -> None:
    for height in HEIGHTS:
        assert not names_contract(recorded_raws()[height], PUBNET)


def test_token_alone_is_no_needle() -> None:
    raw = recorded_raws()[63092990]
    assert StrKey.decode_contract(PUBNET.usdc_contract) in raw
    assert not names_contract(raw, PUBNET)


def test_wanted_event_makes_a_recorded_ledger_a_hit() -> None:
    raw = recorded_raws()[63092990]
    events = decode_ledger(raw, PUBNET.id, PUBNET.passphrase)[0].events
    accounts = {
        scval.from_address(xdr.SCVal.from_xdr_bytes(topic)).address
        for event in events
        if event.contract == PUBNET.usdc_contract
        for topic in event.topics[1:-1]
    }
    accounts = {each for each in accounts if each.startswith("G")}
    assert len(accounts) > 5
    assert accounts <= accounts_in(raw)
    for event in events:
        chain = dataclasses.replace(PUBNET, escrow=event.contract)
        assert names_contract(raw, chain)


def test_devnet_ledger_with_wanted_event_is_a_hit() -> None:
    watched = {*DEVNET.watched, *watched_accounts()}
    hits = {
        raw: bool(
            requested_events(
                DEVNET, watched, decode_ledger(raw, DEVNET.id, DEVNET.passphrase)[0].events
            )
        )
        for raw in history_metas()
    }

    def is_hit(raw: bytes) -> bool:
        return names_contract(raw, DEVNET) or not watched.isdisjoint(accounts_in(raw))

    assert all(is_hit(raw) for raw, wanted in hits.items() if wanted)
    assert 0 < sum(hits.values()) <= sum(map(is_hit, hits)) < len(hits)


@settings(max_examples=300)
@given(
    address=ACCOUNTS,
    before=st.binary(max_size=40),
    between=st.sampled_from([b"", bytes(3), b"\0\0\0\x12" + bytes(8), b"\x12" + bytes(8)]),
    after=st.binary(max_size=8),
)
def test_account_is_found_behind_any_bytes(
    address: str, before: bytes, between: bytes, after: bytes
) -> None:
    value = scval.to_address(address).to_xdr_bytes()
    assert address in accounts_in(before + between + value + after)
    assert address not in accounts_in(before + between + value[:-1])


@pytest.mark.parametrize("first", [b"\x12" + bytes(31), bytes(31) + b"\x12", bytes(32)])
def test_adjacent_addresses_are_both_found(first: bytes) -> None:
    lead = scval.to_address(account("a")).to_xdr_bytes()[:-32]
    watched = account("b")
    raw = lead + first + scval.to_address(watched).to_xdr_bytes()
    assert watched in accounts_in(raw)
    assert watched in accounts_in(lead[:-1] + first[:2] + raw)


def test_only_accounts_in_values_are_found() -> None:
    # Accounts pay fees and hold trustlines in most ledgers; only an event's topic matters.
    watched = account("a")
    key = StrKey.decode_ed25519_public_key(watched)
    assert accounts_in(bytes(8) + key) == set()


def test_search_stays_within_its_ledger() -> None:
    value = scval.to_address(account("a")).to_xdr_bytes()
    chain = dataclasses.replace(DEVNET, escrow=contract("e"))
    needle = value + StrKey.decode_contract(contract("e"))
    raw = bytes(50) + needle + bytes(50)
    assert names_contract(raw, chain, 50, 50 + len(needle))
    assert accounts_in(raw, 50, 50 + len(needle)) == {account("a")}
    assert not names_contract(raw, chain, 0, 50 + len(value) - 1)
    assert accounts_in(raw, 0, 50 + len(value) - 1) == set()
    assert not names_contract(raw, chain, 50 + len(needle) - 20, len(raw))
