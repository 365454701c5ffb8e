"""Every error response is `{"message": …, "code": …}`."""

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from flask import Flask, abort
from sqlalchemy import Engine, create_engine, text
from werkzeug.test import create_environ

from api.errors import CODES, BadRequest, code_for_status
from tests.factories.app import make_app

PROVIDERS, INTENTS = "/api/v1/providers", "/api/v1/intents"
API = Path(__file__).parents[2] / "api"
UNSEEN = "GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"


@pytest.fixture
def cut_off() -> Iterator[Flask]:
    """An app whose database is not there."""
    engine = create_engine("postgresql+psycopg://nobody@127.0.0.1:1/none?connect_timeout=1")
    yield make_app(engine)
    engine.dispose()


def assert_is_error(response, status, code):
    assert response.status_code == status
    assert response.content_type == "application/json"
    assert response.json["code"] == code
    assert re.fullmatch(r"[A-Z][A-Z0-9_]*", code)
    assert CODES[code].status == status
    assert isinstance(response.json["message"], str)
    assert response.json["message"]
    assert "<" not in response.json["message"]


AN_ERROR_HAS_ONE_SHAPE = [
    ("POST", "/", 405, "METHOD_NOT_ALLOWED"),
    ("GET", "/nothing", 404, "NOT_FOUND"),
    ("POST", "/nothing", 404, "NOT_FOUND"),
    ("GET", "/static/x.css", 404, "NOT_FOUND"),
    ("GET", "/assets/", 404, "NOT_FOUND"),
    ("GET", "/assets/0/x.css", 404, "NOT_FOUND"),
    ("GET", "/v1/routes/", 404, "NOT_FOUND"),
    ("GET", "//v1/routes", 404, "NOT_FOUND"),
    ("GET", "/v1//routes", 404, "NOT_FOUND"),
    ("GET", "/v1/ROUTES", 404, "NOT_FOUND"),
    ("GET", "/%00", 404, "NOT_FOUND"),
    ("GET", "/%F0%9F%92%B6", 404, "NOT_FOUND"),
    ("GET", "/..%2f..%2fetc%2fpasswd", 404, "NOT_FOUND"),
    ("GET", "/api/v1/orderbook/nothing", 404, "NOT_FOUND"),
    ("GET", f"{PROVIDERS}/", 404, "NOT_FOUND"),
    ("GET", f"{PROVIDERS}/a/b", 404, "NOT_FOUND"),
    ("GET", f"{INTENTS}/", 404, "NOT_FOUND"),
    ("POST", "/v1/routes", 405, "METHOD_NOT_ALLOWED"),
    ("DELETE", "/api/v1/orderbook", 405, "METHOD_NOT_ALLOWED"),
    ("PUT", f"{PROVIDERS}/x", 405, "METHOD_NOT_ALLOWED"),
    ("PATCH", "/healthz", 405, "METHOD_NOT_ALLOWED"),
    ("BREW", "/healthz", 405, "METHOD_NOT_ALLOWED"),
    ("GET", "/api/v1/orderbook?currency=EURO", 400, "BAD_FILTER"),
    ("GET", "/api/v1/orderbook?direction=up", 400, "BAD_FILTER"),
    ("GET", "/api/v1/orderbook?minAmount=x", 400, "BAD_FILTER"),
    ("GET", "/api/v1/orderbook?minAmount=2&maxAmount=1", 400, "BAD_FILTER"),
    ("GET", f"{PROVIDERS}/x", 400, "BAD_ADDRESS"),
    ("GET", "/api/v1/stream", 426, "UPGRADE_REQUIRED"),
    ("GET", f"{INTENTS}/x", 400, "BAD_INTENT_ID"),
    ("GET", f"{INTENTS}?limit=0", 400, "BAD_LIMIT"),
    ("GET", f"{INTENTS}?provider=x", 400, "BAD_ADDRESS"),
    ("GET", "/readyz", 503, "NOT_READY"),
    ("GET", "/v1/routes", 503, "DATABASE_UNAVAILABLE"),
    ("GET", "/api/v1/orderbook", 503, "DATABASE_UNAVAILABLE"),
    ("GET", "/api/v1/orderbook/summary", 503, "DATABASE_UNAVAILABLE"),
    ("GET", f"{PROVIDERS}/{UNSEEN}", 503, "DATABASE_UNAVAILABLE"),
    ("GET", INTENTS, 503, "DATABASE_UNAVAILABLE"),
    ("GET", f"{INTENTS}/{'00' * 32}", 503, "DATABASE_UNAVAILABLE"),
]


