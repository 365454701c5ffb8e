"""The client computes a deposit address itself before it pays there."""

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devnet.customers import devnet_bridges
from indexer.bridges.deposit_address.factory import deposit_address
from isthmus_client import ActionNotTrusted, Bridges, SendToAddress
from isthmus_client.contracts import MAINNET
from isthmus_client.verify import Deposit
from isthmus_client.verify_address import Custody, address_of, check_address
from tests.conftest import GOLDEN
from tests.factories.deposits import DEVNET, OPERATOR, OWNER, STRANGER, make_deposit, with_factories

VECTORS: list[dict[str, Any]] = json.loads((GOLDEN / "deposits" / "vectors.json").read_text())
KNOWN = replace(
    MAINNET,
    evm={chain: replace(at, has_deposit_factory=True) for chain, at in MAINNET.evm.items()},
)
NETWORK = with_factories("mainnet")
ROUTES: dict[str, Any] = {"cctp": "usdc-deposit", "oft": "usdt0-deposit"}
EXPIRES = 1_800_000_000
CUSTODY = Custody(OPERATOR, EXPIRES)
OTHER = "0x" + "0c" * 20


def meant(bridge: str = "cctp", **changes: Any) -> Deposit:
    terms = make_deposit(chain="eip155:1", bridge=bridge)
    usual = Deposit(
        transfer=terms.transfer_id.hex,
        route=ROUTES[bridge],
        chain="eip155:1",
        payer=terms.refund_to,
        recipient=OWNER,
        amount=terms.amount,
        least=terms.min_received * 10,
    )
    return replace(usual, **changes)


def issued(bridge: str = "cctp", **changes: Any) -> SendToAddress:
    """As this service shows it for those terms."""
    terms = make_deposit(chain="eip155:1", bridge=bridge)
    token = MAINNET.evm["eip155:1"].usdc if bridge == "cctp" else MAINNET.evm["eip155:1"].usdt0
    shown = {
        "kind": "send_to_address",
        "chain": "eip155:1",
        "asset": f"eip155:1/erc20:{token}",
        "address": deposit_address(NETWORK, terms),
        "amount": str(terms.amount),
    }
    return SendToAddress.model_validate(shown | changes)


def refused(
    shown: SendToAddress,
    deposit: Deposit,
    custody: Custody = CUSTODY,
    known: Bridges = KNOWN,
    now: int = EXPIRES - 1800,
) -> str:
    with pytest.raises(ActionNotTrusted) as error:
        check_address(shown, deposit, known, custody, now)
    return str(error.value)


@pytest.mark.parametrize("vector", VECTORS)
def test_vectors_of_the_document_are_computed(vector):
    known = devnet_bridges() if vector["chain"] == DEVNET else KNOWN
    deposit = Deposit(
        transfer=UUID(vector["transfer_id"]).hex,
        route=ROUTES[vector["bridge"]],
        chain=vector["chain"],
        payer=vector["refund_to"],
        recipient=vector["owner"],
        amount=vector["amount"],
        least=vector["min_received"] * 10,
    )
    custody = Custody(vector["operator"], vector["expires_at"])
    assert address_of(deposit, known, custody) == vector["address"].lower()


@pytest.mark.parametrize("bridge", ROUTES)
def test_issued_address_is_verified(bridge):
    check_address(issued(bridge), meant(bridge), KNOWN, CUSTODY, EXPIRES - 1800)


@given(
    st.sampled_from(sorted(ROUTES)),
    st.integers(1, 20_000_000),
    st.data(),
    st.uuids(),
    st.binary(min_size=20, max_size=20),
)
def test_address_equals_service_for_any_terms(bridge, amount, data, transfer, raw):
    least = data.draw(st.integers(1, amount))
    payer = f"0x{raw.hex()}" if any(raw) else OTHER
    terms = make_deposit(
        chain="eip155:10",
        bridge=bridge,
        transfer_id=transfer,
        amount=amount,
        min_received=least,
        refund_to=payer,
    )
    deposit = meant(
        *(bridge,),
        chain="eip155:10",
        transfer=transfer.hex,
        amount=amount,
        least=least * 10,
        payer=payer,
    )
    assert address_of(deposit, KNOWN, CUSTODY) == deposit_address(NETWORK, terms)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"address": OTHER}, "address"),
        ({"chain": "eip155:10"}, "chain"),
        ({"asset": f"eip155:1/erc20:{OTHER}"}, "asset"),
        ({"amount": "20000001"}, "amount"),
    ],
)
def test_altered_deposit_is_refused(changes, named):
    assert refused(issued(**changes), meant()).startswith(named)


@pytest.mark.parametrize(
    "changes",
    [
        {"transfer": "5e" * 16},
        {"transfer": "no id"},
        {"recipient": STRANGER},
        {"recipient": "G" + OWNER},
        {"payer": OTHER},
        {"payer": "0x12"},
        {"amount": 20_000_001},
        {"least": 199_900_001},
        {"least": 199_899_990},
        {"route": "usdt0-deposit"},
    ],
)
def test_deposit_for_other_terms_is_refused(changes):
    assert refused(issued(), meant(**changes))


def test_operator_and_expiry_change_the_address():
    assert refused(issued(), meant(), Custody(OTHER, EXPIRES)).startswith("address")
    assert refused(issued(), meant(), Custody(OPERATOR, EXPIRES + 1)).startswith("address")


def test_expiry_beyond_two_days_is_refused():
    assert "two days" in refused(issued(), meant(), now=EXPIRES - 86_401)


def test_expired_deposit_is_refused():
    assert "expired" in refused(issued(), meant(), now=EXPIRES)
    assert "expired" in refused(issued(), meant(), Custody(OPERATOR, -1))


def test_chain_without_factory_is_refused():
    assert "eip155:1" in refused(issued(), meant(), known=MAINNET)
    assert "eip155:424242" in refused(issued(), meant(chain="eip155:424242"))
