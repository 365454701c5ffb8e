"""The page of transfers as a place: its sign-in by link, its secrets, accessibility and size."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from devnet.customers import Purse
from devnet.transfers import start_transfer
from tests.system.page.accessibility import violations
from tests.system.page.owner import Owner
from tests.system.page.visiting import DESKTOP, PHONE
from tests.system.page.wallets import EVM_NAME

MAX_BYTES = 150_000
"""Transferred without the font."""
STORES = """
() => [localStorage.length, sessionStorage.length, document.cookie, location.href,
    JSON.stringify(history.state), document.documentElement.outerHTML].join(" ")
"""
FOCUSED = "(({ name, id, innerText }) => name || id || innerText)(document.activeElement)"

pytestmark = pytest.mark.timeout(300)


class Linked:
    """A customer's transfer that awaits a payment, and the token of a link to it."""

    def __init__(self, bridge, name, funding_mode):
        bridge.open(**{name: Purse({"usdc": 0}, {})})
        self.who = bridge.customer(name)
        _, transfer = start_transfer(
            self.who,
            lambda: self.who.api.quote(
                "usdc-deposit",
                Decimal(5),
                source_chain="eip155:31337",
                source_address=self.who.wallet,
                dest_address=self.who.account,
                funding_mode=funding_mode,
            ),
        )
        self.transfer = transfer.id
        self.token = bridge.token(self.who.key)

    @property
    def path(self):
        return f"/transfers/{self.transfer}#{self.token}"


@pytest.fixture(scope="module")
def paid_directly(bridge):
    linked = Linked(bridge, "page paul", "direct")
    yield linked
    linked.who.close()


@pytest.fixture(scope="module")
def paid_to_address(bridge):
    linked = Linked(bridge, "page quinn", "deposit_address")
    yield linked
    linked.who.close()


def opened(bridge, visit, linked):
    """The tab with the link open and the transfer shown."""
    visit.page.goto(f"{bridge.url}{linked.path}")
    visit.until(lambda: visit.text("#phase") == "Live")
    visit.until(lambda: "This is my account" in visit.text("#action-body"))
    return visit


def test_browser_without_an_evm_wallet_says_what_to_send(bridge, visits, paid_directly):
    visit = opened(bridge, visits(bridge), paid_directly)
    visit.page.get_by_role("button", name="This is my account: show how to pay").click()
    visit.until(lambda: "No EVM wallet was found" in visit.text("#action-body"))
    assert "send what is below from the address that pays" in visit.text("#action-body")
    visit.page.get_by_text("What is sent: 2 transactions").click()
    contracts = bridge.world.evm.addresses
    shown = visit.text("#action-body").lower()
    assert shown.index(contracts.usdc) < shown.index(contracts.token_messenger)
    assert shown.index("approve: ") < shown.index("depositforburnwithhook: ")


def test_link_signs_in_and_its_token_is_kept_nowhere(bridge, visits, paid_directly):
    visit = opened(bridge, visits(bridge), paid_directly)
    assert visit.text("#who") == f"Signed in as {paid_directly.who.account} by a link Sign out"
    assert visit.page.url == f"{bridge.url}/transfers/{paid_directly.transfer}"
    token = paid_directly.token
    assert token not in visit.page.evaluate(STORES)
    assert visit.page.evaluate("localStorage.length + sessionStorage.length") == 0
    # The first request is the page's own, whose fragment a browser does not send.
    assert not [url for url in visit.requests[1:] if token in url or token.split(".")[2] in url]
    visit.page.reload()
    visit.until(lambda: visit.page.locator("#sign-in").is_visible())
    assert not visit.page.locator("#transfer").is_visible()


