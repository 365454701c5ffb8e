"""The programs that the page shows for an offer really take it, on the devnet's stand-in node."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from stellar_sdk import Keypair, scval

from devnet.expectations import Terms, TermsKey
from devnet.order_book import OrderBook, payee_hash
from devnet.stellar.accounts import ADMIN, PROTOCOL_FEES, USDC, address, keypair
from devnet.stellar.client import DevnetClient
from devnet.stellar.genesis import BOND_BPS, MAX_OPEN, ORDER_TTL
from devnet.stellar.registry import devnet_contracts
from tests.factories.book import usdc
from tests.factories.stellar_process import StellarProcess

ROOT = Path(__file__).resolve().parents[3]
TERMS = {
    "onramp": TermsKey("onramp", "venmo", "USD"),
    "offramp": TermsKey("offramp", "venmo", "USD"),
}
RATES = {"onramp": "1.0175", "offramp": "0.9912"}
AMOUNT = "12.5"
PAYEE = "@taker-pays"
COMMANDS = {
    "Python": [sys.executable, "-"],
    "JavaScript": ["node", "--input-type=module", "-"],
}
"""Language → a command that runs a program on its standard input."""


@dataclass
class Chain:
    """The stand-in with a provider, whose terms the page's market has too, and a taker."""

    client: DevnetClient
    url: str
    provider: Keypair
    taker: Keypair


@pytest.fixture(scope="module")
def chain() -> Iterator[Chain]:
    with StellarProcess.start(interval=0) as process, DevnetClient(process.url) as client:
        provider = client.open_account("page provider", usdc=usdc(1_000))
        taker = client.open_account("page taker", usdc=usdc(1_000))
        book = OrderBook(client)
        book.set_payee(provider, "venmo", "@provider", publish=True)
        book.set_terms(
            provider,
            [
                (key, Terms(rate=usdc(RATES[side]), low=usdc(10), high=usdc(50)))
                for side, key in TERMS.items()
            ],
        )
        book.deposit(provider, usdc(500))
        yield Chain(client, process.url, provider, taker)


@pytest.fixture
def dialog(town, visits, chain):
    """Call it with a direction and a language for the page with the programs of an offer."""
    contracts, address = town.market.contracts, chain.provider.public_key
    with town.market.ledger():
        contracts.deposit(address, usdc(500))
        contracts.payee_set(address, "venmo", handle="@provider")
        for side, rate in RATES.items():
            terms = {"rate": usdc(rate), "low": usdc(10), "high": usdc(50)}
            contracts.terms_set(address, "venmo", "USD", side, **terms)

    def show(direction, language):
        visit = visits(town).go(f"/?provider={address}")
        side = {"onramp": "Buy", "offramp": "Sell"}[direction]
        row = visit.page.locator("#offers-table tbody tr").filter(has_text=side)
        row.get_by_role("button", name="Take").click()
        visit.page.get_by_label("Order size").last.fill(AMOUNT)
        visit.page.locator("#take").get_by_role("radio", name=language).check()
        return visit.page

    return show


def opening(page):
    """The program that takes the offer."""
    return page.locator("#take-program").text_content()


