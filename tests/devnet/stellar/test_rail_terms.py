"""RailTerms contract: permissions, validation and emitted events."""

import pytest
from stellar_sdk import scval, xdr

from devnet.stellar.contracts import rail_terms
from tests.devnet.stellar.chain import UNIT, events
from tests.devnet.stellar.market import (
    ADMIN_KEY,
    AT,
    PAYEE,
    VERIFIER,
    Market,
    address,
    event,
    terms,
)


@pytest.fixture
def market():
    return Market()


def test_genesis_emits_rails_and_configuration(market):
    first = market.chain.node.ledger(2)
    names = [
        scval.from_symbol(row.topics[0])
        for row in first.events
        if row.contract in (AT.rail_terms, AT.escrow)
    ]
    assert names == ["rail_set"] * 6 + ["config_set"]
    venmo = next(
        row for row in first.events if row.topics[1:] == (scval.to_symbol("venmo").to_xdr(),)
    )
    data = scval.to_native(venmo.value)
    assert data["v"] == 1
    assert (data["enabled"], data["tier"], data["fee_bps"]) == (True, 2, 50)
    assert data["currencies"] == ["USD"]
    assert data["verifier"].address == VERIFIER.public_key


def test_setting_terms_emits_all_fields(market):
    row = market.set_terms(run="call")
    topics, data = event(row, "terms_set", AT.rail_terms)
    assert topics == ["terms_set", market.provider.public_key, "venmo", "USD"]
    assert data == {
        "direction": "onramp",
        "max": 50 * UNIT,
        "min": 10 * UNIT,
        "rate": 10_200_000,
        "tseq": 1,
        "v": 1,
    }


def test_event_data_is_ordered_map_of_symbols(market):
    row = market.set_terms(run="call")
    raw = xdr.TransactionMeta.from_xdr_bytes(row.meta).v4.operations[0].events[0].body.v0.data
    keys = [entry.key.sym.sc_symbol for entry in raw.map.sc_map]
    assert keys == sorted(keys)
    assert len(raw.to_xdr_bytes()) < 400


def test_several_terms_are_set_and_counted_at_once(market):
    market.set_terms()
    market.set_terms_many([terms(rail="wise"), terms(rail="revolut", currency="EUR")])
    last = market.chain.node.latest.transactions[0]
    assert [data["tseq"] for _, _, data in events(last)] == [2, 3]


def test_deleting_terms_emits_one_event(market):
    market.set_terms()
    topics, data = event(market.del_terms(run="call"), "terms_del", AT.rail_terms)
    assert topics == ["terms_del", market.provider.public_key, "venmo", "USD"]
    assert data == {"direction": "onramp", "tseq": 2, "v": 1}
    assert f"contract error {rail_terms.NO_TERMS}" in market.del_terms(run="refused")


def test_payee_is_registered_and_withdrawn(market):
    row = market.set_payee(handle="@provider", run="call")
    topics, data = event(row, "payee_set", AT.rail_terms)
    assert topics == ["payee_set", market.provider.public_key, "venmo"]
    assert data == {
        "handle": "@provider",
        "payee_hash": PAYEE,
        "registered": True,
        "tseq": 1,
        "v": 1,
    }
    _, data = event(market.set_payee(payee_hash=None, run="call"), "payee_set", AT.rail_terms)
    assert (data["registered"], data["payee_hash"], data["handle"]) == (False, None, None)


def test_provider_pauses_itself(market):
    market.set_provider(True)
    topics, data = event(market.chain.node.latest.transactions[0], "provider_set", AT.rail_terms)
    assert topics == ["provider_set", market.provider.public_key]
    assert data == {"paused": True, "tseq": 1, "v": 1}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"rail": "nowhere"}, rail_terms.UNKNOWN_RAIL),
        ({"currency": "JPY"}, rail_terms.UNKNOWN_CURRENCY),
        ({"direction": "sideways"}, rail_terms.BAD_DIRECTION),
        ({"rate": 0}, rail_terms.BAD_TERMS),
        ({"minimum": 51}, rail_terms.BAD_TERMS),
        ({"minimum": 0}, rail_terms.BAD_TERMS),
    ],
)
def test_invalid_terms_are_refused(market, fields, code):
    assert f"contract error {code})" in market.set_terms(run="refused", **fields)


def test_terms_of_another_provider_cannot_be_set(market):
    other = address(market.taker)
    error = market.chain.refused(
        market.provider,
        AT.rail_terms,
        "set_provider",
        other,
        scval.to_bool(True),
    )
    assert "has not authorised" in error


def test_only_the_admin_sets_rails(market):
    market.set_rail("venmo", fee_bps=70)
    _, data = event(market.chain.node.latest.transactions[0], "rail_set", AT.rail_terms)
    assert data["fee_bps"] == 70
    settings = [
        scval.to_symbol("venmo"),
        scval.to_bool(True),
        scval.to_uint32(2),
        scval.to_uint32(50),
        address(VERIFIER),
        scval.to_vec([scval.to_symbol("USD")]),
    ]
    refused = market.chain.refused(market.provider, AT.rail_terms, "set_rail", *settings)
    assert "has not authorised" in refused
    settings[2] = scval.to_uint32(4)
    assert f"contract error {rail_terms.BAD_RAIL})" in market.chain.refused(
        ADMIN_KEY, AT.rail_terms, "set_rail", *settings
    )


def test_call_with_wrong_arguments_is_refused(market):
    error = market.chain.refused(
        market.provider, AT.rail_terms, "set_provider", address(market.provider)
    )
    assert "takes 2 arguments" in error
    error = market.chain.refused(
        market.provider, AT.rail_terms, "set_provider", address(market.provider), scval.to_uint32(1)
    )
    assert "set_provider" in error
    assert "no function" in market.chain.refused(market.provider, AT.rail_terms, "steal")
    assert "may not be called" in market.chain.refused(
        market.provider, AT.rail_terms, "__constructor"
    )
