"""Matching of burns, sends and payments: the id alone proves nothing, every field must agree."""

from dataclasses import replace

import pytest

from indexer.addresses import account_as_bytes32, contract_as_bytes32, evm_as_bytes32
from indexer.bridges.cctp.events import MessageReceived, MintAndWithdraw
from indexer.bridges.cctp.message import burn_key
from indexer.bridges.tokens.events import AssetMovement
from indexer.chains.events import Event
from indexer.movements.fold import Burn, Mint, pair_burns
from indexer.transfers.inputs import TransferTerms
from indexer.transfers.matching import (
    ANY_CALLER,
    UnlabelledMovement,
    assign_movements,
    match_burn,
    match_mint,
    oft_movement,
    payment_movement,
)
from tests.factories.stage_history import DEPOSIT, DIRECT, START, WITHDRAWAL, make_terms
from tests.factories.transfers import (
    ACCOUNT,
    ETHEREUM,
    FORWARDER,
    NETWORK,
    NONCE,
    PUBNET,
    USER,
    ZERO,
    make_burn_to_stellar,
    make_hook,
    make_oft_sent,
    make_packet_sent,
    seen,
)
from warehouse_schema.identifiers import (
    Address,
    BaseUnits,
    Bytes32,
    ChainId,
    EvmAddress,
    StellarAddress,
    TxHash,
    UnixSeconds,
)

BASE = ChainId("eip155:8453")
USDC = str(NETWORK.evm[0].usdc)
STELLAR_USDC = Address(NETWORK.stellar.usdc_contract)
OTHER = StellarAddress("GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN")
ID = DIRECT.id
TAG = bytes.fromhex(ID)
HERE = replace(DIRECT, source_token=Address(USDC))
"""A direct deposit of 5 USDC."""
OUT = replace(WITHDRAWAL, source_token=STELLAR_USDC, amount_in=BaseUnits(50_000_000))
"""A withdrawal of 5 USDC."""


def burn_of(events: list[Event], **changes) -> Burn:
    (burn,) = pair_burns(events)
    return replace(burn, deposit=replace(burn.deposit, **changes))


def make_burn(**changes) -> Burn:
    """The burn that `HERE` issues, but for what changes."""
    hook = make_hook() + TAG
    agreed = {"burn_token": USDC, "depositor": USER, "hook_data": hook}
    return burn_of(make_burn_to_stellar(), **agreed | changes)


def make_burn_out(**changes) -> Burn:
    """The burn that `OUT` issues."""
    agreed = {
        "seen": seen(PUBNET),
        "burn_token": STELLAR_USDC,
        "depositor": ACCOUNT,
        "mint_recipient": evm_as_bytes32(USER),
        "destination_domain": 0,
        "destination_caller": ANY_CALLER,
        "hook_data": TAG,
    }
    return burn_of(make_burn_to_stellar(), **agreed | changes)


def body(**changes) -> bytes:
    """The attested body of what `HERE` issues."""
    order = {
        "token": evm_as_bytes32(EvmAddress(USDC)),
        "recipient": contract_as_bytes32(FORWARDER),
        "amount": 5_000_000,
        "sender": evm_as_bytes32(USER),
        "hook": make_hook() + TAG,
        **changes,
    }
    words = [order["token"], order["recipient"], f"0x{order['amount']:064x}", order["sender"]]
    packed = b"".join(bytes.fromhex(word[2:]) for word in words)
    return (1).to_bytes(4, "big") + packed + bytes(96) + order["hook"]


def make_mint(domain: int = 0, **changes) -> Mint:
    given = body(**changes)
    sender = evm_as_bytes32(USER)
    received = MessageReceived(
        seen=seen(PUBNET, 900),
        caller=Address(FORWARDER),
        source_domain=domain,
        nonce=NONCE,
        sender=sender,
        finality_threshold_executed=1000,
        message_body=given,
        burn_key=burn_key(domain, 27, sender, given),
    )
    minted = MintAndWithdraw(
        seen(PUBNET, 900), Address(FORWARDER), BaseUnits(5_000_000), STELLAR_USDC, BaseUnits(0)
    )
    return Mint(minted, received, None)


