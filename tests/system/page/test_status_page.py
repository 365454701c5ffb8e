"""The status page: verdict, figures, what it says when nothing answers, and who can read it."""

import json
import re

import pytest
from sqlalchemy import delete, insert, text, update

from tests.factories.projections import LEDGER, insert_cursor, insert_reconciliation
from tests.system.page.accessibility import NARROWEST, focused, violations
from tests.system.page.visiting import DESKTOP, PHONE
from warehouse_schema.engine import make_engine
from warehouse_schema.facts import alarms, cursors
from warehouse_schema.projections import reconciliation

STELLAR, EVM = "stellar:devnet", "eip155:31337"
SECRET = "https://node.example/SECRET"


class Service:
    """A served API and the rows behind its status."""

    def __init__(self, town, engine):
        self.url, self.serving, self._engine = town.url, town.serving, engine

    def write(self, *statements):
        with self._engine.begin() as conn:
            for statement in statements:
                conn.execute(statement)

    def settle(self):
        """Everything is well: both chains at their heads, a relay on each, sums that add up."""
        with self._engine.begin() as conn:
            insert_cursor(conn, STELLAR, final_height=LEDGER)
            insert_cursor(conn, EVM, final_height=LEDGER - 64)
            # No follower runs: the chains stay as they are for the length of a test.
            later = text("now() + interval '1 hour'")
            conn.execute(update(cursors).values(updated_at=later, reported_at=later))
            conn.execute(text("UPDATE relay.health SET seen_at = now() + interval '1 hour'"))
            insert_reconciliation(conn)


@pytest.fixture
def service(empty_town, database):
    engine = make_engine(database)
    yield Service(empty_town, engine)
    engine.dispose()


def go(visit):
    visit.page.goto(f"{visit.url}/status")
    return visit


def sentence(visit):
    return visit.text("#sentence")


def verdict(visit):
    return visit.page.locator("#verdict").get_attribute("data-verdict")


def table(visit, name):
    return visit._table(f"#{name}")


def alarm(**fields):
    row = {"chain": EVM, "kind": "undecodable", "subject": "7/a/1", "detail": SECRET}
    return insert(alarms).values(row | fields)


def test_healthy_service_is_shown_as_the_api_says(service, visits):
    service.settle()
    visit = go(visits(service))
    visit.until(lambda: verdict(visit) == "moving")
    assert sentence(visit) == "Transfers are moving."
    assert visit.phase() == "live"
    shown = service.serving.get("/v1/status").json()
    stellar, evm = table(visit, "chains")
    assert (stellar["State"], stellar["Final up to"]) == ("healthy", "1,234,567, all")
    assert evm["Chain"].split("\n") == ["Devnet EVM", EVM]
    assert (evm["Height"], evm["Behind its head"]) == ("1,234,567", "at its head")
    assert evm["Final up to"] == "1,234,503, 64 blocks to go"
    routes = table(visit, "routes")
    assert len(routes) == len(shown["routes"]) > 2
    assert {row["State"] for row in routes} == {"available"}
    assert {row["Today’s median"] for row in routes} == {"none yet"}
    assert {row["9 of 10 within"] for row in routes} == {"not known"}
    assert visit.text("#adds-up") == "add up"
    assert visit.text("#compared").endswith(" s ago")
    assert visit.text("#under-way") == "3"
    assert visit.text("#incidents-empty") == "None."


def test_problem_appears_while_the_page_is_open(service, visits):
    service.settle()
    visit = go(visits(service))
    visit.until(lambda: verdict(visit) == "moving")
    service.write(
        update(cursors).where(cursors.c.chain == EVM).values(held=SECRET),
        alarm(kind="WrongChain", subject=EVM),
    )
    visit.until(lambda: verdict(visit) == "impaired")
    assert sentence(visit) == f"Some transfers are not moving: {EVM} is on hold."
    assert visit.text("#announcement") == sentence(visit)
    assert {row["Chain"].split("\n")[0]: row["State"] for row in table(visit, "chains")} == {
        "Devnet Stellar": "healthy",
        "Devnet EVM": "on hold",
    }
    assert {row["State"] for row in table(visit, "routes")} == {"available", "not available"}
    [incident] = table(visit, "incidents")
    assert (incident["What"], incident["Chain"], incident["Ended"]) == (
        "Reading of the chain stopped",
        "Devnet EVM",
        "not yet",
    )
    assert "SECRET" not in visit.page.content()


def test_nothing_is_shown_as_good_before_it_is_known(service, visits):
    visit = visits(service)
    waiting = []
    visit.page.route("**/v1/status", lambda route: waiting.append(route))
    go(visit)
    visit.until(lambda: len(waiting) == 1)
    assert (verdict(visit), sentence(visit)) == ("asking", "Asking whether transfers are moving…")
    assert [visit.text(f"#{name}-empty") for name in ("chains", "routes", "incidents")] == [
        "Not known yet."
    ] * 3
    assert [visit.text(f"#{name}") for name in ("adds-up", "compared", "under-way")] == ["–"] * 3
    waiting[0].continue_()
    visit.until(lambda: verdict(visit) == "unknown")
    assert sentence(visit).startswith("It is not known whether transfers are moving: ")
    [stellar] = table(visit, "chains")
    assert (stellar["State"], stellar["Height"], stellar["Last block read"]) == (
        "not read yet",
        "–",
        "–",
    )
    assert visit.text("#adds-up") == "not compared yet"
    assert visit.text("#under-way") == "–"
    assert visit.text("#routes-empty") == "No route is served."