def test_link_shows_its_recipient_before_how_to_pay(bridge, visits, paid_to_address):
    """A stranger may have sent a link to their own transfer, for the reader to pay."""
    visit = opened(bridge, visits(bridge), paid_to_address)
    assert paid_to_address.who.account in visit.text("#action-body")
    assert visit.page.locator(".qr").count() == 0
    visit.page.get_by_role("button", name="This is my account: show how to pay").click()
    assert visit.page.locator(".qr").is_visible()


def test_browser_without_freighter_is_told_so(bridge, visits):
    visit = visits(bridge)
    visit.page.goto(f"{bridge.url}/transfers")
    visit.page.get_by_role("button", name="Sign in with Freighter").click()
    said = "Freighter is not installed in this browser."
    visit.until(lambda: visit.text("#sign-in-problem") == said)
    assert not visit.page.locator("#sign-in[inert]").is_visible()


def test_link_does_not_open_the_form_to_start_a_transfer(bridge, visits, paid_directly):
    """A transfer that is started there would pay the account of the link's author."""
    visit = visits(bridge)
    visit.page.goto(f"{bridge.url}/transfers#{paid_directly.token}")
    visit.until(lambda: visit.page.url == f"{bridge.url}/transfers")
    assert visit.page.locator("#sign-in").is_visible()
    assert not visit.page.locator("#starting").is_visible()


@pytest.mark.parametrize("fragment", ["a.b.c", "x" * 200, "<img src=x>"])
def test_bad_link_asks_to_sign_in(bridge, visits, paid_directly, fragment):
    visit = visits(bridge)
    visit.expected = (r"401 \(UNAUTHORIZED\)",)
    visit.page.goto(f"{bridge.url}/transfers/{paid_directly.transfer}#{fragment}")
    visit.until(lambda: visit.page.url.endswith(paid_directly.transfer))
    if fragment == "a.b.c":
        visit.until(lambda: "does not sign you in" in visit.text("#sign-in-problem"))
    assert visit.page.locator("#sign-in").is_visible()


def test_signing_out_revokes_the_token(bridge, visits, paid_directly):
    who = Owner(bridge, visits(bridge), "page rosa", Purse({}, {}))
    who.sign_in()
    with who.page.expect_response(f"{bridge.url}/v1/session") as answered:
        who.button("Sign out").click()
    assert answered.value.json() == {"revoked": True}
    assert who.page.locator("#sign-in").is_visible()
    assert not who.page.locator("#who").is_visible()


def test_another_owners_transfer_is_not_shown(bridge, visits, paid_directly):
    who = Owner(bridge, visits(bridge), "page sam", Purse({}, {}))
    who.visit.expected += (r"404 \(NOT FOUND\)",)
    who.sign_in(f"/transfers/{paid_directly.transfer}")
    who.visit.until(lambda: who.visit.text("#transfer-problem") != "")
    assert not who.page.locator("#transfer-parts").is_visible()


def test_refused_quote_shows_the_reason_of_the_api(bridge, visits):
    who = Owner(bridge, visits(bridge), "page tess", Purse({"usdc": 0}, {}))
    who.visit.expected += (r"400 \(BAD REQUEST\)",)
    who.sign_in()
    who.page.get_by_label("Amount").fill("5")
    who.page.get_by_label("EVM address that pays").fill("0x12")
    who.button("Get a quote").click()
    who.visit.until(lambda: "source_address" in who.visit.text("#start-problem"))
    assert not who.page.locator("#quote").is_visible()


def test_quote_before_routes_are_known_is_explained(bridge, visits):
    who = Owner(bridge, visits(bridge), "page early", Purse({"usdc": 0}, {}))
    held = []
    who.page.route("**/v1/routes", lambda route: held.append(route))
    who.sign_in()
    who.page.get_by_label("Amount").fill("5")
    who.page.locator('[name="address"]').fill(who.payer)
    who.button("Get a quote").click()
    said = "The routes are not known yet: try again in a moment."
    who.visit.until(lambda: who.visit.text("#start-problem") == said)
    who.visit.until(lambda: len(held) == 1)
    held[0].continue_()
    who.until_routes()


