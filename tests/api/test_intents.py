"""`GET /api/v1/intents/{id}`."""

import pytest

from tests.factories.projections import (
    CLOSE_TIME,
    END_TX,
    NULLIFIER,
    ORDER_ID,
    PROVIDER,
    TAKER,
    fulfilled,
    insert_order,
)

ID = ORDER_ID.removeprefix("0x")
PATH = "/api/v1/intents/"
ACTIVE = {
    "intentId": ID,
    "buyer": TAKER,
    "provider": PROVIDER,
    "direction": "onramp",
    "rail": "revolut",
    "currency": "EUR",
    "amountUsdc": "25",
    "fiatAmount": "23.25",
    "status": "active",
    "trustTier": 1,
    "createdAt": "2026-11-21T07:50:00Z",
    "expiresAt": "2026-11-22T07:50:00Z",
}


def test_active_order_has_no_settlement(client, book):
    insert_order(book)
    assert client.get(PATH + ID).json == ACTIVE


def test_proven_order_has_nullifier_and_transaction(client, book):
    insert_order(book, **fulfilled())
    assert client.get(PATH + ID).json == ACTIVE | {
        "status": "fulfilled",
        "nullifier": NULLIFIER.removeprefix("0x"),
        "txHash": END_TX,
    }


def test_manual_release_has_transaction_without_nullifier(client, book):
    insert_order(book, **fulfilled(claim="manual", nullifier=None))
    answer = client.get(PATH + ID).json
    assert answer["txHash"] == END_TX
    assert "nullifier" not in answer


def test_partial_release_is_beside_the_requested_amount(client, book):
    insert_order(book, **fulfilled(released=100_000_000))
    answer = client.get(PATH + ID).json
    assert (answer["amountUsdc"], answer["releasedUsdc"]) == ("25", "10")


@pytest.mark.parametrize(
    ("ended", "status"),
    [
        ({"status": "cancelled", "chain_status": "cancelled", "end_tx": END_TX}, "cancelled"),
        ({"status": "expired", "chain_status": "expired", "end_tx": END_TX}, "expired"),
        # The contract settled it too late: what clients were told is final.
        (fulfilled(status="expired"), "expired"),
        # The ledger clock passed it and nobody has told the chain.
        ({"status": "expired", "chain_status": "open"}, "expired"),
    ],
    ids=["cancelled", "expired on chain", "settled too late", "expired by the clock"],
)
def test_unsettled_order_has_no_transaction(client, book, ended, status):
    insert_order(book, **ended)
    answer = client.get(PATH + ID).json
    assert answer == ACTIVE | {"status": status}


def test_status_follows_ledger_time_not_local_clock(client, book):
    insert_order(book, expires_at=CLOSE_TIME)
    assert client.get(PATH + ID).json["status"] == "active"


@pytest.mark.parametrize("written", [ID.upper(), "0x" + ID, "0X" + ID.upper()])
def test_id_is_case_insensitive_with_or_without_0x(client, book, written):
    insert_order(book)
    assert client.get(PATH + written).json["intentId"] == ID


def test_unknown_id_returns_404(client, book):
    response = client.get(PATH + "00" * 32)
    assert response.status_code == 404
    assert response.json["code"] == "INTENT_NOT_FOUND"


@pytest.mark.parametrize(
    "malformed",
    ["x", "0x", "0x0x" + ID, ID[:-1], ID + "0", "g" + ID[1:], ID[:-1] + "%0A", ID + "%0A", "1"],
)
def test_malformed_id_returns_400(cut_off, malformed):
    response = cut_off.get(PATH + malformed)
    assert response.status_code == 400
    assert response.json["code"] == "BAD_INTENT_ID"
