"""The Python client against the app, through WSGI."""

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import httpx
import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine
from stellar_sdk import Keypair, Network

from isthmus_client import (
    BadAnswer,
    ChallengeNotTrusted,
    Conflict,
    Forbidden,
    Invalid,
    Isthmus,
    Login,
    NotFound,
    NotReached,
    SignIn,
    SignInNeeded,
    TooMany,
    Unavailable,
    models,
    to_decimal,
)
from tests.documented import operations
from tests.factories.app import make_app
from tests.factories.projections import (
    ORDER_ID,
    PROVIDER,
    STELLAR,
    fulfilled,
    insert_cursor,
    insert_day_done,
    insert_market_day,
    insert_offer,
    insert_order,
)
from tests.factories.projections import insert_provider as insert_a_provider
from tests.factories.quotes import (
    OTHER,
    SEPOLIA,
    FixedFees,
    asking,
    make_body,
    make_quote_app,
)
from tests.factories.sep10 import (
    PASSPHRASE,
    SERVER,
    WALLET,
    FixedAccounts,
    forge,
    make_rules,
    make_sep10,
    make_sign_in_app,
)
from tests.factories.started import KEY, insert_quote, make_transfer_app

CALLS = {
    "listOffers": lambda isthmus: isthmus.offers(),
    "summariseBook": lambda isthmus: isthmus.summary(),
    "showProvider": lambda isthmus: isthmus.provider(PROVIDER),
    "showProviderActivity": lambda isthmus: isthmus.provider_activity(PROVIDER),
    "showPriceHistory": lambda isthmus: isthmus.price_history("EUR"),
    "listOrders": lambda isthmus: isthmus.orders(),
    "showOrder": lambda isthmus: isthmus.order(ORDER_ID[2:]),
    "listRoutes": lambda isthmus: isthmus.routes(),
    "showStatus": lambda isthmus: isthmus.status(),
    "isAlive": lambda isthmus: isthmus.is_alive(),
    "isReady": lambda isthmus: isthmus.readiness(),
    "showStellarToml": lambda isthmus: isthmus.stellar_toml(),
    "showOpenapi": lambda isthmus: isthmus.openapi(),
    "showAsyncapi": lambda isthmus: isthmus.asyncapi(),
}
"""Operation → the call that makes it, where nobody has to sign in."""
BY_LOGIN = {"getChallenge", "signIn", "showSession", "endSession"}
WITH_A_TOKEN = {
    *("registerWebhook", "listWebhooks", "showWebhook", "removeWebhook", "listWebhookEvents"),
    *("createQuote", "startTransfer", "showTransfer", "listTransfers", "cancelTransfer"),
    *("showAction", "submitTransaction"),
}
STREAM = {"openStream"}
NO_CALL = {"showMetrics", "isProcessReady"}
"""For monitoring systems and load balancers."""


def client_of(app: Flask, **options: Any) -> Isthmus:
    return Isthmus("https://api.isthmus.test", transport=httpx.WSGITransport(app), **options)


@pytest.fixture
def isthmus(reader: Engine) -> Isthmus:
    return client_of(make_app(reader), sleep=lambda _: None)


@pytest.fixture
def market(book: Connection) -> Connection:
    insert_a_provider(book)
    insert_offer(book, rate="0.9300001", available="0.0000001", handles={"revolut": "@m"})
    insert_order(book, **fulfilled())
    insert_day_done(book, date(2026, 11, 20))
    insert_market_day(book, date(2026, 11, 20))
    return book


def test_every_operation_has_a_call(reader: Engine):
    described = {operation.name for operation in operations(make_app(reader)).values()}
    assert described - NO_CALL == CALLS.keys() | BY_LOGIN | WITH_A_TOKEN | STREAM


@pytest.mark.parametrize("name", CALLS)
def test_every_call_parses_its_response(market: Connection, isthmus: Isthmus, name: str):
    assert CALLS[name](isthmus) is not None


PATHS = {
    "listOffers": "/api/v1/orderbook",
    "summariseBook": "/api/v1/orderbook/summary",
    "showProvider": f"/api/v1/providers/{PROVIDER}",
    "showProviderActivity": f"/api/v1/providers/{PROVIDER}/activity",
    "showPriceHistory": "/api/v1/orderbook/history?currency=EUR",
    "listOrders": "/api/v1/intents",
    "showOrder": f"/api/v1/intents/{ORDER_ID[2:]}",
}