def test_issued_burn_and_mint_are_own():
    assert match_burn(NETWORK, HERE, make_burn()) == "own"
    assert match_burn(NETWORK, OUT, make_burn_out()) == "own"
    assert match_mint(NETWORK, HERE, make_mint()) == "own"


def test_burn_from_deposit_address_is_own():
    paid_in = replace(HERE, deposit_address=DEPOSIT)
    assert match_burn(NETWORK, paid_in, make_burn(depositor=DEPOSIT)) == "own"
    assert match_burn(NETWORK, paid_in, make_burn()) == "extra"


@pytest.mark.parametrize(
    "changes",
    [
        {"hook_data": make_hook()},
        {"hook_data": make_hook() + bytes(16)},
        {"hook_data": make_hook() + TAG + b"\0"},
        {"hook_data": b""},
    ],
)
def test_burn_without_the_id_does_not_match(changes):
    assert match_burn(NETWORK, HERE, make_burn(**changes)) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"amount": BaseUnits(5_000_001)},
        {"depositor": DEPOSIT},
        {"burn_token": DEPOSIT},
        {"seen": seen(BASE)},
    ],
)
def test_other_burn_to_the_owner_is_extra(changes):
    assert match_burn(NETWORK, HERE, make_burn(**changes)) == "extra"


@pytest.mark.parametrize(
    "changes",
    [
        {"hook_data": make_hook(OTHER) + TAG},
        {"hook_data": TAG},
        {"mint_recipient": ZERO},
        {"destination_caller": ZERO},
        {"destination_domain": 6},
    ],
)
def test_copied_id_with_other_recipient_is_foreign(changes):
    assert match_burn(NETWORK, HERE, make_burn(**changes)) == "foreign"


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"mint_recipient": evm_as_bytes32(DEPOSIT)}, "foreign"),
        ({"destination_caller": evm_as_bytes32(DEPOSIT)}, "foreign"),
        ({"destination_domain": 6}, "foreign"),
        ({"depositor": OTHER}, "extra"),
        # 7 decimals on Stellar, 6 in its event.
        ({"amount": BaseUnits(50_000_000)}, "extra"),
    ],
)
def test_withdrawal_is_matched_by_every_field(changes, verdict: str):
    assert match_burn(NETWORK, OUT, make_burn_out(**changes)) == verdict


@pytest.mark.parametrize(
    ("mint", "verdict"),
    [
        (make_mint(hook=make_hook()), None),
        (make_mint(hook=make_hook(OTHER) + TAG), "foreign"),
        (make_mint(recipient=ZERO), "foreign"),
        (make_mint(amount=5_000_001), "extra"),
        (make_mint(sender=evm_as_bytes32(DEPOSIT)), "extra"),
        (make_mint(token=ZERO), "extra"),
        (make_mint(domain=6), "extra"),
        (make_mint(domain=999), None),
    ],
)
def test_mint_is_matched_by_its_attested_body(mint: Mint, verdict: str | None):
    assert match_mint(NETWORK, HERE, mint) == verdict


# Without a label.

OFT_USDT = str(NETWORK.evm[0].usdt0)
OFT = replace(HERE, mechanism="oft", source_token=Address(OFT_USDT), amount_in=BaseUnits(7_000_000))
RECIPIENT = account_as_bytes32(ACCOUNT)


def send(
    height: int = 100, tx: str = "a", recipient: Bytes32 = RECIPIENT, **changes
) -> UnlabelledMovement:
    sent = replace(make_oft_sent(), seen=seen(ETHEREUM, height, tx), **changes)
    moved = oft_movement(NETWORK, sent, make_packet_sent(send_to=recipient))
    assert moved is not None
    return moved


def named(number: int, **changes) -> TransferTerms:
    return replace(OFT, id=f"{number:032x}", started_at=UnixSeconds(START + number), **changes)


def owners(given: dict[str, tuple[UnlabelledMovement, ...]]) -> dict[int, list[str]]:
    return {
        int(transfer, 16): [each.place.tx[2] for each in own] for transfer, own in given.items()
    }


