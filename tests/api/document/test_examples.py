"""The examples of both documents equal the responses of the app.

`--update-golden` writes them. To add one, add a line to `ASKED` (or a test of its own kind below).
"""

import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from limits import parse
from sqlalchemy import Connection, Engine, delete, func

from api.actions.sources import LimitedEvmSource
from api.auth.accounts import LedgerUnavailable
from api.auth.claims import AuthSession
from api.browser_headers import BrowserPolicy
from api.errors import (
    ApiError,
    FeesUnavailable,
    IdentityUnavailable,
    NoStellarWallet,
    WalletChanged,
    code_for_status,
    error_body,
)
from api.openapi import EXAMPLES
from api.orderbook import queries
from api.rate_limits import READS, RateBudgets, RateLimiter
from api.stream import messages
from api.stream.audience import end_of_ledger
from api.stream.limits import StreamLimits
from api.stream.outbox import ReadPosition
from api.stream.requests import parse_client_message
from api.stream.socket import stream_of
from indexer.actions.mint_check import MintRefusal
from indexer.chains.stellar.xdr.ledger_entries import Trustline
from indexer.errors import NodeUnavailable
from indexer.policy.paid_failures import MAX_PAID_FAILURES
from tests.api.actions.test_signed import ME, drafted, signed
from tests.api.webhooks.conftest import make_webhook_app
from tests.factories.acting import (
    FixedEvm,
    FixedStellar,
    ask_action,
    deposit,
    order_for,
    stellar_payment,
    submit,
)
from tests.factories.actions import MAINNET, OWNER
from tests.factories.app import NOW, make_app
from tests.factories.projections import (
    CLOSE_TIME,
    LEDGER,
    ORDER_ID,
    PROVIDER,
    STELLAR,
    address,
    fulfilled,
    insert_book,
    insert_cursor,
    insert_day_done,
    insert_depth,
    insert_market_day,
    insert_offer,
    insert_order,
    insert_payee,
    insert_provider,
    insert_rail,
    insert_reconciliation,
    insert_terms,
)
from tests.factories.quotes import (
    EVM,
    REFUSED,
    SEPOLIA,
    FixedFees,
    ask,
    asking,
    make_body,
    make_quote_app,
    withdrawal,
)
from tests.factories.relay import signed as signed_by_relay
from tests.factories.sep10 import WALLET, FixedAccounts, make_rules, make_sign_in_app, sign
from tests.factories.started import (
    KEY,
    NOBODY,
    cancel,
    insert_quote,
    insert_transfer,
    make_transfer_app,
    show,
    start,
)
from tests.factories.tokens import ACCOUNT, URL, make_tokens
from tests.factories.webhooks import insert_delivery, insert_events, insert_sender, insert_state
from warehouse_schema import relay
from warehouse_schema.facts import cursors
from warehouse_schema.identifiers import BaseUnits, Height, StellarAddress, UnixSeconds

API = "/api/v1"
NOW_LEDGER, CLOSED_AT = Height(LEDGER), UnixSeconds(CLOSE_TIME)
UNSEEN = address(77)
HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}

QUERIES: dict[tuple[str, str], str] = {
    ("listRoutes", "200"): "/v1/routes",
    ("listOffers", "200"): f"{API}/orderbook",
    ("listOffers", "BAD_FILTER"): f"{API}/orderbook?currency=euro",
    ("summariseBook", "200"): f"{API}/orderbook/summary",
    ("showPriceHistory", "200"): f"{API}/orderbook/history?currency=EUR",
    ("showPriceHistory", "BAD_FILTER"): f"{API}/orderbook/history?currency=euro",
    ("showProvider", "200"): f"{API}/providers/{PROVIDER}",
    ("showProvider", "BAD_ADDRESS"): f"{API}/providers/GABC",
    ("showProvider", "PROVIDER_NOT_FOUND"): f"{API}/providers/{UNSEEN}",
    ("showProviderActivity", "200"): f"{API}/providers/{PROVIDER}/activity",
    ("showProviderActivity", "BAD_ADDRESS"): f"{API}/providers/GABC/activity",
    ("showProviderActivity", "PROVIDER_NOT_FOUND"): f"{API}/providers/{UNSEEN}/activity",
    ("listOrders", "200"): f"{API}/intents?limit=1",
    ("listOrders", "BAD_LIMIT"): f"{API}/intents?limit=1000",
    ("listOrders", "BAD_FILTER"): f"{API}/intents?direction=up",
    ("listOrders", "BAD_ADDRESS"): f"{API}/intents?provider=GABC",
    ("showOrder", "200"): f"{API}/intents/{ORDER_ID[2:]}",
    ("showOrder", "BAD_INTENT_ID"): f"{API}/intents/1f",
    ("showOrder", "INTENT_NOT_FOUND"): f"{API}/intents/{'0' * 64}",
    ("openStream", "UPGRADE_REQUIRED"): f"{API}/stream",
    ("showStatus", "200"): "/v1/status",
    ("isAlive", "200"): "/healthz",
    ("isReady", "200"): "/readyz",
    ("isProcessReady", "200"): "/readyz/process",
}
"""Operation and status (of a refusal: code) → what is asked of a book with one provider."""