@pytest.mark.parametrize("name", PATHS)
def test_calls_return_the_whole_response(
    market: Connection, isthmus: Isthmus, client: FlaskClient, name: str
):
    given = CALLS[name](isthmus)
    shown = [each.as_json() for each in given] if isinstance(given, tuple) else given.as_json()
    assert shown == client.get(PATHS[name]).json


def test_amounts_are_decimals(market: Connection, isthmus: Isthmus):
    [offer] = isthmus.offers(currency="eur", min_amount=Decimal("1E+1"), max_amount="10.5")
    assert offer.rate == Decimal("0.9300001")
    assert offer.available_usdc == Decimal("0.0000001")
    assert isthmus.offers(direction="offramp") == ()
    assert isthmus.orders(direction="offramp") == ()
    assert len(isthmus.orders(rail="revolut", currency="EUR")) == 1
    with pytest.raises(TypeError, match="float"):
        isthmus.offers(min_amount=10.5)  # type: ignore[arg-type]


def test_models_have_every_member_of_their_schema(isthmus: Isthmus):
    schemas = isthmus.openapi()["components"]["schemas"]
    compared = 0
    for name, schema in schemas.items():
        model = getattr(models, name, None)
        if model is not None:
            names = {f.alias or n for n, f in model.model_fields.items()}
            assert names >= schema["properties"].keys(), name
            compared += 1
    assert compared >= 12


def test_error_response_raises_its_class_with_code(book: Connection, isthmus: Isthmus):
    with pytest.raises(NotFound) as missing:
        isthmus.order("0" * 64)
    assert missing.value.code == "INTENT_NOT_FOUND"
    with pytest.raises(Invalid) as invalid:
        isthmus.provider("GABC")
    assert (invalid.value.status, invalid.value.code) == (400, "BAD_ADDRESS")


def test_path_argument_is_escaped(book: Connection, isthmus: Isthmus):
    with pytest.raises(NotFound) as missing:
        isthmus.provider("../intents")
    assert missing.value.code == "NOT_FOUND"


def test_readiness_returns_reasons(rows: Connection, isthmus: Isthmus):
    said = isthmus.readiness()
    assert not said.is_ready
    assert said.code == "NOT_READY"
    assert said.reasons


class Replies(httpx.BaseTransport):
    """Gives these answers, one a request."""

    def __init__(self, *replies: httpx.Response | Exception) -> None:
        self.replies = list(replies)
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def refused(status: int, after: str | None = "7") -> httpx.Response:
    headers = {} if after is None else {"Retry-After": after}
    return httpx.Response(status, json={"message": "no", "code": "NO"}, headers=headers)


FOUND = httpx.Response(200, json=[])


@pytest.mark.parametrize("status", [429, 503])
def test_retryable_error_is_retried_after_retry_after(status: int):
    slept: list[float] = []
    replies = Replies(refused(status), refused(status, "9"), FOUND)
    with Isthmus("https://x.test", transport=replies, sleep=slept.append) as isthmus:
        assert isthmus.offers() == ()
    assert slept == [7.0, 9.0]


@pytest.mark.parametrize(
    ("replies", "error"),
    [
        ([refused(503)] * 3, Unavailable),
        ([refused(429, "3600")], TooMany),
        ([httpx.ConnectError("gone")], NotReached),
        ([httpx.ReadTimeout("slow")], NotReached),
        ([httpx.Response(502, text="<html>")], BadAnswer),
        ([httpx.Response(200, text="<html>")], BadAnswer),
        ([httpx.Response(200, json=[{"provider": 1}])], BadAnswer),
        ([httpx.Response(302, headers={"Location": "https://evil.test"})], BadAnswer),
    ],
)
def test_permanent_error_is_raised(replies: list[Any], error: type[Exception]):
    transport = Replies(*replies)
    with (
        Isthmus("https://x.test", transport=transport, sleep=lambda _: None) as isthmus,
        pytest.raises(error),
    ):
        isthmus.offers()
    assert transport.replies == []


# Signing in


def login(**known: Any) -> Login:
    return Login.with_key(WALLET, SignIn(**({"network_passphrase": PASSPHRASE} | known)))


@pytest.fixture
def home(reader: Engine) -> Flask:
    return make_sign_in_app(reader, FixedAccounts(make_rules()))


