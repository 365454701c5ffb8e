"""Concurrent `POST /v1/transfers` in separate sessions keep limits and idempotency keys."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from http import HTTPStatus

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, func, select
from werkzeug.test import TestResponse

from tests.factories.cursors import set_cursor_times
from tests.factories.projections import address
from tests.factories.quotes import OTHER
from tests.factories.started import (
    KEY,
    how_many,
    insert_quote,
    make_transfer_app,
    payment,
    start,
)
from tests.factories.tokens import ACCOUNT
from warehouse_schema.intake import quotes, transfers

THREADS = 12
MAX_TRIES = 40
"""Of a client that is told 503. A try waits up to 5 s for the lock, and eleven others go first."""


@pytest.fixture
def app(kept: Connection, reader: Engine) -> Flask:
    """Without the document held against each answer, which other tests do."""
    app = make_transfer_app(reader)
    app.test_client_class = FlaskClient
    return app


def at_once(calls: Sequence[Callable[[], TestResponse]]) -> list[TestResponse]:
    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(lambda call: call(), calls))


def start_as_client(app: Flask, quote: str, key: str, account: str = ACCOUNT) -> TestResponse:
    """Start a transfer; repeat with the same key while the answer is 503 with Retry-After."""
    for _ in range(MAX_TRIES):
        answer = start(app.test_client(), quote, key, account)
        if answer.status_code != HTTPStatus.SERVICE_UNAVAILABLE:
            return answer
        assert int(answer.headers["Retry-After"]) > 0
    return answer


def codes(answers: Sequence[TestResponse]) -> Counter[str]:
    return Counter((answer.json or {}).get("code", str(answer.status_code)) for answer in answers)


@pytest.mark.timeout(0)  # Tries are counted instead; a statement takes 5 s at most.
def test_200_concurrent_creations_keep_limits(kept, app):
    """Of 1 USDC each, from EVM chains and on Stellar: a hundred of them are started."""
    set_cursor_times(kept, timedelta(hours=1), "updated_at", "reported_at")
    kinds = [{"amount_in": 1_000_000}, payment(amount_in=10_000_000)]
    made = [insert_quote(kept, seconds=3600, **kinds[number % 2]) for number in range(200)]
    answers = at_once([lambda q=quote: start_as_client(app, q, f"key-of-{q}") for quote in made])
    # Each of these is under way, so either limit may be the one that is met.
    said = codes(answers)
    assert said["201"] == 100
    assert said["DAILY_LIMIT"] + said["OUTSTANDING_LIMIT"] == 100
    started = select(func.count()).select_from(transfers).where(transfers.c.owner == ACCOUNT)
    assert kept.scalar(started) == 100
    times = kept.scalars(select(transfers.c.started_at)).all()
    assert len(set(times)) == 100


def test_one_key_in_50_threads_creates_one_transfer(kept, app):
    quote = insert_quote(kept)
    answers = at_once([lambda: start_as_client(app, quote, KEY)] * 50)
    assert codes(answers) == {"201": 1, "200": 49}
    assert len({answer.json["id"] for answer in answers}) == 1
    assert how_many(kept) == 1


def test_one_key_with_many_quotes_creates_one_transfer(kept, app):
    made = [insert_quote(kept) for _ in range(20)]
    answers = at_once([lambda q=quote: start_as_client(app, q, KEY) for quote in made])
    assert codes(answers) == {"201": 1, "IDEMPOTENCY_KEY_REUSED": 19}
    assert how_many(kept) == 1


def test_one_quote_with_many_keys_creates_one_transfer(kept, app):
    quote = insert_quote(kept)
    answers = at_once([lambda n=n: start_as_client(app, quote, f"key-{n}") for n in range(20)])
    assert codes(answers) == {"201": 1, "QUOTE_USED": 19}
    assert how_many(kept) == 1


def test_owners_do_not_block_each_other(kept, app):
    owners = [ACCOUNT, OTHER, address(31)]
    requests = [
        (owner, insert_quote(kept, owner=owner, dest_address=owner, amount_in=20_000_000))
        for owner in owners * 6
    ]
    answers = at_once(
        [lambda a=a, q=q: start_as_client(app, q, f"key-of-{q}", a) for a, q in requests]
    )
    assert codes(answers)["201"] == 15
    sums = (
        select(transfers.c.owner, func.sum(quotes.c.amount_in))
        .join_from(transfers, quotes)
        .group_by(transfers.c.owner)
    )
    assert dict(kept.execute(sums).all()) == dict.fromkeys(owners, 100_000_000)
