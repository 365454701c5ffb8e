"""Pictures of the pages for the docs, of a demo as anyone can run it.

python -m tests.system.page.screenshots               starts a demo, takes the pictures, stops it
python -m tests.system.page.screenshots --url URL     of a demo that runs
"""

import argparse
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eth_account import Account
from playwright.sync_api import Browser, sync_playwright

from devnet.services import isthmus
from devnet.stellar.accounts import keypair, secret
from tests.system.page.chromium import FLAGS, find_chromium
from tests.system.page.visiting import DESKTOP, PHONE, Visit

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
LARGEST_BYTES = 150_000
_READY = "Ctrl-C stops everything"


_CUSTOMER = "dora"
"""One of the demo's."""


def open_market(visit: Visit) -> None:
    """The whole market, once all its parts are known."""
    visit.go()
    visit.until(lambda: len(visit.orders()) > 0)
    visit.until(lambda: "Waiting" not in visit.text("#history-empty"))


def open_transfer(visit: Visit) -> None:
    """A new deposit of a customer of the demo, which awaits its payment."""
    page = visit.page
    page.goto(f"{visit.url}/transfers")
    page.get_by_label("A seed of the demo").fill(keypair(_CUSTOMER).secret)
    page.get_by_role("button", name="Sign in with the seed").click()
    visit.until(lambda: visit.text("#phase") == "Live")
    page.locator('[name="coin"] option').first.wait_for(state="attached")
    page.get_by_label("Amount").fill("12.5")
    page.locator('[name="address"]').fill(Account.from_key(secret(_CUSTOMER)).address)
    page.get_by_text("Pay to a deposit address").click()
    page.get_by_role("button", name="Get a quote").click()
    page.get_by_role("button", name="Start the transfer").click()
    page.locator(".qr").wait_for()


def open_status(visit: Visit) -> None:
    """The status, once it is known."""
    visit.page.goto(f"{visit.url}/status")
    visit.page.locator("#routes tbody tr").first.wait_for()


@dataclass(frozen=True)
class Picture:
    """One file, and how it is taken."""

    name: str
    open: Callable[[Visit], None]
    options: dict[str, Any] = field(default_factory=dict)


TALL = {"viewport": {"width": DESKTOP["width"], "height": 1080}}
DARK = {"color_scheme": "dark"}
ON_PHONE = {"viewport": PHONE, "is_mobile": True, "device_scale_factor": 2}
PICTURES = (
    Picture("market", open_market, TALL),
    Picture("market-dark", open_market, TALL | DARK),
    Picture("market-phone", open_market, ON_PHONE),
    Picture("transfers", open_transfer, {"viewport": DESKTOP}),
    Picture("status", open_status, {"viewport": DESKTOP}),
)


def main() -> None:
    """Write every picture to `docs/`."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.page.screenshots")
    parser.add_argument("--url", help="address of a running demo's API")
    url = parser.parse_args().url
    if url:
        take(url.rstrip("/"))
    else:
        with demo() as started:
            take(started)


@contextmanager
def demo() -> Iterator[str]:
    """A demo of its own, from its first ledger; the address of its API."""
    # Run as root, Postgres is user `nobody`, who must be able to enter the folder.
    home = Path(tempfile.mkdtemp(prefix="isthmus-pictures-"))
    home.chmod(0o755)
    environment = {name: text for name, text in os.environ.items() if name != "DATABASE_URL"}
    process = subprocess.Popen(
        isthmus("demo"),
        cwd=ROOT,
        env={**environment, "ISTHMUS_HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield _address(process)
    finally:
        process.terminate()
        process.communicate(timeout=60)
        shutil.rmtree(home)


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if _READY in line:
            [url] = re.findall(r"^API +(\S+)$", "".join(lines), re.MULTILINE)
            return str(url)
    raise RuntimeError(f"the demo ended before it was ready:\n{''.join(lines)}")


def take(url: str) -> None:
    """All pictures of the pages at that address."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        for picture in PICTURES:
            _take(browser, url, picture)
        browser.close()


def _take(browser: Browser, url: str, picture: Picture) -> None:
    visit = Visit(browser, url, **picture.options)
    picture.open(visit)
    file = DOCS / f"{picture.name}.png"
    visit.page.screenshot(path=file)
    visit.close()
    size = file.stat().st_size
    if size > LARGEST_BYTES:
        raise RuntimeError(f"{file} has {size} bytes: too many for a repository")


if __name__ == "__main__":
    main()