def test_login_signs_in_on_demand(home: Flask):
    isthmus = client_of(home, login=login(home_domain="isthmus.test"))
    assert isthmus.session().account == WALLET.public_key
    isthmus.sign_out()
    assert isthmus.session().account == WALLET.public_key


def test_revoked_token_is_replaced_once(home: Flask):
    isthmus = client_of(home, login=login(home_domain="isthmus.test"))
    first = isthmus.sign_in()
    other = client_of(home, token=lambda: first)
    other.sign_out()
    with pytest.raises(SignInNeeded):
        other.session()
    assert isthmus.session().account == WALLET.public_key
    assert isthmus.sign_in() != first


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"home_domain": "other.test"}, "home domain"),
        ({"home_domain": "isthmus.test", "web_auth_domain": "evil.test"}, "web_auth_domain"),
        ({"home_domain": "isthmus.test", "signing_key": Keypair.random().public_key}, ""),
        ({"network_passphrase": Network.PUBLIC_NETWORK_PASSPHRASE}, "server is on"),
        (
            {
                "network_passphrase": Network.PUBLIC_NETWORK_PASSPHRASE,
                "signing_key": SERVER.public_key,
                "home_domain": "isthmus.test",
            },
            "",
        ),
    ],
)
def test_challenge_of_other_server_or_network_is_not_signed(
    home: Flask, wrong: dict[str, Any], said: str
):
    signed: list[str] = []
    known = SignIn(**({"network_passphrase": PASSPHRASE} | wrong))
    isthmus = client_of(home, login=Login(WALLET.public_key, _never(signed), known))
    with pytest.raises(ChallengeNotTrusted, match=f"(?i){said.replace('_', '.')}"):
        isthmus.sign_in()
    assert signed == []


def _never(signed: list[str]) -> Callable[[str, str], str]:
    def sign(transaction: str, passphrase: str) -> str:
        signed.append(transaction)
        return transaction

    return sign


@pytest.mark.parametrize(
    "challenge",
    ["", "AAAA", "not base64", forge(keys=(), times=(-7200, -3600)), forge(keys=(), signer=WALLET)],
)
def test_malformed_challenge_is_not_signed(challenge: str):
    signed: list[str] = []
    reply = httpx.Response(200, json={"transaction": challenge, "network_passphrase": PASSPHRASE})
    known = SignIn(
        PASSPHRASE,
        home_domain="isthmus.test",
        signing_key=SERVER.public_key,
        web_auth_domain="api.isthmus.test",
    )
    isthmus = Isthmus(
        "https://api.isthmus.test",
        transport=Replies(reply),
        login=Login(WALLET.public_key, _never(signed), known),
    )
    with pytest.raises(ChallengeNotTrusted):
        isthmus.sign_in()
    assert signed == []


def test_challenge_for_another_account_is_not_signed():
    sep10 = make_sep10()
    other = Keypair.random().public_key
    reply = httpx.Response(
        200, json={"transaction": sep10.challenge(other), "network_passphrase": PASSPHRASE}
    )
    signed: list[str] = []
    known = SignIn(PASSPHRASE, "isthmus.test", SERVER.public_key, "api.isthmus.test")
    isthmus = Isthmus(
        "https://api.isthmus.test",
        transport=Replies(reply),
        login=Login(WALLET.public_key, _never(signed), known),
    )
    with pytest.raises(ChallengeNotTrusted, match=other):
        isthmus.sign_in()
    assert signed == []


def test_login_repr_contains_no_secret():
    assert WALLET.secret not in repr(login())


def test_quote_converts_whole_tokens(rows: Connection, reader: Engine):
    for chain in (STELLAR, SEPOLIA):
        insert_cursor(rows, chain)
    app = make_quote_app(reader, FixedFees())
    token = asking()["Authorization"].partition(" ")[2]
    body = make_body()
    route, units = body.pop("route"), int(body.pop("amount_in"))
    amount = to_decimal(units, SEPOLIA)
    with client_of(app, token=lambda: token) as isthmus:
        quote = isthmus.quote(route, amount, **body)
        with pytest.raises(Forbidden) as refused:
            isthmus.quote(route, amount, **(body | {"dest_address": OTHER}))
        with pytest.raises(Invalid) as invalid:
            isthmus.quote(route, Decimal("0.000001"), **body)
    assert (quote.sell_amount, quote.buy_amount, quote.fee.total) == (units, 99_984_400, 1560)
    assert (quote.sell, quote.buy) == (amount, Decimal("9.99844"))
    assert quote.price == Decimal("0.999844")
    assert sum(fee.amount for fee in quote.fee.details) == quote.fee.total
    assert refused.value.code == "NOT_THE_OWNER"
    assert invalid.value.code == "AMOUNT_OUT_OF_LIMITS"