REFUSED_STREAMS: dict[str, tuple[str, dict[str, str]]] = {
    "BAD_FILTER": ("?channel=trades", {}),
    "BAD_ADDRESS": ("?provider=GABC", {}),
    "BAD_AFTER": ("?after=yesterday", {}),
    "BAD_HANDSHAKE": ("", {"Sec-WebSocket-Key": "short"}),
}


@pytest.fixture
def example(request: pytest.FixtureRequest) -> Callable[..., None]:
    """`example(operation, of, value)`: the file has that very value, or is given it.

    `varies` names members that are others each time.
    """

    def check(operation: str, of: str, value: Any, varies: Sequence[str] = ()) -> None:
        known = json.loads(EXAMPLES.read_bytes())
        if varies and of in known.get(operation, {}):
            assert all(isinstance(value[name], str) for name in varies)
            value = value | {name: known[operation][of][name] for name in varies}
        if request.config.getoption("--update-golden"):
            known.setdefault(operation, {})[of] = value
            # Members stay in the order in which they are sent.
            tidy = {name: dict(sorted(known[name].items())) for name in sorted(known)}
            EXAMPLES.write_text(json.dumps(tidy, indent=2, ensure_ascii=False) + "\n")
        assert known.get(operation, {}).get(of) == value

    return check


@pytest.fixture
def market(rows: Connection) -> Connection:
    """One provider, its offer, and an order that a proof has settled."""
    insert_book(rows, total_available=1000, offer_count=1)
    insert_rail(rows)
    insert_provider(rows, completed_orders=3, fulfillment_seconds=540)
    insert_terms(rows)
    insert_payee(rows)
    history = {"completed_orders": 3, "avg_fulfillment_seconds": 180}
    insert_offer(rows, handles={"revolut": "@maria"}, **history)
    insert_depth(rows, "revolut", 1000, 1)
    insert_order(rows, **fulfilled())
    insert_day_done(rows, date(2026, 11, 20))
    insert_market_day(rows, date(2026, 11, 20))
    insert_cursor(rows, STELLAR)
    insert_reconciliation(rows)
    return rows


@pytest.mark.parametrize(("operation", "of"), QUERIES)
def test_response_equals_example(
    market: Connection, client: FlaskClient, example: Any, operation: str, of: str
) -> None:
    answer = client.get(QUERIES[operation, of])
    assert of in (str(answer.status_code), answer.json.get("code") if of.isupper() else of)
    shown = answer.json
    if operation == "isReady":
        # By the database's clock, which does not stand.
        shown["chains"][0]["age_seconds"] = 0
    if (operation, of) == ("showStatus", "200"):
        assert shown["at"] is not None
        shown["at"] = shown["as_of"] = "2026-11-21T12:00:00Z"
        shown["chains"][0]["age_seconds"] = 0
    if of == "200" and operation == "listRoutes":
        # They are of one kind.
        shown["routes"] = [route for route in shown["routes"] if route["id"] == "usdc-withdraw"]
    example(operation, of, shown)


@pytest.mark.parametrize("code", REFUSED_STREAMS)
def test_refused_handshake_equals_example(
    market: Connection, client: FlaskClient, example: Any, code: str
) -> None:
    query, headers = REFUSED_STREAMS[code]
    example("openStream", code, shake(client, query, **headers))


