"""The browser client of docs/stream.md, as documented, under load and kills."""

import random
import re
import signal
from pathlib import Path

from tests.factories.contract_model import Refused

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "stream.md"
NAMES = ("ana", "ben", "chloe", "davi", "elif", "femi")

_FOLLOW = """
(code) => {
    window.told = { ledger: 0, book: [] };
    const follow = Function(`${code}; return follow`)();
    follow(location.origin.replace("http", "ws") + "/api/v1/stream", (ledger, book) => {
        window.told = { ledger, book: [...book.values()] };
    });
}
"""


def client_of_the_document():
    [code] = re.findall(r"^```js\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    return code


def live(market, chance, ledgers):
    """So many ledgers, in each of which some providers reprice, are taken from, run dry, return."""
    for _ in range(ledgers):
        with market.ledger() as contracts:
            for name in chance.sample(NAMES, 3):
                direction = chance.choice(("onramp", "offramp"))
                rate = f"1.{chance.randint(0, 9_999):04}"
                market.offer(name, direction, "USD", rate, ("venmo",))
                try:
                    order = market.order(name, chance.randint(10, 90), direction, "venmo", "USD")
                    chance.choice((contracts.fulfil, lambda _: None))(order)
                    market.withdraw(name, chance.randint(1, 400))
                except Refused:
                    # No payee, or nothing left: somebody deposits.
                    market.provider(name, chance.randint(20, 600), venmo=f"@{name}")


def test_documented_client_keeps_the_exact_book(town, visits):
    visit = visits(town, bypass_csp=True)
    visit.expected = (r"console: .*(ERR_CONNECTION_RE(FUSED|SET)|WebSocket)",)
    visit.go()
    visit.page.evaluate(_FOLLOW, client_of_the_document())
    chance = random.Random(7)

    def is_the_book():
        answer = town.serving.get("/api/v1/orderbook")
        state = visit.page.evaluate("window.told")
        known = {tuple(offer.items()) for offer in map(_flat, state["book"])}
        served = {tuple(offer.items()) for offer in map(_flat, answer.json())}
        return str(state["ledger"]) == answer.headers["X-Ledger"] and known == served

    for by in (signal.SIGTERM, signal.SIGKILL, None):
        live(town.market, chance, 60)
        visit.until(is_the_book)
        if by is not None:
            town.serving.stop(by)
            live(town.market, chance, 20)
            town.serving.start()
            live(town.market, chance, 1)
    # And the page beside it went through the same.
    visit.until(lambda: visit.is_up_to_date(town.serving))


def _flat(offer):
    return {name: str(value) for name, value in offer.items()}