def test_amount_that_no_quote_takes_is_explained_in_coins(bridge, visits):
    who = Owner(bridge, visits(bridge), "page limits", Purse({"usdc": 0}, {}))
    who.sign_in()
    who.until_routes()
    who.button(f"Use {EVM_NAME}").click()
    for amount, problem in {
        "0.999999": "Amount: 1 to 20 USDC.",
        "1,5": "Amount: a number with up to 6 decimals.",
        "20.000001": "Amount: 1 to 20 USDC.",
    }.items():
        who.page.get_by_label("Amount").fill(amount)
        who.button("Get a quote").click()
        who.visit.until(lambda text=problem: who.visit.text("#start-problem") == text)
        assert not who.page.locator("#quote").is_visible()


def test_transactions_link_to_the_explorer(bridge, visits):
    """The devnet has none: the page is given one."""
    who = Owner(bridge, visits(bridge), "page ugo", Purse({"usdc": 0}, {"usdc": 5_000_000}))

    # Deferred scripts run after this event.
    who.page.add_init_script(
        """document.addEventListener("readystatechange", () => {
            const { dataset } = document.body;
            dataset.chains = dataset.chains.replaceAll(
                '"explorer_tx": null', '"explorer_tx": "https://explorer.example/{tx}"');
        }, { once: true });"""
    )
    who.sign_in()
    who.quote("Deposit", "5", None)
    who.start()
    who.button(f"Pay with {EVM_NAME}").click()
    who.until_stage("Completed")
    links = who.page.locator("#timeline a")
    shown = links.evaluate_all("(all) => all.map(({ href, rel, title }) => [href, rel])")
    assert shown
    assert all(
        re.fullmatch(r"https://explorer\.example/(0x)?[0-9a-f]{64}", href)
        and rel == "noopener noreferrer"
        for href, rel in shown
    )


@pytest.mark.parametrize("p90", [3_600, None], ids=["known", "not known"])
def test_arrival_is_shown_with_its_spread(bridge, visits, paid_directly, p90):
    """Transfers of the devnet are few and fast: the page gets one that is under way for an hour."""
    visit = visits(bridge)
    began = datetime.now(UTC).replace(microsecond=0)
    eta, latest = began + timedelta(minutes=10), began + timedelta(seconds=3_600)

    def under_way(route):
        answer = route.fetch()
        step = {"stage": "SUBMITTED", "at": began.isoformat(), "clock": None}
        timeline = [step | {"chain": None, "tx": None}]
        changed = {"stage": "SUBMITTED", "eta": eta.isoformat(), "timeline": timeline}
        route.fulfill(response=answer, json=answer.json() | changed)

    def measured(route):
        answer = route.fetch()
        body = answer.json()
        [lane] = [each for each in body["routes"] if each["route"] == "usdc-deposit"]
        # Fewer than 20 were delivered.
        assert lane["p90_seconds"] is None
        lane["p90_seconds"] = p90
        route.fulfill(response=answer, json=body)

    # The stream would show the transfer as it is, before or after that.
    visit.page.route_web_socket("**/api/v1/stream*", lambda _: None)
    visit.page.route(f"**/v1/transfers/{paid_directly.transfer}", under_way)
    visit.page.route("**/v1/status", measured)
    with visit.page.expect_response(f"{bridge.url}/v1/status"):
        visit.page.goto(f"{bridge.url}{paid_directly.path}")
    at, by = (
        visit.page.evaluate(
            "(time) => new Date(time).toLocaleTimeString('en-GB')", time.isoformat()
        )
        for time in (eta, latest)
    )
    spread = "" if p90 is None else f"; 9 of 10 on this route arrive by {by}"
    shown = re.compile(
        re.escape(f"Expected at {at}, in ") + r"(9|10) min( \d\d s)?" + re.escape(f"{spread}.")
    )
    visit.until(lambda: shown.fullmatch(visit.text("#arrival")) is not None)


