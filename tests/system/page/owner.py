"""A customer in front of the page of transfers: with both wallets, reading and clicking."""

import re

from eth_account import Account
from playwright.sync_api import Locator, Page
from stellar_sdk import Keypair

from devnet.customers import Purse
from devnet.stellar.accounts import keypair, secret
from tests.system.page.bridge import Bridge
from tests.system.page.visiting import Visit
from tests.system.page.wallets import EVM_NAME, TestEvmWallet, TestFreighter

SECONDS = 90.0
"""For a transfer to end on a busy machine; alone it takes some five."""


class Owner:
    """A tab of a customer whose accounts hold what the purse says."""

    def __init__(self, bridge: Bridge, visit: Visit, name: str, purse: Purse) -> None:
        bridge.open(**{name: purse})
        self.name = name
        self.bridge = bridge
        self.visit = visit
        # On a busy machine a follower may be silent for so long that its chain is unavailable.
        visit.expected += (r"503 \(SERVICE UNAVAILABLE\)",)
        self.key: Keypair = keypair(name)
        payer = Account.from_key(secret(name))
        self.payer: str = payer.address.lower()
        self.evm = TestEvmWallet(visit.context, bridge.world.evm, payer)
        self.freighter = TestFreighter(visit.context, self.key)

    @property
    def page(self) -> Page:
        """The tab."""
        return self.visit.page

    def button(self, name: str) -> Locator:
        """The button of that name."""
        return self.page.get_by_role("button", name=name, exact=True)

    def press_if_shown(self, name: str) -> bool:
        """Press the button if it is there now: it may leave the page at any time."""
        pressed: bool = self.page.evaluate(
            """name => {
                const named = [...document.querySelectorAll("button:enabled")].find(
                    (each) => each.textContent.trim() === name && each.checkVisibility());
                named?.click();
                return named !== undefined;
            }""",
            name,
        )
        return pressed

    def sign_in(self, path: str = "/transfers") -> None:
        """Open an address and sign in with Freighter."""
        self.page.goto(f"{self.bridge.url}{path}")
        self.button("Sign in with Freighter").click()
        self.visit.until(lambda: self.visit.text("#phase") == "Live")
        assert self.visit.text("#account") == self.key.public_key

    def until_routes(self) -> None:
        """Wait until the form has its choices."""
        self.page.locator('[name="coin"] option').first.wait_for(state="attached")

    def quote(self, direction: str, amount: str, address: str | None, *, by_address=False) -> None:
        """Fill the form and ask; without an address the EVM wallet's is taken."""
        self.page.get_by_text(direction, exact=True).click()
        self.page.get_by_label("Amount").fill(amount)
        if address is None:
            self.button(f"Use {EVM_NAME}").click()
        else:
            self.page.locator('[name="address"]').fill(address)
        if by_address:
            self.page.get_by_text("Pay to a deposit address").click()
        self.visit.until(self._has_quote, SECONDS)

    def _has_quote(self) -> bool:
        """Ask again while the service says that a chain is not available."""
        if self.page.locator("#start-panel[aria-busy]").is_visible():
            return False
        if not self.page.locator("#quote").is_visible():
            self.button("Get a quote").click()
            self.page.wait_for_timeout(500)
            return False
        return True

    def start(self) -> str:
        """Start the transfer of the quote; its id."""
        self.button("Start the transfer").click()
        self.page.wait_for_url(re.compile(r"/transfers/[0-9a-f]{32}$"))
        return self.page.url.rpartition("/")[2]

    def stage(self) -> str:
        """The stage's name on the page."""
        return self.visit.text("#stage")

    def until_stage(self, name: str) -> None:
        """Wait for a stage."""
        self.visit.until(lambda: self.stage() == name, SECONDS)

    def stages(self) -> list[str]:
        """The history's stages, from the first on."""
        return self.page.locator("#timeline b").all_inner_texts()

    def copied(self, button: Locator) -> str:
        """What the button copies. The tab must be allowed to read the clipboard."""
        with self.visit.shows_meanwhile(button, "Copied"):
            button.click()
        return str(self.page.evaluate("navigator.clipboard.readText()"))

    def lists(self, selector: str) -> list[dict[str, str]]:
        """Each list of names and values shown there; of equal names in one the last."""
        lists = self.page.locator(f"{selector} .facts").evaluate_all(
            "(lists) => lists.map(({ children }) => [...children].map("
            "({ children: [dt, dd] }) => [dt.innerText, dd.innerText]))"
        )
        return [{name: " ".join(value.split()) for name, value in pairs} for pairs in lists]

    def facts(self, selector: str) -> dict[str, str]:
        """Names and values shown there; of equal names the last."""
        return {name: value for each in self.lists(selector) for name, value in each.items()}