def run(text, language, chain, **variables):
    environment = {
        "PATH": os.environ["PATH"],
        "RPC_URL": chain.url,
        "STELLAR_KEY": chain.taker.secret,
        "PAYEE": PAYEE,
        "NO_PROXY": "127.0.0.1",
        **variables,
    }
    done = subprocess.run(
        COMMANDS[language],
        input=text,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("language", COMMANDS)
@pytest.mark.parametrize("direction", TERMS)
def test_pasted_program_opens_the_order(dialog, chain, direction, language):
    order_id = run(opening(dialog(direction, language)), language, chain)
    order = shown_order(chain, order_id)
    assert order["provider"].address == chain.provider.public_key
    assert order["taker"].address == chain.taker.public_key
    assert (order["direction"], order["rail"], order["currency"]) == (direction, "venmo", "USD")
    assert (order["amount"], order["rate"]) == (usdc(AMOUNT), usdc(RATES[direction]))
    expected = {"onramp": "@provider", "offramp": PAYEE}[direction]
    assert order["payee_hash"] == payee_hash(expected)


@pytest.mark.parametrize("language", COMMANDS)
def test_pasted_program_returns_the_usdc_of_an_unpaid_sale(dialog, chain, language):
    page = dialog("offramp", language)
    set_lifetime(chain, seconds=1)
    order_id = run(opening(page), language, chain)
    set_lifetime(chain, seconds=ORDER_TTL)
    before = chain.client.balance(chain.taker.public_key, USDC)
    page.get_by_text("If the provider does not pay").click()
    expiry = page.locator("#take-expiry-program").inner_text()
    expires_at = shown_order(chain, order_id)["expires_at"]
    # On a slow machine the last ledger may have closed after that time already.
    chain.client.close_next_ledger(lambda last: max(last + 1, (expires_at + 1) * 1000))
    assert run(expiry, language, chain, ORDER=order_id) == "Your USDC is returned."
    assert chain.client.balance(chain.taker.public_key, USDC) == before + usdc(AMOUNT)


def set_lifetime(chain, seconds):
    """Of orders that are opened from now on."""
    chain.client.invoke(
        keypair(ADMIN),
        devnet_contracts().escrow,
        "set_config",
        scval.to_address(address(ADMIN)),
        scval.to_address(address(PROTOCOL_FEES)),
        scval.to_uint64(seconds),
        scval.to_uint32(BOND_BPS),
        scval.to_uint32(MAX_OPEN),
    )


def shown_order(chain, order_id):
    """The order as the contract has it."""
    outcome = chain.client.invoke(
        chain.taker,
        devnet_contracts().escrow,
        "order",
        scval.to_bytes(bytes.fromhex(order_id)),
    )
    return outcome.value


def test_amount_outside_the_offer_is_reported(town, visits):
    visit = visits(town).go("/?currency=USD&direction=onramp&amount=300")
    visit.page.get_by_role("button", name="Take").first.click()
    size = visit.page.locator("#take-amount")
    assert size.input_value() == "300"
    assert visit.text("#take-fiat") == "You pay 305.25 USD and get 298.5 USDC, after the 0.5 % fee"
    size.fill("401")
    visit.until(lambda: "takes orders of 10 to 400 USDC" in visit.text("#take-problem"))
    assert visit.text("#take-fiat") == ""
    assert not visit.page.locator("#take-program").is_visible(), "no program for another amount"
    assert size.get_attribute("aria-invalid") == "true"


def test_seller_of_usdc_pays_no_fee(town, visits):
    visit = visits(town).go("/?currency=USD&direction=offramp")
    visit.page.get_by_role("button", name="Take").first.click()
    visit.page.locator("#take-amount").fill("12.5")
    said = "You pay 12.5 USDC and get 12.39 USD; the provider pays the 0.2 % fee"
    visit.until(lambda: visit.text("#take-fiat") == said)


def test_rail_changes_the_call_and_hides_the_payee(town, visits):
    with town.market.ledger() as contracts:
        contracts.rail_set("zelle", tier=2, fee_bps=50, currencies=("USD",))
        gabi = town.market.provider("gabi", 100, venmo="@gabi-pays", zelle="gabi-zelle")
        town.market.offer("gabi", "onramp", "USD", "1.01", ("venmo", "zelle"))
    visit = visits(town).go(f"/?provider={gabi}")
    visit.page.get_by_role("button", name="Take").click()
    assert "@gabi-pays" not in visit.page.content()
    visit.page.get_by_role("button", name="Show the published payee").click()
    assert visit.text("#take-handle") == "Pay to @gabi-pays"
    visit.page.locator("#take-rail").select_option("zelle")
    assert "@gabi-pays" not in visit.page.content()
    assert 'scval.to_symbol("zelle")' in visit.text("#take-program")
    visit.page.get_by_role("button", name="Close").click()
    visit.until(lambda: not visit.page.locator("#take").is_visible())


def test_program_can_be_copied(town, visits):
    visit = visits(town, permissions=["clipboard-read", "clipboard-write"]).go()
    visit.page.get_by_role("button", name="Take").first.click()
    visit.page.get_by_role("button", name="Copy", exact=True).click()
    visit.until(lambda: visit.text("#take-copied") == "Copied.")
    copied = visit.page.evaluate("navigator.clipboard.readText()")
    assert copied == visit.page.locator("#take-program").text_content()