def test_sends_are_assigned_in_order_of_both():
    sends = [send(102, "c"), send(100, "a"), send(101, "b")]
    given = assign_movements([named(2), named(1)], sends, {})
    assert owners(given) == {1: ["a"], 2: ["b"]}


def test_submitted_send_belongs_to_its_transfer():
    sends = [send(100, "a"), send(101, "b")]
    given = assign_movements([named(1), named(2)], sends, {TxHash("0x" + "a" * 64): [named(2).id]})
    assert owners(given) == {1: ["b"], 2: ["a"]}


@pytest.mark.parametrize("submitted_for", [[1], [2], [1, 2]])
def test_bundle_of_two_sends_serves_two_transfers(submitted_for):
    sends = [send(), send(guid=Bytes32("0x" + "68" * 32))]
    names = {send().place.tx: [named(each).id for each in submitted_for]}
    assert owners(assign_movements([named(1), named(2)], sends, names)) == {1: ["a"], 2: ["a"]}


def test_excess_sends_stay_with_the_submitting_transfer():
    sends = [send(), send(guid=Bytes32("0x" + "68" * 32))]
    given = assign_movements([named(1)], sends, {send().place.tx: [named(1).id]})
    assert owners(given) == {1: ["a", "a"]}


def test_submission_that_moves_another_amount_is_unmatched():
    other = send(amount_sent=BaseUnits(7_000_001))
    assert assign_movements([named(1)], [other], {other.place.tx: [named(1).id]}) == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"recipient": account_as_bytes32(OTHER)},
        {"from_address": Address(DEPOSIT)},
        {"dst_eid": NETWORK.chain(ETHEREUM).lz_eid},
    ],
)
def test_send_with_other_fields_is_unmatched(changes):
    assert assign_movements([named(1)], [send(**changes)], {}) == {}


def test_send_before_the_transfer_needs_a_submission():
    later = replace(named(1), started_at=send().place.at + 1)
    assert assign_movements([later], [send()], {}) == {}
    assert assign_movements([later], [send()], {send().place.tx: [later.id]}) != {}


def test_all_sends_from_deposit_address_are_its_transfers():
    from_there = {"from_address": Address(DEPOSIT)}
    sends = [send(101, "b", **from_there), send(100, "a", **from_there)]
    given = assign_movements([named(1, deposit_address=DEPOSIT)], sends, {})
    assert owners(given) == {1: ["a", "b"]}


def test_send_to_unknown_chain_is_unmatched():
    sent = replace(make_oft_sent(), dst_eid=1)
    assert oft_movement(NETWORK, sent, make_packet_sent()) is None


def payment(**changes) -> AssetMovement:
    agreed = {
        "kind": "transfer",
        "contract": STELLAR_USDC,
        "asset": NETWORK.stellar.usdc,
        "sender": ACCOUNT,
        "recipient": OTHER,
        "amount": BaseUnits(50_000_000),
        "to_muxed_id": None,
        **changes,
    }
    return AssetMovement(seen=seen(PUBNET), **agreed)


def test_payment_is_matched_by_what_it_moves():
    terms = make_terms(
        mechanism="payment",
        source_chain=PUBNET,
        source_address=ACCOUNT,
        source_token=STELLAR_USDC,
        dest_address=OTHER,
        amount_in=BaseUnits(50_000_000),
        deposit_address=None,
    )
    moved = payment_movement(NETWORK.stellar, payment())
    assert moved is not None
    assert assign_movements([terms], [moved], {}) == {terms.id: (moved,)}
    for other in ({"recipient": ACCOUNT}, {"amount": BaseUnits(1)}):
        differs = payment_movement(NETWORK.stellar, payment(**other))
        assert differs is not None
        assert assign_movements([terms], [differs], {}) == {}


@pytest.mark.parametrize(
    "changes", [{"kind": "mint", "sender": None}, {"recipient": None}, {"contract": FORWARDER}]
)
def test_payment_of_other_token_is_no_movement(changes):
    assert payment_movement(NETWORK.stellar, payment(**changes)) is None