def test_error_has_one_shape(cut_off, subtests):
    for method, path, status, code in AN_ERROR_HAS_ONE_SHAPE:
        with subtests.test(method=method, path=path, status=status, code=code):
            assert_is_error(cut_off.test_client().open(path, method=method), status, code)


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/v1/orderbook", 503, "ORDER_BOOK_NOT_READY"),
        (f"{PROVIDERS}/{UNSEEN}", 503, "ORDER_BOOK_NOT_READY"),
        ("/readyz", 503, "NOT_READY"),
    ],
)
def test_storage_error_has_the_same_shape(api_engine, path, status, code):
    assert_is_error(make_app(api_engine).test_client().get(path), status, code)


def test_method_not_allowed_lists_allowed_methods(cut_off):
    response = cut_off.test_client().post("/v1/routes")
    assert set(response.headers["Allow"].split(", ")) == {"GET", "HEAD", "OPTIONS"}


def test_retryable_error_has_retry_after(cut_off):
    assert cut_off.test_client().get("/api/v1/orderbook").headers["Retry-After"] == "5"


@pytest.mark.parametrize("path", ["/healthz", "/nothing", "/v1/routes"])
def test_body_over_64_kb_is_refused_on_every_path(cut_off, path):
    response = cut_off.test_client().post(path, data=b"x" * (64 * 1024 + 1))
    assert_is_error(response, 413, "BODY_TOO_LARGE")


def test_body_of_64_kb_is_accepted(cut_off):
    response = cut_off.test_client().get("/healthz", data=b"x" * 64 * 1024)
    assert response.status_code == 200


@pytest.mark.parametrize(("size", "status"), [(64 * 1024, 200), (64 * 1024 + 1, 413), (10**6, 413)])
def test_body_without_content_length_is_measured(cut_off, size, status):
    # As a server hands on a chunked body; the test client would announce its length.
    environ = create_environ("/healthz")
    environ |= {"wsgi.input": BytesIO(b"x" * size), "wsgi.input_terminated": True}
    response = cut_off.response_class.from_app(cut_off, environ)
    assert response.status_code == status
    if status == 413:
        assert_is_error(response, 413, "BODY_TOO_LARGE")


def _divide():
    return str(1 // 0)


def _refuse():
    raise BadRequest("no such thing", code="BAD_FILTER", more=1)


def _strike():
    abort(418)


def _query_nonsense(engine: Engine):
    with engine.connect() as connection:
        return str(connection.execute(text("SELECT * FROM facts.secrets")))


def test_unexpected_error_hides_its_cause(api_engine):
    app = make_app(api_engine)
    app.add_url_rule("/divide", view_func=_divide)
    app.add_url_rule("/sql", view_func=lambda: _query_nonsense(api_engine))
    for path in ("/divide", "/sql"):
        response = app.test_client().get(path)
        assert_is_error(response, 500, "INTERNAL")
        assert response.json["message"] == "something went wrong on our side"
        assert set(response.json) == {"message", "code"}


def _wait_for_postgres(engine: Engine):
    with engine.connect() as connection:
        connection.execute(text("SET LOCAL statement_timeout = '10ms'"))
        return str(connection.execute(text("SELECT pg_sleep(10)")))


def test_statement_timeout_is_retryable(api_engine):
    app = make_app(api_engine)
    app.add_url_rule("/slow", view_func=lambda: _wait_for_postgres(api_engine))
    response = app.test_client().get("/slow")
    assert_is_error(response, 503, "DATABASE_UNAVAILABLE")
    assert response.headers["Retry-After"] == "5"


def test_rare_router_status_has_the_same_shape(cut_off):
    cut_off.add_url_rule("/strike", view_func=_strike)
    response = cut_off.test_client().get("/strike")
    assert (response.status_code, response.json["code"]) == (418, "BAD_REQUEST")


CODE = re.compile(r'\bcode ?= ?"([A-Z_]+)"')


def test_error_codes_of_source_equal_the_table():
    sources = [path.read_text() for path in API.rglob("*.py")]
    used = {code for source in sources for code in CODE.findall(source)}
    used |= {code_for_status(status) for status in range(400, 600)}
    positional = {"PROVIDER_NOT_FOUND", "INTENT_NOT_FOUND", "BAD_QUERY"}
    assert used | positional == set(CODES)


def test_error_may_have_more_members(cut_off):
    cut_off.add_url_rule("/refuse", view_func=_refuse)
    response = cut_off.test_client().get("/refuse")
    assert_is_error(response, 400, "BAD_FILTER")
    assert response.json["more"] == 1
