"""Query parameters of the stream."""

import pytest

from api.errors import BadRequest
from api.stream.requests import Filters, SubscribeRequest, Topic, parse_subscribe_request
from tests.factories.projections import address, contract
from warehouse_schema.identifiers import StellarAddress

PROVIDER, ANOTHER = StellarAddress(address(1)), StellarAddress(address(2))


def test_empty_query_subscribes_to_everything():
    assert parse_subscribe_request({}) == SubscribeRequest()
    assert (
        parse_subscribe_request({"rail": "", "markers": "", "after": "", "unknown": "x"})
        == SubscribeRequest()
    )


def test_every_parameter_is_parsed():
    query = {
        "rail": "venmo",
        "currency": "eur",
        "direction": "onramp",
        "provider": PROVIDER,
        "channel": "orderbook",
        "markers": "1",
        "after": "007",
    }
    filters = Filters("venmo", "EUR", "onramp", PROVIDER, "orderbook")
    assert parse_subscribe_request(query) == SubscribeRequest(filters, markers=True, after=7)
    assert parse_subscribe_request({"provider": contract(3)}).filters.provider == contract(3)
    assert parse_subscribe_request({"markers": "0", "after": "0"}) == SubscribeRequest(after=0)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"currency": "EURO"}, "BAD_FILTER"),
        ({"direction": "up"}, "BAD_FILTER"),
        ({"channel": "transfer"}, "BAD_FILTER"),
        ({"markers": "yes"}, "BAD_FILTER"),
        ({"minAmount": "5"}, "BAD_FILTER"),
        ({"maxAmount": "5"}, "BAD_FILTER"),
        ({"provider": "GA5"}, "BAD_ADDRESS"),
        ({"after": "-1"}, "BAD_AFTER"),
        ({"after": "1.5"}, "BAD_AFTER"),
        ({"after": "x"}, "BAD_AFTER"),
        ({"after": "٣"}, "BAD_AFTER"),
        ({"after": "9" * 19}, "BAD_AFTER"),
    ],
)
def test_bad_parameter_is_refused_by_name(query, code):
    with pytest.raises(BadRequest) as refused:
        parse_subscribe_request(query)
    assert refused.value.error_code == code
    assert next(iter(query)) in refused.value.message


OFFER = Topic("orderbook", PROVIDER, "onramp", "EUR", ("venmo", "wise"))
ORDER = Topic("intent", PROVIDER, "onramp", "EUR", ("wise",))


@pytest.mark.parametrize(
    ("filters", "offer", "order"),
    [
        (Filters(), True, True),
        (Filters(rail="wise"), True, True),
        (Filters(rail="venmo"), True, False),
        (Filters(rail="ven"), False, False),
        (Filters(currency="EUR"), True, True),
        (Filters(currency="USD"), False, False),
        (Filters(direction="offramp"), False, False),
        (Filters(provider=PROVIDER), True, True),
        (Filters(provider=ANOTHER), False, False),
        (Filters(channel="intent"), False, True),
        (Filters(channel="orderbook", rail="wise", currency="EUR"), True, False),
        (Filters(rail="wise", currency="USD"), False, False),
    ],
)
def test_all_filters_must_match(filters, offer, order):
    assert (filters.admit(OFFER), filters.admit(ORDER)) == (offer, order)
