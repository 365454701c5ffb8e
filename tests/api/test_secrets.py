"""No log line at any level contains a token, query or body."""

import logging

import pytest
from flask import request
from sqlalchemy import text

from api.parsing import Strict, read_body
from tests.factories.app import make_app

SECRET = "hunter2-T0psecret"
"""In a header, a query, a form and a body; never in a path, which is logged."""


class Login(Strict):
    transaction: str
    number: int = 0


def _fail():
    try:
        raise KeyError(request.args.get("token", ""))
    except KeyError as error:
        raise RuntimeError(f"it broke at {request.get_data()!r}") from error


@pytest.fixture
def app(api_engine):
    app = make_app(api_engine)

    def lose_statement():
        with api_engine.connect() as connection:
            wrong = text("SELECT CAST(:given AS integer)").bindparams(given=request.args["token"])
            return str(connection.execute(wrong))

    app.add_url_rule("/broken", "broken", _fail, methods=["GET", "POST"])
    app.add_url_rule("/wrong", "wrong", lose_statement)
    app.add_url_rule("/body", "body", lambda: read_body(Login).model_dump(), methods=["POST"])
    return app


QUERY = f"token={SECRET}&{SECRET}=1"
HEADERS = {
    "Authorization": f"Bearer {SECRET}",
    "Cookie": f"session={SECRET}",
    "Origin": f"https://{SECRET}.example.com",
    "X-Request-Id": f"{SECRET} with spaces",
    "If-None-Match": f'"{SECRET}"',
    "User-Agent": SECRET,
    "Referer": f"https://a.example/?{SECRET}",
}
PATHS = (
    *("/", "/healthz", "/readyz", "/nothing", "/v1/routes", "/v1/session", "/auth"),
    *("/api/v1/orderbook", "/api/v1/intents", "/api/v1/stream", "/broken", "/wrong"),
)


def test_log_contains_no_secret_at_any_level(app, caplog):
    caplog.set_level(logging.DEBUG)
    client = app.test_client()
    for path in PATHS:
        for query in (QUERY, f"{QUERY}&x=%00", f"rail={SECRET}&rail=2", f"currency={SECRET}"):
            client.get(f"{path}?{query}", headers=HEADERS)
        client.options(path, query_string=QUERY, headers=HEADERS)
        client.delete(path, query_string=QUERY, headers=HEADERS)
    for path in ("/body", "/auth", "/broken"):
        for body in (
            f'{{"transaction": "{SECRET}"}}',
            f'{{"transaction": "{SECRET}", "number": "{SECRET}"}}',
            f'{{"{SECRET}": "{SECRET}"',
            f'"{SECRET}"',
        ):
            client.post(path, data=body, headers=HEADERS, content_type="application/json")
            client.post(path, data={"transaction": SECRET}, headers=HEADERS)
    assert len(caplog.records) > 60
    shown = [logging.Formatter("%(message)s").format(record) for record in caplog.records]
    assert [line for line in shown if SECRET in line] == []
    broken = next(line for line in shown if "path='/broken'" in line and "failed" in line)
    # What broke, and where, can be told all the same.
    for word in ("RuntimeError", "KeyError", "test_secrets.py", "id="):
        assert word in broken