def shake(client: FlaskClient, query: str = "", **headers: str) -> Any:
    """What is answered to a handshake on a server that could upgrade it."""
    answer = client.get(
        f"{API}/stream{query}",
        headers=HANDSHAKE | headers,
        environ_overrides={"werkzeug.socket": object()},
    )
    return answer.json


def test_full_or_disabled_stream_equals_example(reader: Engine, example: Any) -> None:
    app = make_app(reader, stream=StreamLimits(clients=1))
    assert stream_of(app).slots.take("192.0.2.1")
    example("openStream", "STREAM_FULL", shake(app.test_client()))
    app = make_app(reader, stream=StreamLimits(clients=0))
    example("openStream", "STREAM_NOT_SERVED", shake(app.test_client()))
    app = make_app(reader, web=BrowserPolicy(origins=frozenset({"https://app.example"})))
    refused = shake(app.test_client(), Origin="https://evil.example")
    example("openStream", "ORIGIN_NOT_ALLOWED", refused)
    app = make_app(reader, stream=StreamLimits(clients_per_address=1))
    assert stream_of(app).slots.take("127.0.0.1")
    example("openStream", "TOO_MANY_STREAMS", shake(app.test_client()))


def test_missing_order_book_equals_example(
    rows: Connection, client: FlaskClient, cut_off: FlaskClient, example: Any
) -> None:
    example("*", "ORDER_BOOK_NOT_READY", client.get(f"{API}/orderbook").json)
    example("*", "DATABASE_UNAVAILABLE", cut_off.get(f"{API}/orderbook").json)
    example("isReady", "503", client.get("/readyz").json)
    example("isProcessReady", "503", cut_off.get("/readyz/process").json)


class Others:
    """An issuer whose tokens have no number by which to revoke them, or who answers like this."""

    issuer = URL

    def __init__(self, refusal: ApiError | None = None) -> None:
        self._refusal = refusal

    def verify(self, token: str) -> AuthSession:
        if self._refusal is not None:
            raise self._refusal
        return AuthSession(StellarAddress(ACCOUNT), None, "privy.io", UnixSeconds(NOW + 3600))


def test_session_equals_example(reader: Engine, example: Any) -> None:
    tokens = make_tokens(lifetime=86_400)
    client = make_app(reader, tokens=tokens).test_client()
    asking = {"Authorization": f"Bearer {tokens.issue(ACCOUNT, jti=secrets.token_hex(32))}"}
    example("showSession", "200", client.get("/v1/session", headers=asking).json)
    example("endSession", "200", client.delete("/v1/session", headers=asking).json)
    example("*", "UNAUTHORIZED", client.get("/v1/session", headers=asking).json)
    others = make_app(reader, tokens=Others()).test_client()
    example("endSession", "NOT_OUR_TOKEN", others.delete("/v1/session", headers=asking).json)
    for parsed in (NoStellarWallet(), WalletChanged(), IdentityUnavailable()):
        others = make_app(reader, tokens=Others(parsed)).test_client()
        example("*", parsed.code, others.get("/v1/session", headers=asking).json)


def test_quote_equals_example(rows: Connection, reader: Engine, example: Any) -> None:
    for chain in (STELLAR, SEPOLIA):
        insert_cursor(rows, chain)
    fees = FixedFees()
    client = make_quote_app(reader, fees).test_client()

    def quoted(**changes: Any) -> Any:
        return ask(client, make_body(**changes)).json

    example("createQuote", "201", quoted(), varies=["id", "expires_at"])
    for code, changes in REFUSED.items():
        example("createQuote", code, quoted(**changes))
    unread = client.post("/v1/quotes", data=b"x", headers=asking())
    example("createQuote", "UNSUPPORTED_MEDIA_TYPE", unread.json)
    evm = FixedEvm(refusals={EVM: MintRefusal("frozen", "refused")})
    refusing = make_quote_app(reader, fees, evm=evm).test_client()
    refused = ask(refusing, make_body(**withdrawal())).json
    example("createQuote", "RECIPIENT_REFUSED", refused)
    fees.failure = FeesUnavailable("fees cannot be read right now")
    example("createQuote", "FEES_UNAVAILABLE", quoted())
    rows.execute(delete(cursors).where(cursors.c.chain == SEPOLIA))
    example("createQuote", "CHAIN_UNAVAILABLE", quoted())