@pytest.fixture
def client_rows(rows: Connection) -> Connection:
    for chain in (STELLAR, SEPOLIA):
        insert_cursor(rows, chain)
    return rows


def signed_in(app: Flask, **options: Any) -> Isthmus:
    token = asking()["Authorization"].removeprefix("Bearer ")
    return client_of(app, token=lambda: token, **options)


def test_transfer_is_started_shown_listed_and_cancelled(client_rows: Connection, reader: Engine):
    with signed_in(make_transfer_app(reader)) as isthmus:
        made = isthmus.start_transfer(quote := insert_quote(client_rows), key=KEY)
        assert isthmus.start_transfer(quote, key=KEY) == made
        assert (made.stage, made.amount_in, made.explorer.source) == (
            *("AWAITING_SIGNATURE", 10_000_000, None),
        )
        assert isthmus.transfer(made.id) == made
        other = isthmus.start_transfer(insert_quote(client_rows), key="another")
        newest = isthmus.transfers(limit=1)
        assert newest.transfers == (other,)
        assert isthmus.transfers(before=newest.next_before).transfers == (made,)
        assert isthmus.cancel_transfer(made.id).stage == "CANCELLED"
        with pytest.raises(Conflict) as late:
            isthmus.cancel_transfer(made.id)
        with pytest.raises(Conflict) as used:
            isthmus.start_transfer(quote, key="third")
        with pytest.raises(Invalid) as reused:
            isthmus.start_transfer("x", key=KEY)
        with pytest.raises(NotFound):
            isthmus.transfer("../session")
    assert (late.value.body["stage"], used.value.body["transfer"]) == ("CANCELLED", made.id)
    assert reused.value.code == "IDEMPOTENCY_KEY_REUSED"


def test_idempotent_request_is_retried():
    slept: list[float] = []
    replies = Replies(refused(503), refused(429), httpx.Response(200, json={"transfers": 1}))
    with (
        Isthmus(
            "https://x.test", token=lambda: "t", transport=replies, sleep=slept.append
        ) as isthmus,
        pytest.raises(BadAnswer),
    ):
        isthmus.start_transfer("q", key="the key")
    assert slept == [7.0, 7.0]
    assert {request.headers["Idempotency-Key"] for request in replies.requests} == {"the key"}
    assert len(replies.requests) == 3


def test_change_without_key_is_not_retried():
    isthmus = Isthmus("https://x.test", token=lambda: "t", transport=Replies(refused(503)))
    with isthmus, pytest.raises(Unavailable):
        isthmus.cancel_transfer("0" * 32)


class Positions(httpx.BaseTransport):
    """Answers with the next of these positions (None: no header, an error: no answer)."""

    def __init__(self, *answers: str | httpx.ConnectError | None) -> None:
        self.answers = list(answers)
        self.received: list[str | None] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.received.append(request.headers.get("X-Position"))
        answer = self.answers.pop(0)
        if isinstance(answer, httpx.ConnectError):
            raise answer
        headers = {} if answer is None else {"X-Position": answer}
        body: dict[str, Any] = {"transfers": [], "next_before": None, "removed": True}
        return httpx.Response(200, headers=headers, json=body)


def test_client_sends_its_greatest_position() -> None:
    transport = Positions("1:0/FF", "1:0/AA", "1:1/0", "2:0/1", None, "2:0/2")
    with Isthmus("http://isthmus.test", token=lambda: "t", transport=transport) as isthmus:
        for _ in range(6):
            isthmus.transfers()
    sent = [None, "1:0/FF", "1:0/FF", "1:1/0", "2:0/1", "2:0/1"]
    assert transport.received == sent


def test_client_forgets_its_position_after_a_write_without_one() -> None:
    transport = Positions("1:0/1", None, "1:0/2", httpx.ConnectError("gone"), "1:0/3")
    with Isthmus("http://isthmus.test", token=lambda: "t", transport=transport) as isthmus:
        isthmus.transfers()
        isthmus.webhooks.remove("1")
        isthmus.transfers()
        with pytest.raises(NotReached):
            isthmus.webhooks.remove("1")
        isthmus.transfers()
    assert transport.received == [None, "1:0/1", None, "1:0/2", None]