def test_api_that_cannot_be_reached_is_not_called_well(service, visits):
    service.settle()
    visit = visits(service)
    visit.expected = (r"ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET",)
    go(visit)
    visit.until(lambda: verdict(visit) == "moving")
    service.serving.stop()
    visit.until(lambda: verdict(visit) == "unknown")
    assert sentence(visit) == (
        "It is not known whether transfers are moving: the API cannot be reached from here."
    )
    assert visit.phase() == "waiting"
    banner = visit.text("#banner")
    assert re.match(r"What you see below was read \d+ s ago: “Transfers are moving.”", banner)
    service.serving.start()
    visit.until(lambda: verdict(visit) == "moving", seconds=40)
    assert not visit.page.locator("#banner").is_visible()


def test_error_of_the_api_is_told_from_no_answer(service, visits):
    visit = visits(service)
    visit.expected = (r"503",)
    body = {"message": "the database is not available", "code": "DATABASE_UNAVAILABLE"}
    visit.page.route("**/v1/status", lambda route: route.fulfill(status=503, json=body))
    go(visit)
    visit.until(lambda: verdict(visit) == "unknown")
    assert sentence(visit) == (
        "It is not known whether transfers are moving: "
        "the API answers with an error (the database is not available)."
    )


def test_old_answer_is_not_called_well(service, visits):
    service.settle()
    answer = service.serving.get("/v1/status").json()
    visit = visits(service)
    old = json.dumps(answer | {"as_of": "2020-01-01T00:00:00.000000Z"})
    visit.page.route(
        "**/v1/status", lambda route: route.fulfill(body=old, content_type="application/json")
    )
    go(visit)
    visit.until(lambda: visit.phase() == "stale")
    assert verdict(visit) == "unknown"
    assert "the last status is " in sentence(visit)


def test_hidden_page_asks_no_more_until_it_is_visible(service, visits):
    service.settle()
    visit = visits(service)
    visit.page.clock.install()
    go(visit)
    visit.until(lambda: verdict(visit) == "moving")

    def asked():
        return len([url for url in visit.requests if url.endswith("/v1/status")])

    def set_hidden(hidden):
        visit.page.evaluate(
            """(hidden) => {
                Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
                document.dispatchEvent(new Event("visibilitychange"));
            }""",
            hidden,
        )

    visit.page.clock.run_for(11_000)
    visit.until(lambda: asked() == 2)
    set_hidden(True)
    visit.page.clock.run_for(300_000)
    assert asked() == 2
    set_hidden(False)
    visit.until(lambda: asked() == 3)


def test_text_of_the_api_stays_text(service, visits):
    service.settle()
    answer = service.serving.get("/v1/status").json()
    hostile = "<img src=x onerror=\"document.title='owned'\">"
    answer["sentence"] = hostile
    answer["verdict"] = "moving"
    answer["chains"][0]["name"] = hostile
    answer["chains"][0]["reason"] = hostile
    answer["incidents"] = [
        {"chain": hostile, "kind": hostile, "began_at": answer["as_of"], "ended_at": None}
    ]
    visit = visits(service, viewport=PHONE)
    visit.page.route("**/v1/status", lambda route: route.fulfill(json=answer))
    go(visit)
    visit.until(lambda: sentence(visit) == hostile)
    assert visit.page.locator("main img").count() == 0
    assert "owned" not in visit.page.title()
    assert not visit.too_wide()


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE, NARROWEST], ids=["desktop", "phone", "small"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_no_sideways_scrolling(service, visits, viewport, scheme):
    service.settle()
    service.write(alarm(), update(cursors).where(cursors.c.chain == EVM).values(held=SECRET))
    visit = go(visits(service, viewport=viewport, color_scheme=scheme, bypass_csp=True))
    visit.until(lambda: verdict(visit) == "impaired")
    assert violations(visit) == []
    assert not visit.too_wide()
    # Also while nothing is known.
    service.write(delete(cursors), delete(reconciliation), text("DELETE FROM relay.health"))
    visit.page.reload()
    visit.until(lambda: verdict(visit) == "unknown")
    assert violations(visit) == []


def test_page_is_read_by_keyboard(service, visits):
    visit = go(visits(service))
    keys = visit.page.keyboard
    trail = []
    for _ in range(8):
        keys.press("Tab")
        trail.append(focused(visit))
    assert trail[0] == "Skip to the status"
    assert trail[-3:] == ["API", "The same as JSON", "API documentation"]
    visit.page.locator(".skip").focus()
    keys.press("Enter")
    assert focused(visit) == "verdict"


def test_page_is_small(service, visits):
    service.settle()
    visit = go(visits(service))
    visit.until(lambda: verdict(visit) == "moving")
    sizes = visit.page.evaluate(
        """() =>
            [...performance.getEntriesByType("navigation"),
             ...performance.getEntriesByType("resource")]
                .filter((each) => !each.name.endsWith(".woff2"))
                .map((each) => each.transferSize)"""
    )
    assert 0 < sum(sizes) < 150_000
