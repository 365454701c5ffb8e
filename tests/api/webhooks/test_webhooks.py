"""Webhook endpoints: registration, owner isolation, delivery state and removal."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, func, select, update

from api.webhooks.store import MAX_PER_DAY, MAX_WEBHOOKS
from tests.api.webhooks.conftest import make_webhook_app
from tests.factories.projections import address
from tests.factories.quotes import asking
from tests.factories.tokens import ACCOUNT
from tests.factories.webhooks import (
    PUBLIC_KEY,
    begun,
    insert_delivery,
    insert_events,
    insert_sender,
    insert_stages,
    insert_state,
    insert_webhook,
    remove_webhook,
)
from warehouse_schema.intake import webhooks

PATH = "/v1/webhooks"
URL = "https://shop.example/hooks"
OTHER = address(9)


def register(client: FlaskClient, url: Any = URL, account: str = ACCOUNT, **more: Any):
    return client.post(PATH, json={"url": url, **more}, headers=asking(account))


def show(client: FlaskClient, path: str = "", account: str = ACCOUNT):
    return client.get(f"{PATH}{path}", headers=asking(account))


def remove(client: FlaskClient, webhook: str, account: str = ACCOUNT):
    return client.delete(f"{PATH}/{webhook}", headers=asking(account))


def test_new_webhook_starts_after_last_event(kept: Connection, owner_client: FlaskClient):
    insert_events(kept, 3)
    answer = register(owner_client)
    assert answer.status_code == 201
    shown = answer.json
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", shown.pop("secret"))
    assert (shown["url"], shown["state"], shown["position"], shown["after"]) == (
        URL,
        "active",
        3,
        3,
    )
    assert show(owner_client, f"/{shown['id']}").json == shown
    assert show(owner_client).json == {"webhooks": [shown], "public_key": PUBLIC_KEY}


def test_registered_url_returns_same_webhook(owner_client: FlaskClient):
    first, again = register(owner_client), register(owner_client, after=0)
    assert (again.status_code, again.json) == (200, first.json | {"secret": None})
    other = register(owner_client, account=OTHER)
    assert other.status_code == 201
    assert other.json["id"] != first.json["id"]
    assert other.json["secret"] != first.json["secret"]


def test_url_after_removal_has_new_secret(owner_client: FlaskClient):
    first = register(owner_client).json
    remove(owner_client, first["id"])
    assert register(owner_client).json["secret"] not in (first["secret"], None)


def test_after_beyond_last_event_returns_400(kept: Connection, owner_client: FlaskClient):
    insert_events(kept, 3)
    assert register(owner_client, after=1).json["position"] == 1
    beyond = register(owner_client, f"{URL}/b", after=4)
    assert (beyond.status_code, beyond.json["code"]) == (400, "BAD_AFTER")
    assert "your last event, 3" in beyond.json["message"]


BAD_URL_RETURNS_400 = [
    *("http://shop.example/", "ftp://shop.example/", "https://", "https:///a", "shop.example"),
    *("https://127.0.0.1/", "https://2130706433/", "https://0x7f000001/", "https://127.1/"),
    *("https://[::1]/", "https://user@shop.example/", "https://user:pw@shop.example/"),
    *("https://shop.example:0/", "https://shop.example:65536/", "https://shop.example:/"),
    *("https://shop.example/#a", "https://shop.example/a b", "https://shop.example/\r\nX: y"),
    *(
        "https://shöp.example/",
        "https://shop..example/",
        "https://shop.example\\@x/",
        " " + URL,
        URL + " ",
        URL + "\n",
    ),
    *("https://shop.example/" + "a" * 2000, "https://shop.example./", ""),
]


def test_bad_url_returns_400(owner_client: FlaskClient, subtests: pytest.Subtests):
    for url in BAD_URL_RETURNS_400:
        with subtests.test(url=url):
            answer = register(owner_client, url)
            assert (answer.status_code, answer.json["code"]) == (400, "BAD_WEBHOOK_URL")


@pytest.mark.parametrize(
    "url",
    [
        *("https://shop.example", "https://shop.example?a=b", "https://shop.example:8443/a?b=c@d"),
        *("https://xn--shp-sna.example/", "https://localhost:8443/", "HTTPS://shop.example/"[5:]),
    ],
)
def test_public_url_is_accepted(owner_client: FlaskClient, url: str):
    wanted = url if url.startswith("https") else f"https{url}"
    assert register(owner_client, wanted).status_code == 201


@pytest.mark.parametrize(
    "body",
    [{}, {"url": 7}, {"url": URL, "after": -1}, {"url": URL, "after": "1"}, {"url": URL, "x": 1}],
)
def test_body_of_another_shape_returns_400(owner_client: FlaskClient, body: Any):
    answer = owner_client.post(PATH, json=body, headers=asking())
    assert (answer.status_code, answer.json["code"]) == (400, "BAD_BODY")


def test_webhook_limit_holds_for_concurrent_requests(
    kept: Connection, owner_client: FlaskClient, reader: Engine
):
    app = make_webhook_app(reader)

    def ask(number: int) -> int:
        status: int = register(app.test_client(), f"{URL}/{number % 8}").status_code
        return status

    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(ask, range(24)))
    assert statuses.count(201) == MAX_WEBHOOKS
    assert set(statuses) <= {200, 201, 422}
    refused = register(owner_client, f"{URL}/more")
    assert (refused.status_code, refused.json["code"]) == (422, "WEBHOOK_LIMIT")
    mine = show(owner_client).json["webhooks"]
    assert len(mine) == len({each["url"] for each in mine}) == MAX_WEBHOOKS
    assert remove(owner_client, mine[0]["id"]).json == {"removed": True}
    assert register(owner_client, f"{URL}/more").status_code == 201


def test_daily_registrations_are_limited(kept: Connection, owner_client: FlaskClient):
    for _ in range(MAX_PER_DAY):
        remove_webhook(kept, insert_webhook(kept))
    assert register(owner_client).json["code"] == "WEBHOOK_LIMIT"
    kept.execute(update(webhooks).values(created_at=func.now() - timedelta(days=1)))
    assert register(owner_client).status_code == 201


def test_removed_webhook_is_gone(kept: Connection, owner_client: FlaskClient):
    webhook = register(owner_client).json["id"]
    assert remove(owner_client, webhook).json == {"removed": True}
    assert show(owner_client).json["webhooks"] == []
    for answer in (
        remove(owner_client, webhook),
        show(owner_client, f"/{webhook}"),
        show(owner_client, f"/{webhook}/events"),
    ):
        assert (answer.status_code, answer.json["code"]) == (404, "WEBHOOK_NOT_FOUND")
    assert register(owner_client).json["id"] != webhook
    assert kept.scalar(select(func.count()).select_from(webhooks)) == 2


def test_stopped_webhook_is_replaced_without_gap(kept: Connection, owner_client: FlaskClient):
    insert_events(kept, 4)
    places = [insert_webhook(kept, URL), *(insert_webhook(kept, f"{URL}/{n}") for n in range(4))]
    insert_state(kept, places[0], 2, failures=70, stopped="unreachable")
    answer = register(owner_client, after=2)
    assert (answer.status_code, answer.json["state"], answer.json["position"]) == (201, "active", 2)
    mine = {each["id"] for each in show(owner_client).json["webhooks"]}
    assert mine == {answer.json["id"], *places[1:]}


@pytest.mark.parametrize("webhook", ["0" * 32, "x", "%00", "A" * 32])
def test_unknown_webhook_returns_404(owner_client: FlaskClient, webhook: str):
    assert show(owner_client, f"/{webhook}").status_code == 404


def test_webhook_of_another_owner_returns_404(kept: Connection, owner_client: FlaskClient):
    webhook = register(owner_client).json["id"]
    insert_events(kept)
    assert show(owner_client, account=OTHER).json["webhooks"] == []
    for answer in (
        show(owner_client, f"/{webhook}", OTHER),
        show(owner_client, f"/{webhook}/events", OTHER),
        remove(owner_client, webhook, OTHER),
    ):
        assert (answer.status_code, answer.json["code"]) == (404, "WEBHOOK_NOT_FOUND")
    assert show(owner_client, f"/{webhook}").status_code == 200


def test_delivery_state_is_shown(kept: Connection, owner_client: FlaskClient):
    failing, gone, dead, fine = (insert_webhook(kept, f"{URL}/{n}") for n in range(4))
    soon = func.now() + timedelta(minutes=5)
    insert_state(kept, failing, 4, failures=2, next_at=soon)
    insert_state(kept, gone, 5, failures=1, next_at=soon, stopped="gone")
    insert_state(kept, dead, 6, failures=80, next_at=soon, stopped="unreachable")
    insert_state(kept, fine, 7)
    shown = {each["id"]: each for each in show(owner_client).json["webhooks"]}
    assert {
        name: (each["state"], each["stopped_reason"], each["position"], each["failures"])
        for name, each in shown.items()
    } == {
        failing: ("failing", None, 4, 2),
        gone: ("stopped", "gone", 5, 1),
        dead: ("stopped", "unreachable", 6, 80),
        fine: ("active", None, 7, 0),
    }
    waits = {name for name, each in shown.items() if each["next_attempt_at"] is not None}
    assert waits == {failing}
    assert all(each["last_attempt_at"] is not None for each in shown.values())


def test_missed_events_are_listed(kept: Connection, owner_client: FlaskClient):
    before = insert_events(kept)
    webhook = insert_webhook(kept, after=1)
    transfer = insert_events(kept, 5)
    # An event that bears the wrong owner's name is nobody's.
    insert_stages(kept, begun(kept, OTHER))
    insert_delivery(kept, webhook, 2)
    insert_delivery(kept, webhook, 3, attempts=31, answer=500, outcome="given_up")
    insert_delivery(kept, webhook, 4)
    failed = {"answer": None, "error": "NotPublic", "outcome": None}
    insert_delivery(kept, webhook, 5, attempts=2, **failed)
    insert_state(kept, webhook, 4, failures=2)
    shown = show(owner_client, f"/{webhook}/events").json
    assert [each["transfer_id"] for each in shown["events"]] == [transfer] * 5 != [before] * 5
    assert [
        (
            each["number"],
            *(each["delivery"][name] for name in ("state", "attempts", "status", "error")),
        )
        for each in shown["events"]
    ] == [
        (2, "delivered", 1, 204, None),
        (3, "given_up", 31, 500, None),
        (4, "delivered", 1, 204, None),
        (5, "retrying", 2, None, "NotPublic"),
        (6, "waiting", 0, None, None),
    ]
    assert shown["next_after"] is None
    missed = show(owner_client, f"/{webhook}/events?missed=1&limit=2").json
    assert ([each["number"] for each in missed["events"]], missed["next_after"]) == ([3, 5], 5)
    rest = show(owner_client, f"/{webhook}/events?missed=1&limit=2&after=5").json
    assert ([each["number"] for each in rest["events"]], rest["next_after"]) == ([6], None)


def test_events_of_stopped_webhook_are_given_up(kept: Connection, owner_client: FlaskClient):
    webhook = insert_webhook(kept)
    insert_events(kept, 2)
    insert_delivery(kept, webhook, 1, answer=410, outcome="given_up")
    insert_state(kept, webhook, 1, failures=1, stopped="gone")
    events = show(owner_client, f"/{webhook}/events").json["events"]
    assert [each["delivery"]["state"] for each in events] == ["given_up", "given_up"]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        *(("after=x", "BAD_AFTER"), ("after=-1", "BAD_AFTER"), ("after=" + "9" * 19, "BAD_AFTER")),
        *(("limit=0", "BAD_LIMIT"), ("limit=201", "BAD_LIMIT"), ("limit=x", "BAD_LIMIT")),
        *(("missed=2", "BAD_FILTER"), ("before=1", "UNKNOWN_PARAMETER")),
    ],
)
def test_bad_page_returns_400(owner_client: FlaskClient, query: str, code: str):
    answer = show(owner_client, f"/{'0' * 32}/events?{query}")
    assert (answer.status_code, answer.json["code"]) == (400, code)


def test_webhooks_without_key_return_404(kept: Connection, reader: Engine):
    client = make_webhook_app(reader, webhook_key=None).test_client()
    answer = register(client)
    assert (answer.status_code, answer.json["code"]) == (404, "WEBHOOKS_OFF")
    assert show(client).json == {"webhooks": [], "public_key": None}


def test_other_sender_key_returns_503(kept: Connection, owner_client: FlaskClient, reader: Engine):
    stranger = make_webhook_app(reader, webhook_key=f"whpk_{'B' * 43}=").test_client()
    answer = register(stranger)
    assert (answer.status_code, answer.json["code"]) == (503, "WEBHOOKS_UNAVAILABLE")
    # A key that came later is the one that signs.
    insert_sender(kept, f"whpk_{'B' * 43}=")
    assert register(stranger).status_code == 201
    assert register(owner_client).json["code"] == "WEBHOOKS_UNAVAILABLE"


def test_webhook_key_is_in_stellar_toml(reader: Engine):
    client = make_webhook_app(reader).test_client()
    assert f'WEBHOOK_SIGNING_KEY = "{PUBLIC_KEY}"' in client.get("/.well-known/stellar.toml").text
    without = make_webhook_app(reader, webhook_key=None).test_client()
    assert "WEBHOOK" not in without.get("/.well-known/stellar.toml").text
