import dataclasses

import pytest
from stellar_sdk import Asset, scval, xdr

from indexer.bridges.tokens.decode_stellar import (
    ForgedAssetEvent,
    asset_contract,
    classify_asset_event,
)
from indexer.bridges.tokens.events import AssetAuthorization, AssetMovement
from indexer.chains.raw import StellarEvent
from indexer.decode.stellar import decode
from indexer.errors import Undecodable
from tests.factories.stellar_events import (
    account,
    contract,
    make_asset_event,
    make_stellar_event,
)
from tests.factories.stellar_recorded import PUBNET, TESTNET

PASSPHRASE = TESTNET.passphrase
ISSUER = account("issuer")
NAME = f"EURX:{ISSUER}"
TOKEN = Asset("EURX", ISSUER).contract_id(PASSPHRASE)
NATIVE = Asset.native().contract_id(PASSPHRASE)
ALICE, BOB, ADMIN = account("alice"), account("bob"), account("admin")
FIVE = scval.to_int128(5)


def _event(
    name: str, *parties: str, data: xdr.SCVal = FIVE, asset: str = NAME, emitter: str = TOKEN
) -> StellarEvent:
    return make_asset_event(name, *parties, asset=asset, emitter=emitter, data=data)


def _movement(event: StellarEvent) -> AssetMovement:
    found = classify_asset_event(event, PASSPHRASE)
    assert isinstance(found, AssetMovement)
    return found


@pytest.mark.parametrize(
    ("event", "sender", "recipient"),
    [
        (_event("transfer", ALICE, BOB), ALICE, BOB),
        (_event("mint", BOB), None, BOB),
        (_event("mint", ADMIN, BOB), None, BOB),
        (_event("burn", ALICE), ALICE, None),
        (_event("clawback", ALICE), ALICE, None),
        (_event("clawback", ADMIN, ALICE), ALICE, None),
    ],
)
def test_movement_is_decoded_in_both_protocol_forms(
    event: StellarEvent, sender: str | None, recipient: str | None
) -> None:
    found = _movement(event)
    assert found.asset == f"stellar:{NAME}"
    assert (found.sender, found.recipient, found.amount) == (sender, recipient, 5)


@pytest.mark.parametrize("parties", [(ALICE,), (ADMIN, ALICE)])
@pytest.mark.parametrize("authorized", [True, False])
def test_authorization_is_decoded_in_both_protocol_forms(
    parties: tuple[str, ...], authorized: bool
) -> None:
    event = _event("set_authorized", *parties, data=scval.to_bool(authorized))
    found = classify_asset_event(event, PASSPHRASE)
    assert isinstance(found, AssetAuthorization)
    assert (found.contract, found.asset) == (TOKEN, f"stellar:{NAME}")
    assert (found.holder, found.authorized) == (ALICE, authorized)


def test_native_lumens_are_an_asset() -> None:
    found = _movement(_event("transfer", ALICE, BOB, asset="native", emitter=NATIVE))
    assert found.asset == "stellar:native"


@pytest.mark.parametrize("amount", [100, -37])
def test_fee_is_native_and_refund_is_negative(amount: int) -> None:
    event = make_stellar_event(
        NATIVE, [scval.to_symbol("fee"), scval.to_address(ALICE)], scval.to_int128(amount)
    )
    found = _movement(event)
    assert (found.kind, found.asset, found.sender, found.recipient, found.amount) == (
        "fee",
        "stellar:native",
        ALICE,
        None,
        amount,
    )


def test_fee_event_of_other_contract_is_ignored() -> None:
    event = make_stellar_event(
        contract("a pool"), [scval.to_symbol("fee"), scval.to_address(ALICE)], FIVE
    )
    assert classify_asset_event(event, PASSPHRASE) is None


@pytest.mark.parametrize("name", ["transfer", "mint", "burn", "clawback", "set_authorized"])
def test_asset_event_of_other_contract_is_a_look_alike(name: str) -> None:
    impostor = contract("an impostor")
    event = _event(name, ALICE, BOB, emitter=impostor)
    found = classify_asset_event(event, PASSPHRASE)
    assert isinstance(found, ForgedAssetEvent)
    assert (found.contract, found.claimed) == (impostor, f"stellar:{NAME}")


def test_asset_of_another_network_is_a_look_alike() -> None:
    event = _event("transfer", ALICE, BOB)
    assert isinstance(classify_asset_event(event, PUBNET.passphrase), ForgedAssetEvent)


