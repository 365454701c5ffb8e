"""Pictures of the page for the docs, of a demo as anyone can run it.

python -m tests.system.page.screenshots               starts a demo, takes the pictures, stops it
python -m tests.system.page.screenshots --url URL     of a demo that runs
"""

import argparse
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from devnet.services import isthmus
from tests.system.page.chromium import FLAGS, find_chromium
from tests.system.page.visiting import DESKTOP, PHONE, Visit

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
LARGEST_BYTES = 300_000
_READY = "Ctrl-C stops everything"


@dataclass(frozen=True)
class Picture:
    """One file, and how it is taken."""

    name: str
    path: str = "/"
    options: dict[str, Any] = field(default_factory=dict)


TALL = {"width": DESKTOP["width"], "height": 1080}
PICTURES = (
    Picture("market", options={"viewport": TALL}),
    Picture("market-dark", options={"viewport": TALL, "color_scheme": "dark"}),
    Picture(
        "market-phone", options={"viewport": PHONE, "is_mobile": True, "device_scale_factor": 2}
    ),
)


def main() -> None:
    """Write every picture to `docs/`."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.page.screenshots")
    parser.add_argument("--url", help="address of a running demo's page")
    url = parser.parse_args().url
    if url:
        take(url.rstrip("/"))
    else:
        with demo() as started:
            take(started)


@contextmanager
def demo() -> Iterator[str]:
    """A demo of its own, from its first ledger; the address of its page."""
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
    """All pictures of the page at that address."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        for picture in PICTURES:
            _take(browser, url, picture)
        browser.close()


def _take(browser: Browser, url: str, picture: Picture) -> None:
    visit = Visit(browser, url, **picture.options).go(picture.path)
    visit.until(lambda: len(visit.orders()) > 0)
    file = DOCS / f"{picture.name}.png"
    visit.page.screenshot(path=file)
    visit.close()
    size = file.stat().st_size
    if size > LARGEST_BYTES:
        raise RuntimeError(f"{file} has {size} bytes: too many for a repository")


if __name__ == "__main__":
    main()
