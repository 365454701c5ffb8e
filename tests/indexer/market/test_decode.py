import dataclasses
from typing import Any

import pytest
from stellar_sdk import scval

from indexer.chains.raw import StellarEvent
from indexer.decode.stellar import decode
from indexer.errors import Undecodable
from indexer.market.escrow_events import (
    EscrowConfigSet,
    EscrowDeposit,
    EscrowPausedSet,
    EscrowUpgraded,
    EscrowWithdraw,
    OrderCancel,
    OrderExpire,
    OrderFulfill,
    OrderOpen,
)
from indexer.market.rail_terms_events import PayeeSet, ProviderSet, RailSet, TermsDel, TermsSet
from tests.factories.stellar_events import (
    ESCROW,
    ESCROW_EVENTS,
    LEFT_OUT,
    RAIL_TERMS,
    RAIL_TERMS_EVENTS,
    account,
    contract,
    make_escrow_event,
    make_rail_terms_event,
    word,
)
from tests.factories.stellar_recorded import TESTNET

CHAIN = dataclasses.replace(TESTNET, escrow=ESCROW, rail_terms=RAIL_TERMS)
TYPES = {
    "config_set": EscrowConfigSet,
    "deposit": EscrowDeposit,
    "withdraw": EscrowWithdraw,
    "order_open": OrderOpen,
    "order_fulfill": OrderFulfill,
    "order_cancel": OrderCancel,
    "order_expire": OrderExpire,
    "paused_set": EscrowPausedSet,
    "upgraded": EscrowUpgraded,
    "rail_set": RailSet,
    "terms_set": TermsSet,
    "terms_del": TermsDel,
    "payee_set": PayeeSet,
    "provider_set": ProviderSet,
}
RENAMED = {
    "deposit": {"from": "from_address"},
    "withdraw": {"to": "to_address"},
}


def _make(name: str, **fields: Any) -> StellarEvent:
    make = make_escrow_event if name in ESCROW_EVENTS else make_rail_terms_event
    return make(name, **fields)


def _shape(name: str) -> dict[str, Any]:
    topics, data = (ESCROW_EVENTS | RAIL_TERMS_EVENTS)[name]
    return {key: default for key, (_, default) in {**topics, **data}.items()}


@pytest.mark.parametrize("name", TYPES)
def test_every_event_decodes_field_by_field(name: str) -> None:
    event = _make(name)
    decoded = decode(event, CHAIN)
    renamed = {RENAMED.get(name, {}).get(key, key): value for key, value in _shape(name).items()}
    assert decoded == TYPES[name](seen=event.seen, **renamed)


@pytest.mark.parametrize("name", TYPES)
def test_missing_or_mistyped_field_is_undecodable(name: str) -> None:
    # No field is an i256.
    for key in (*_shape(name), "v"):
        for value in (LEFT_OUT, scval.to_int256(1)):
            with pytest.raises(Undecodable, match=name):
                decode(_make(name, **{key: value}), CHAIN)


def test_other_version_is_undecodable() -> None:
    for name in TYPES:
        for version in (0, 2):
            with pytest.raises(Undecodable, match=f"{name} has version {version}"):
                decode(_make(name, v=version), CHAIN)


def test_unknown_key_is_ignored() -> None:
    for name in TYPES:
        event = _make(name)
        fields = scval.from_map(event.value)
        fields[scval.to_symbol("zz_new")] = scval.to_bool(True)
        fields[scval.to_uint32(1)] = scval.to_bool(True)
        value = scval.to_map(fields).to_xdr_bytes()
        assert decode(dataclasses.replace(event, value=value), CHAIN) == decode(event, CHAIN), name


def test_what_an_option_leaves_open_is_none() -> None:
    fulfilled = decode(
        make_escrow_event(
            "order_fulfill", claim="manual", nullifier=None, fiat_paid=None, paid_at=None
        ),
        CHAIN,
    )
    assert isinstance(fulfilled, OrderFulfill)
    assert (fulfilled.nullifier, fulfilled.fiat_paid, fulfilled.paid_at) == (None, None, None)
    payee = decode(
        make_rail_terms_event("payee_set", registered=False, payee_hash=None, handle=None), CHAIN
    )
    assert isinstance(payee, PayeeSet)
    assert (payee.registered, payee.payee_hash, payee.handle) == (False, None, None)


def test_parties_may_be_contracts() -> None:
    opened = decode(make_escrow_event("order_open", contract("lp"), contract("taker")), CHAIN)
    assert isinstance(opened, OrderOpen)
    assert (opened.provider, opened.taker) == (contract("lp"), contract("taker"))


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("order_open", {"direction": "sideways"}),
        ("order_open", {"amount": -1}),
        ("order_open", {"free_after": -1}),
        ("order_open", {"order_id": b"\1" * 31}),
        ("order_open", {"payee_hash": None}),
        ("order_open", {"expires_at": 253_402_300_800}),
        ("order_open", {"expires_at": 2**63}),
        ("order_fulfill", {"paid_at": 253_402_300_800}),
        ("order_open", {"pseq": 2**64 - 1}),
        ("order_open", {"rail": scval.to_string("revolut")}),
        ("order_open", {"rail": scval.to_symbol("")}),
        ("order_open", {"rail": scval.to_symbol("re-volut")}),
        ("order_fulfill", {"claim": "guess"}),
        ("order_cancel", {"by": "nobody"}),
        ("order_expire", {"by": scval.to_symbol("taker")}),
        ("payee_set", {"handle": b"\xff"}),
        ("payee_set", {"handle": b"a\0b"}),
        ("rail_set", {"currencies": scval.to_vec([scval.to_string("EUR")])}),
        ("terms_set", {"rate": -1}),
    ],
)
def test_a_value_out_of_sense_is_undecodable(name: str, fields: dict[str, Any]) -> None:
    (key,) = fields
    with pytest.raises(Undecodable, match=name):
        decode(_make(name, **fields), CHAIN)
    assert decode(_make(name), CHAIN) is not None, f"{key} alone must be what is refused"


def test_last_second_of_year_9999_is_accepted() -> None:
    opened = decode(make_escrow_event("order_open", expires_at=253_402_300_799), CHAIN)
    assert isinstance(opened, OrderOpen)
    assert opened.expires_at == 253_402_300_799


def test_a_key_given_twice_is_undecodable() -> None:
    event = make_escrow_event("paused_set")
    value = scval.to_map(scval.from_map(event.value))
    assert value.map is not None
    value.map.sc_map.append(value.map.sc_map[0])
    with pytest.raises(Undecodable, match="a key twice"):
        decode(dataclasses.replace(event, value=value.to_xdr_bytes()), CHAIN)


def test_unknown_escrow_event_is_ignored() -> None:
    event = make_escrow_event("deposit")
    renamed = (scval.to_symbol("tip").to_xdr_bytes(), *event.topics[1:])
    assert decode(dataclasses.replace(event, topics=renamed), CHAIN) is None


def test_escrow_events_need_the_escrow_contract() -> None:
    assert decode(make_escrow_event("deposit", emitter=contract("an impostor")), CHAIN) is None
    assert decode(make_escrow_event("deposit", emitter=RAIL_TERMS), CHAIN) is None


def test_topics_by_position_or_name() -> None:
    by_position = make_escrow_event("order_cancel", account("a"), account("b"), word("c"))
    by_name = make_escrow_event(
        "order_cancel", provider=account("a"), taker=account("b"), order_id=word("c")
    )
    assert by_position == by_name