def steady(shown: Any) -> Any:
    """A transfer with what is another each time put to what the example has."""
    began, started = "2026-11-22T08:30:00Z", "2026-11-22T08:30:00.123456Z"
    steps = [step | {"at": step["at"] and began} for step in shown["timeline"]]
    fixed = {"id": "5e" * 16, "quote_id": "9a" * 16, "started_at": started, "timeline": steps}
    times = {"updated_at": started, "expires_at": "2026-11-22T09:00:00Z"}
    return shown | fixed | times


def test_transfer_equals_example(rows: Connection, reader: Engine, example: Any) -> None:
    for chain in (STELLAR, SEPOLIA):
        insert_cursor(rows, chain)
    client = make_transfer_app(reader).test_client()
    quote = insert_quote(rows)
    made = start(client, quote, KEY)
    example("startTransfer", "201", steady(made.json))
    example("startTransfer", "200", steady(start(client, quote, KEY).json))
    transfer = made.json["id"]
    for code, refused in {
        "BAD_IDEMPOTENCY_KEY": start(client, quote, "two words"),
        "BAD_BODY": client.post(
            "/v1/transfers", json={}, headers=asking() | {"Idempotency-Key": KEY}
        ),
        "UNSUPPORTED_MEDIA_TYPE": client.post(
            "/v1/transfers", data=b"x", headers=asking() | {"Idempotency-Key": KEY}
        ),
        "QUOTE_NOT_FOUND": start(client, "none"),
        "QUOTE_USED": start(client, quote),
        "QUOTE_EXPIRED": start(client, insert_quote(rows, seconds=-1)),
        "IDEMPOTENCY_KEY_REUSED": start(client, "none", KEY),
        "DAILY_LIMIT": start(client, insert_quote(rows, amount_in=95_000_000)),
    }.items():
        example("startTransfer", code, named(refused.json, transfer))
    example("showTransfer", "200", steady(show(client, transfer).json))
    missing = show(client, "0" * 32).json
    for operation in ("showTransfer", "cancelTransfer"):
        example(operation, "TRANSFER_NOT_FOUND", missing)
    listed: Any = client.get("/v1/transfers?limit=1", headers=asking()).json
    example("listTransfers", "200", listed | {"transfers": [*map(steady, listed["transfers"])]})
    for code, query in {
        "BAD_CURSOR": "before=yesterday",
        "BAD_LIMIT": "limit=1000",
        "UNKNOWN_PARAMETER": "after=1",
    }.items():
        refused = client.get(f"/v1/transfers?{query}", headers=asking())
        example("listTransfers", code, refused.json)
    insert_transfer(rows, ago=90_000, amount_in=85_000_000)
    much = start(client, insert_quote(rows))
    example("startTransfer", "OUTSTANDING_LIMIT", much.json)
    example("cancelTransfer", "200", steady(cancel(client, transfer).json))
    example("cancelTransfer", "NOT_CANCELLABLE", cancel(client, transfer).json)
    rows.execute(delete(cursors).where(cursors.c.chain == SEPOLIA))
    unwell = start(client, insert_quote(rows))
    example("startTransfer", "CHAIN_UNAVAILABLE", unwell.json)


