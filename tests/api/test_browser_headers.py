"""Security and CORS headers of responses."""

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine

from api.app import create_app
from api.browser_headers import BrowserPolicy
from api.deps import Deps
from indexer.config.networks import load_network
from tests.factories.app import NOW
from warehouse_schema.identifiers import UnixSeconds

APP, OTHER = "https://app.example.com", "https://evil.example.com"
PATHS = ["/healthz", "/nothing", "/api/v1/orderbook", "/api/v1/orderbook?currency=EURO", "/"]


def calls(engine: Engine, web: BrowserPolicy) -> FlaskClient:
    deps = Deps(engine, load_network("testnet"), lambda: UnixSeconds(NOW), web=web)
    return create_app(deps).test_client()


@pytest.fixture
def chosen(reader: Engine) -> FlaskClient:
    """Calls an app for pages of `APP` alone."""
    return calls(reader, BrowserPolicy(frozenset({APP}), hsts_seconds=600))


@pytest.mark.parametrize("path", PATHS)
def test_every_response_has_security_headers(client, book, path):
    headers = client.get(path).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Frame-Options"] == "DENY"
    assert len(headers.getlist("Content-Security-Policy")) == 1
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "Strict-Transport-Security" not in headers


def test_hsts_is_sent_if_configured(chosen):
    headers = chosen.get("/healthz").headers
    assert headers["Strict-Transport-Security"] == "max-age=600; includeSubDomains"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("origin", [None, OTHER])
def test_any_origin_may_read_without_credentials(client, book, path, origin):
    headers = client.get(path, headers={"Origin": origin} if origin else {}).headers
    assert headers.getlist("Access-Control-Allow-Origin") == ["*"]
    assert "Access-Control-Allow-Credentials" not in headers
    exposed = headers["Access-Control-Expose-Headers"].split(", ")
    assert {"X-Ledger", "X-Ledger-Age", "ETag", "Retry-After", "X-Request-Id"} <= set(exposed)


@pytest.mark.parametrize("path", PATHS)
def test_only_configured_origins_may_read(chosen, book, path):
    for origin in (APP, APP.upper()):
        headers = chosen.get(path, headers={"Origin": origin}).headers
        assert headers.getlist("Access-Control-Allow-Origin") == [origin]
        assert "X-Ledger" in headers["Access-Control-Expose-Headers"]
        assert "Origin" in headers["Vary"]
    for origin in (OTHER, f"{APP}.evil.com", "null", f"{APP}:444", "http://app.example.com"):
        headers = chosen.get(path, headers={"Origin": origin}).headers
        assert "Access-Control-Allow-Origin" not in headers
        assert "Origin" in headers["Vary"]
    headers = chosen.get(path).headers
    assert "Access-Control-Allow-Origin" not in headers
    assert "Origin" in headers["Vary"], "a cache would hand this answer to a page"


@pytest.mark.parametrize("path", ["/auth", "/.well-known/stellar.toml"])
def test_wallet_endpoints_allow_any_origin(chosen, path):
    for headers in ({}, {"Origin": OTHER}):
        answer = chosen.get(path, headers=headers)
        assert answer.headers.getlist("Access-Control-Allow-Origin") == ["*"]


def preflight(client: FlaskClient, path: str, origin: str = APP, method: str = "POST"):
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": method,
        "Access-Control-Request-Headers": "authorization, content-type, x-evil",
    }
    return client.options(path, headers=headers)


def test_preflight_needs_no_token(client, chosen):
    for app, origin in ((client, "*"), (chosen, APP)):
        answer = preflight(app, "/v1/routes")
        assert answer.status_code == 200
        assert answer.headers.getlist("Access-Control-Allow-Origin") == [origin]
        assert "POST" in answer.headers["Access-Control-Allow-Methods"]
        assert answer.headers["Access-Control-Allow-Headers"] == "authorization, content-type"
        assert answer.headers["Access-Control-Max-Age"] == "86400"


def test_preflight_of_other_origin_has_no_cors_headers(chosen):
    answer = preflight(chosen, "/v1/routes", OTHER)
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert "Access-Control-Allow-Methods" not in answer.headers


HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


def opened(client: FlaskClient, origin: str | None) -> str:
    headers = HANDSHAKE if origin is None else {**HANDSHAKE, "Origin": origin}
    answer = client.get(
        "/api/v1/stream", base_url="ws://localhost", headers=headers,
        environ_overrides={"werkzeug.socket": object()},
    )  # fmt: skip
    return str(answer.json["code"])


def test_stream_from_other_origin_is_refused(chosen):
    assert opened(chosen, OTHER) == "ORIGIN_NOT_ALLOWED"
    assert opened(chosen, "null") == "ORIGIN_NOT_ALLOWED"


def test_allowed_origin_reaches_the_book(client, chosen):
    # There is none yet, which is found out behind the origin.
    for app, origin in ((client, OTHER), (chosen, APP), (chosen, APP.upper()), (chosen, None)):
        assert opened(app, origin) == "ORDER_BOOK_NOT_READY"