def test_qr_code_has_light_around_it_on_a_dark_page(bridge, visits, paid_to_address):
    visit = opened(bridge, visits(bridge, color_scheme="dark"), paid_to_address)
    visit.page.get_by_role("button", name="This is my account: show how to pay").click()
    rows = visit.page.locator(".qr").evaluate(
        """(canvas) => {
            const { width, height } = canvas;
            const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
            return Array.from({ length: height }, (_, y) =>
                Array.from({ length: width }, (_, x) =>
                    data[4 * (y * width + x)] < 128 ? "#" : ".").join(""));
        }"""
    )
    size = len(rows) - 8
    # 42 characters in byte mode, and the sizes of QR codes.
    assert size in (29, 33, 37)
    assert set("".join(rows[:4])) == set("".join(row[:4] for row in rows)) == {"."}
    finder = ["#######", "#.....#", "#.###.#", "#.###.#", "#.###.#", "#.....#", "#######"]
    for top, left in ((4, 4), (4, size - 3), (size - 3, 4)):
        assert [row[left : left + 7] for row in rows[top : top + 7]] == finder


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_accessibility_violation(
    bridge, visits, paid_to_address, paid_directly, viewport, scheme
):
    visit = visits(bridge, viewport=viewport, color_scheme=scheme, bypass_csp=True)
    visit.page.goto(f"{bridge.url}/transfers")
    assert violations(visit) == []
    for linked in (paid_to_address, paid_directly):
        visit.page.goto("about:blank")
        opened(bridge, visit, linked)
        assert violations(visit) == []
        visit.page.get_by_role("button", name="This is my account: show how to pay").click()
        assert violations(visit) == []
        assert not visit.too_wide()
    # The navigation keeps the document, and with it the session.
    visit.page.locator("nav.pages").get_by_role("link", name="Transfers").click()
    # Routes are known.
    visit.page.locator('[name="coin"] option').first.wait_for(state="attached")
    visit.page.get_by_label("Amount").fill("5")
    visit.page.locator('[name="address"]').fill(paid_directly.who.wallet)
    visit.page.get_by_role("button", name="Get a quote").click()
    visit.page.locator("#quote").wait_for()
    assert violations(visit) == []
    assert not visit.too_wide()


def test_form_works_by_keyboard_alone(bridge, visits):
    who = Owner(bridge, visits(bridge), "page vera", Purse({"usdc": 0}, {}))
    who.sign_in()
    who.until_routes()
    keys = who.page.keyboard
    who.page.locator("#sign-out").focus()
    trail = []
    while trail[-1:] != ["get-quote"]:
        keys.press("Tab")
        trail.append(who.page.evaluate(FOCUSED))
        typed = {"amount": "5", "address": who.payer}.get(trail[-1])
        if typed is not None:
            keys.type(typed)
        assert len(trail) < 10
    fields = ["direction", "coin", "chain", "amount", "address"]
    assert trail == [*fields, f"Use {EVM_NAME}", "funding_mode", "get-quote"]
    keys.press("Enter")
    who.visit.until(lambda: who.page.evaluate(FOCUSED) == "start")
    keys.press("Enter")
    who.visit.until(lambda: who.stage() == "Waiting for your signature")
    assert who.page.evaluate(FOCUSED) == "transfer-title"


def test_page_is_small(bridge, visits):
    visit = visits(bridge)
    visit.page.goto(f"{bridge.url}/transfers", wait_until="networkidle")
    parts = visit.page.evaluate(
        """() => [...performance.getEntriesByType("navigation"),
            ...performance.getEntriesByType("resource")]
            .map(({ name, transferSize }) => [name, transferSize])"""
    )
    sizes = {name: size for name, size in parts if not name.endswith(".woff2")}
    assert len(sizes) > 20
    assert 0 < sum(sizes.values()) < MAX_BYTES, sizes