def test_action_and_submission_equal_examples(
    rows: Connection, reader: Engine, example: Any
) -> None:
    for chain in MAINNET.chains:
        insert_cursor(rows, chain.id)
    evm, accounts = FixedEvm(), FixedAccounts()
    client = make_transfer_app(reader, network=MAINNET, evm=evm, accounts=accounts).test_client()
    transfer = deposit(rows, id="5e" * 16)
    much = BaseUnits(2**62)
    line = Trustline(StellarAddress(OWNER), MAINNET.stellar.usdc, True, much, much)
    accounts.lines[OWNER, MAINNET.stellar.usdc] = line
    example("showAction", "200", ask_action(client, transfer).json)
    example("submitTransaction", "NOT_MINED", submit(client, transfer).json)
    evm.mine(replace(order_for(transfer), max_fee=20_000))
    example("submitTransaction", "SUBMISSION_MISMATCH", submit(client, transfer).json)
    evm.mine(order_for(transfer))
    submitted = steady(submit(client, transfer).json) | {"eta": "2026-11-22T08:51:00Z"}
    example("submitTransaction", "200", submitted)
    example("submitTransaction", "DUPLICATE_SUBMISSION", submit(client, transfer).json)
    example("submitTransaction", "BAD_SUBMISSION", submit(client, transfer, "0x12").json)
    example("submitTransaction", "BAD_BODY", submit(client, transfer, kind=None).json)
    path = f"/v1/transfers/{transfer}/submissions"
    unread = client.post(path, data=b"x", headers=asking(OWNER))
    example("submitTransaction", "UNSUPPORTED_MEDIA_TYPE", unread.json)
    missing = ask_action(client, "0" * 32).json
    for operation in ("showAction", "submitTransaction"):
        example(operation, "TRANSFER_NOT_FOUND", missing)
    other = deposit(rows)
    few = make_transfer_app(reader, network=MAINNET, evm=LimitedEvmSource(evm), accounts=accounts)
    ask_action(few.test_client(), other)
    evm.failure = NodeUnavailable("slow")
    example("showAction", "CHAIN_UNAVAILABLE", ask_action(few.test_client(), other).json)
    example("submitTransaction", "CHAIN_UNAVAILABLE", submit(few.test_client(), other).json)
    paid, stellar = stellar_payment(rows, owner=ME, source_address=ME), FixedStellar(drafted())
    for account in (NOBODY, ME):
        accounts.lines[account, MAINNET.stellar.usdc] = line
    signer = make_transfer_app(reader, network=MAINNET, stellar=stellar, accounts=accounts)
    ask_action(signer.test_client(), paid, ME)
    accounts.rules[ME] = make_rules()
    given = {"kind": "stellar_tx", "signed_xdr": signed(stellar.made)}
    failed = {"outcome": "reverted", "spent": 100, "closed_at": func.now()}
    for number in range(MAX_PAID_FAILURES):
        tx = f"{number:064x}"
        signed_by_relay(rows, MAINNET.stellar.id, "submit", paid, tx, key=tx, **failed)
    refused = submit(signer.test_client(), paid, None, ME, **given)
    example("submitTransaction", "TOO_MANY_FAILURES", refused.json)
    for table in (relay.attempts, relay.slots):
        rows.execute(delete(table))
    cancel(signer.test_client(), paid, ME)
    late = submit(signer.test_client(), paid, None, ME, **given)
    example("submitTransaction", "NOT_AWAITED", late.json)
    accounts.failure = LedgerUnavailable("the ledger cannot be read right now")
    example("showAction", "LEDGER_UNAVAILABLE", ask_action(few.test_client(), other).json)
    unread = submit(signer.test_client(), paid, None, ME, **given)
    example("submitTransaction", "LEDGER_UNAVAILABLE", unread.json)


_SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
"""The bytes from 0 to 31."""