@pytest.mark.parametrize(
    "asset",
    [
        "",
        "hello",
        "EURX",
        "EURX:",
        f":{ISSUER}",
        f"EUR-X:{ISSUER}",
        f"THIRTEENCHARS:{ISSUER}",
        f"EURX:{ISSUER[:-1]}A",
        f"EURX:{contract('c')}",
        f"{NAME}:x",
        "XLM:",
    ],
)
def test_event_without_asset_is_of_its_contract(asset: str) -> None:
    event = _event("transfer", ALICE, BOB, asset=asset, emitter=contract("a token"))
    assert classify_asset_event(event, PASSPHRASE) is None


def test_token_without_asset_name_is_ignored() -> None:
    event = make_stellar_event(
        contract("a token"),
        [scval.to_symbol("transfer"), scval.to_address(ALICE), scval.to_address(BOB)],
        FIVE,
    )
    assert classify_asset_event(event, PASSPHRASE) is None


def test_other_events_of_an_asset_contract_are_no_movement() -> None:
    assert classify_asset_event(_event("approve", ALICE, BOB), PASSPHRASE) is None
    assert classify_asset_event(_event("set_admin", ALICE), PASSPHRASE) is None


def _with_muxed_id(muxed_id: xdr.SCVal) -> xdr.SCVal:
    return scval.to_struct({"amount": FIVE, "to_muxed_id": muxed_id, "zz": scval.to_void()})


@pytest.mark.parametrize(
    ("muxed_id", "written"),
    [
        (scval.to_uint64(0), "0"),
        (scval.to_uint64(2**64 - 1), "18446744073709551615"),
        (scval.to_string("invoice 7"), "text:invoice 7"),
        (scval.to_string("åäö"), "text:åäö"),
        (scval.to_string(b""), "text:"),
        (scval.to_string(b"\xff\x00"), "bytes:ff00"),
        (scval.to_string(b"a\x00b"), "bytes:610062"),
        (scval.to_bytes(bytes(range(32))), "hash:" + bytes(range(32)).hex()),
    ],
)
def test_muxed_id_is_formatted_by_its_kind(muxed_id: xdr.SCVal, written: str) -> None:
    found = _movement(_event("transfer", ALICE, BOB, data=_with_muxed_id(muxed_id)))
    assert (found.amount, found.to_muxed_id) == (5, written)


def test_movement_without_muxed_id_has_none() -> None:
    assert _movement(_event("transfer", ALICE, BOB)).to_muxed_id is None
    in_a_map = scval.to_struct({"amount": FIVE})
    assert _movement(_event("transfer", ALICE, BOB, data=in_a_map)).to_muxed_id is None
    void = _with_muxed_id(scval.to_void())
    assert _movement(_event("transfer", ALICE, BOB, data=void)).to_muxed_id is None


@pytest.mark.parametrize(
    "event",
    [
        _event("transfer", ALICE),
        _event("transfer", ALICE, BOB, ADMIN),
        _event("burn", ADMIN, ALICE),
        _event("transfer", ALICE, BOB, data=scval.to_uint64(5)),
        _event("transfer", ALICE, BOB, data=scval.to_int128(-5)),
        _event("transfer", ALICE, BOB, data=scval.to_map({})),
        _event("transfer", ALICE, BOB, data=_with_muxed_id(scval.to_bool(True))),
        _event("set_authorized", ALICE, data=FIVE),
    ],
)
def test_asset_contract_event_of_other_shape_is_undecodable(event: StellarEvent) -> None:
    with pytest.raises(Undecodable):
        classify_asset_event(event, PASSPHRASE)


def test_decode_keeps_only_movements_of_our_tokens() -> None:
    usdc = TESTNET.usdc.removeprefix("stellar:")
    ours = _event("transfer", ALICE, BOB, asset=usdc, emitter=TESTNET.usdc_contract)
    assert isinstance(decode(ours, TESTNET), AssetMovement)
    assert decode(_event("transfer", ALICE, BOB), TESTNET) is None
    assert decode(_event("approve", ALICE, BOB, asset=usdc), TESTNET) is None


def test_our_token_with_another_asset_name_is_undecodable() -> None:
    event = _event("transfer", ALICE, BOB, emitter=TESTNET.usdc_contract)
    with pytest.raises(Undecodable, match="not its asset"):
        decode(event, TESTNET)


def test_asset_has_another_contract_on_each_network() -> None:
    usdc = PUBNET.usdc.removeprefix("stellar:")
    assert asset_contract(usdc, PUBNET.passphrase) == PUBNET.usdc_contract
    assert asset_contract(usdc, TESTNET.passphrase) != PUBNET.usdc_contract
    assert (
        asset_contract("native", PUBNET.passphrase)
        == "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"
    )


def test_malformed_asset_event_data_names_the_event() -> None:
    event = dataclasses.replace(_event("burn", ALICE), value=b"\0")
    with pytest.raises(Undecodable, match="burn: data"):
        classify_asset_event(event, PASSPHRASE)
