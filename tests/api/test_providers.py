"""`GET /api/v1/providers/{address}`."""

import pytest

from tests.factories.projections import (
    PROVIDER,
    address,
    contract,
    insert_book,
    insert_payee,
    insert_provider,
    insert_rail,
    insert_terms,
)
from tests.indexer.test_addresses import CONTRACT
from tests.indexer.test_addresses import MUXED as MUXED_CONTRACT

PATH = "/api/v1/providers/"


def rails_of(client, provider=PROVIDER):
    return client.get(PATH + provider).json["acceptedRails"]


def test_provider_has_the_specified_fields_and_types(client, book):
    insert_rail(book)
    insert_terms(book)
    insert_payee(book)
    insert_provider(
        book,
        free=700,
        locked="300.5",
        # Locks of expired orders that nobody pruned back new orders.
        reclaimable="100.25",
        active_orders=4,
        completed_orders=3,
        fulfillment_seconds=1000,
    )
    assert client.get(PATH + PROVIDER).json == {
        "provider": PROVIDER,
        "availableUsdc": "800.25",
        "lockedUsdc": "200.25",
        "completedOrders": 3,
        "avgFulfillmentSeconds": 333,
        "acceptedRails": ["revolut"],
        "activeIntents": 4,
    }


def test_provider_without_history_has_zeros(client, book):
    insert_provider(book, free=0)
    assert client.get(PATH + PROVIDER).json == {
        "provider": PROVIDER,
        "availableUsdc": "0",
        "lockedUsdc": "0",
        "completedOrders": 0,
        "avgFulfillmentSeconds": 0,
        "acceptedRails": [],
        "activeIntents": 0,
    }


def test_contract_can_be_a_provider(client, book):
    insert_provider(book, contract(7))
    assert client.get(PATH + contract(7)).json["provider"] == contract(7)


def test_rails_of_both_directions_are_distinct_and_sorted(client, book):
    insert_provider(book)
    for rail in ("wise", "revolut", "zelle"):
        insert_rail(book, rail)
        insert_payee(book, rail=rail)
    insert_terms(book, rail="wise")
    insert_terms(book, rail="wise", currency="USD")
    insert_terms(book, rail="wise", direction="offramp")
    insert_terms(book, rail="revolut", direction="offramp")
    insert_terms(book, rail="zelle", provider=address(5))
    assert rails_of(client) == ["revolut", "wise"]


def test_drained_provider_shows_its_rails(client, book):
    insert_rail(book)
    insert_terms(book, min=10)
    insert_payee(book)
    insert_provider(book, free=0)
    assert rails_of(client) == ["revolut"]


def test_only_onramp_rails_need_a_payee(client, book):
    insert_provider(book)
    insert_rail(book, "revolut")
    insert_rail(book, "wise")
    insert_payee(book, rail="wise", provider=address(5))
    insert_terms(book, rail="revolut", direction="onramp")
    insert_terms(book, rail="wise", direction="offramp")
    assert rails_of(client) == ["wise"]


@pytest.mark.parametrize(
    "rail", [{"enabled": False}, {"currencies": ["USD"]}], ids=["disabled", "other currency"]
)
def test_closed_rail_is_not_accepted(client, book, rail):
    insert_provider(book)
    insert_rail(book, **rail)
    insert_payee(book)
    insert_terms(book, currency="EUR")
    assert rails_of(client) == []


def test_paused_provider_accepts_no_rail_but_shows_amounts(client, book):
    insert_rail(book)
    insert_terms(book)
    insert_payee(book)
    insert_provider(book, paused=True, free=5)
    answer = client.get(PATH + PROVIDER).json
    assert (answer["acceptedRails"], answer["availableUsdc"]) == ([], "5")


@pytest.mark.parametrize("pause", ["opens_paused", "all_paused"])
def test_paused_escrow_accepts_no_rail(client, rows, pause):
    insert_book(rows, **{pause: True})
    insert_rail(rows)
    insert_terms(rows)
    insert_payee(rows)
    insert_provider(rows)
    assert rails_of(client) == []


def test_unknown_address_returns_404(client, book):
    insert_provider(book)
    response = client.get(PATH + address(99))
    assert response.status_code == 404
    assert response.json["code"] == "PROVIDER_NOT_FOUND"
    assert address(99) in response.json["message"]


MUXED = "MA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVAAAAAAAAAAAAAJLK"


@pytest.mark.parametrize(
    "malformed",
    [
        "x",
        PROVIDER[:-1],
        PROVIDER + "A",
        PROVIDER[:-1] + ("A" if PROVIDER[-1] != "A" else "B"),
        PROVIDER.lower(),
        "C" + PROVIDER[1:],
        "0x" + "ab" * 20,
        MUXED,
        PROVIDER + "%0A",
        "%00",
        "%F0%9F%92%B6",
        "null",
    ],
)
def test_malformed_address_returns_400(cut_off, malformed):
    response = cut_off.get(PATH + malformed)
    assert response.status_code == 400
    assert response.json["code"] == "BAD_ADDRESS"


def test_muxed_contract_address_returns_400_naming_contract(cut_off):
    response = cut_off.get(PATH + MUXED_CONTRACT)
    assert (response.status_code, response.json["code"]) == (400, "BAD_ADDRESS")
    assert response.json["message"].startswith("provider: ")
    assert f"muxed id 123456 of {CONTRACT}" in response.json["message"]


def test_provider_without_a_book_returns_503(client, rows):
    insert_provider(rows)
    assert client.get(PATH + PROVIDER).status_code == 503
    assert client.get(PATH + address(99)).status_code == 503