def test_webhooks_equal_examples(rows: Connection, reader: Engine, example: Any) -> None:
    client = make_webhook_app(reader).test_client()
    place = {"url": "https://shop.example/hooks/isthmus"}

    def register(**body: Any) -> Any:
        return client.post("/v1/webhooks", json=body, headers=asking()).json

    def ask(path: str = "") -> Any:
        return client.get(f"/v1/webhooks{path}", headers=asking()).json

    example("registerWebhook", "WEBHOOKS_UNAVAILABLE", register(**place))
    insert_sender(rows)
    transfer = insert_events(rows, 3)
    made = register(**place, after=1)
    webhook = made["id"]
    example("registerWebhook", "201", made | _MADE | {"secret": _SECRET})
    example("registerWebhook", "200", register(**place) | _MADE)
    example("registerWebhook", "BAD_AFTER", register(url="https://shop.example/b", after=4))
    example("registerWebhook", "BAD_WEBHOOK_URL", register(url="http://shop.example/"))
    example("registerWebhook", "BAD_BODY", register(url=None))
    unread = client.post("/v1/webhooks", data=b"x", headers=asking()).json
    example("registerWebhook", "UNSUPPORTED_MEDIA_TYPE", unread)
    off = make_webhook_app(reader, webhook_key=None).test_client()
    refused = off.post("/v1/webhooks", json=place, headers=asking()).json
    example("registerWebhook", "WEBHOOKS_OFF", refused)
    insert_delivery(rows, webhook, 2, attempts=4, answer=503, outcome=None)
    insert_state(rows, webhook, 1, failures=4, next_at=func.now() + timedelta(minutes=5))
    tried = {"last_attempt_at": _MOMENT, "next_attempt_at": "2026-11-22T08:35:00.123456Z"}
    listed = ask()
    listed["webhooks"] = [each | _MADE | tried for each in listed["webhooks"]]
    example("listWebhooks", "200", listed)
    example("listWebhooks", "UNKNOWN_PARAMETER", ask("?limit=1"))
    example("showWebhook", "200", ask(f"/{webhook}") | _MADE | tried)
    events = ask(f"/{webhook}/events")
    for each in events["events"]:
        assert each["transfer_id"] == transfer
        each |= {"at": _MOMENT, "transfer_id": "5e" * 16}
        times = [name for name in ("first_at", "last_at") if each["delivery"][name]]
        each["delivery"] |= dict.fromkeys(times, _MOMENT)
    example("listWebhookEvents", "200", events)
    for code, query in {
        "BAD_AFTER": "after=x",
        "BAD_FILTER": "missed=yes",
        "BAD_LIMIT": "limit=1000",
        "UNKNOWN_PARAMETER": "before=1",
    }.items():
        example("listWebhookEvents", code, ask(f"/{webhook}/events?{query}"))
    missing = "/" + "0" * 32
    example("showWebhook", "WEBHOOK_NOT_FOUND", ask(missing))
    example("listWebhookEvents", "WEBHOOK_NOT_FOUND", ask(f"{missing}/events"))
    gone = client.delete(f"/v1/webhooks{missing}", headers=asking()).json
    example("removeWebhook", "WEBHOOK_NOT_FOUND", gone)
    rewound = client.delete(f"/v1/webhooks/{webhook}", headers=asking()).json
    example("removeWebhook", "200", rewound)
    for number in range(5):
        register(url=f"https://shop.example/{number}")
    example("registerWebhook", "WEBHOOK_LIMIT", register(url="https://shop.example/more"))


_MOMENT = "2026-11-22T08:30:00.123456Z"
_MADE = {"id": "7d" * 16, "created_at": _MOMENT}


def named(refused: Any, transfer: str) -> Any:
    """A refusal with the transfer's name put to what the example has."""
    texts = {name: text.replace(transfer, "5e" * 16) for name, text in refused.items()}
    return refused | texts


def test_sign_in_equals_example(reader: Engine, cut_off: FlaskClient, example: Any) -> None:
    ledger = FixedAccounts(make_rules())
    client = make_sign_in_app(reader, ledger).test_client()
    account = WALLET.public_key
    for code, query in {
        "BAD_ADDRESS": "account=GABC",
        "BAD_MEMO": f"account={account}&memo=1",
        "BAD_HOME_DOMAIN": f"account={account}&home_domain=example.org",
    }.items():
        example("getChallenge", code, client.get(f"/auth?{query}").json)
    challenge = client.get(f"/auth?account={account}").json
    example("getChallenge", "200", challenge, varies=["transaction"])
    signed = {"transaction": sign(challenge["transaction"])}
    ledger.failure = LedgerUnavailable("the ledger cannot be read right now")
    example("signIn", "LEDGER_UNAVAILABLE", client.post("/auth", json=signed).json)
    ledger.failure = None
    example("signIn", "200", client.post("/auth", json=signed).json, varies=["token"])
    example("signIn", "CHALLENGE_USED", client.post("/auth", json=signed).json)
    example("signIn", "BAD_CHALLENGE", client.post("/auth", json=challenge).json)
    example("signIn", "BAD_BODY", client.post("/auth", json={}).json)
    example("signIn", "UNKNOWN_PARAMETER", client.post("/auth", data={"memo": "1"}).json)
    twice = client.post("/auth", data={"transaction": ["AAAA", "AAAA"]})
    example("signIn", "REPEATED_PARAMETER", twice.json)
    example("signIn", "UNSUPPORTED_MEDIA_TYPE", client.post("/auth", data=b"x").json)
    example("*", "SIGN_IN_OFF", cut_off.get(f"/auth?account={account}").json)
    example("showStellarToml", "200", client.get("/.well-known/stellar.toml").text)


def test_rate_limit_error_equals_example(reader: Engine, example: Any) -> None:
    limiter = RateLimiter(RateBudgets({READS: parse("6000/minute")}), clock=lambda: float(NOW))
    limiter.count(READS, "127.0.0.1")
    client = make_app(reader, limiter=limiter).test_client()
    answers = [client.get("/nothing") for _ in range(6000)]
    example("*", "TOO_MANY", answers[-1].json)


def test_server_errors_equal_examples(example: Any) -> None:
    for status in (414, 431, 503):
        example("*", code_for_status(status), json.loads(error_body(status)))


def test_common_errors_equal_examples(cut_off: FlaskClient, example: Any) -> None:
    cut_off.application.add_url_rule("/divide", view_func=lambda: str(1 // 0))
    example("*", "BAD_QUERY", cut_off.get("/healthz?%00").json)
    refused = cut_off.get(f"{API}/orderbook?rail=a&rail=b")
    example("*", "REPEATED_PARAMETER", refused.json)
    example("*", "NOT_THE_SAME", cut_off.get("/openapi.json", headers={"If-Match": '"x"'}).json)
    refused = cut_off.get("/v1/status", headers={"X-Position": "1"})
    example("*", "BAD_POSITION", refused.json)
    example("*", "BODY_TOO_LARGE", cut_off.post("/healthz", data=b"x" * (64 * 1024 + 1)).json)
    example("*", "INTERNAL", cut_off.get("/divide").json)


def test_stream_messages_equal_examples(market: Connection, example: Any) -> None:
    [offer] = queries.offers(market)
    body = messages.offer_body("add", messages.listed_offer(offer), NOW_LEDGER)
    end = end_of_ledger(NOW_LEDGER, ReadPosition(NOW_LEDGER, CLOSED_AT, 0))
    example("openStream", "OfferMessage", parsed(messages.number(body, 1000004, end)))
    entry = dict(market.exec_driver_sql("SELECT * FROM projections.orders").one()._mapping)
    order = messages.book_change("intent", None, entry, NOW_LEDGER)
    example("openStream", "OrderMessage", parsed(messages.number(order.body, 1000005, end)))
    marker = messages.marker_body(NOW_LEDGER)
    example("openStream", "LedgerMarker", parsed(messages.number(marker, 1000006, end)))
    opening = messages.marker_body(NOW_LEDGER, "resume")
    example("openStream", "StreamMarker", parsed(messages.number(opening, 1000007, b"")))


def test_transfer_messages_equal_examples(rows: Connection, reader: Engine, example: Any) -> None:
    for chain in (STELLAR, SEPOLIA):
        insert_cursor(rows, chain)
    shown = start(make_transfer_app(reader).test_client(), insert_quote(rows), KEY).json
    frame = messages.transfer_frame(json.dumps(steady(shown)).encode(), 57)
    example("openStream", "TransferMessage", parsed(frame))
    session = AuthSession(StellarAddress(ACCOUNT), None, URL, UnixSeconds(NOW + 86_400))
    marker = parsed(messages.transfers_frame("resume", session, 57))
    example("openStream", "TransferMarker", marker)
    quoted = {"auth": "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJHQSJ9.c2ln", "after": 41}
    assert parse_client_message(json.dumps(quoted)) is not None
    example("openStream", "Authentication", quoted)


def parsed(frame: bytes) -> Any:
    """The JSON in a frame of text."""
    return json.loads(frame[frame.index(b"{") :])


def test_every_example_belongs_to_an_operation(app_of_no_database: Flask) -> None:
    known = json.loads(EXAMPLES.read_bytes())
    document = app_of_no_database.test_client().get("/openapi.json").json
    names = {o["operationId"] for methods in document["paths"].values() for o in methods.values()}
    assert known.keys() <= names | {"*"}


@pytest.fixture
def app_of_no_database(cut_off: FlaskClient) -> Flask:
    return cut_off.application
