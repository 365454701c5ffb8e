"""The browser of these tests: one that is there already. Nothing is downloaded."""

import os
import shutil
from collections.abc import Mapping

NAMES = ("chromium", "chromium-browser", "google-chrome")
VARIABLE = "CHROMIUM"

FLAGS = (
    # Root may not use Chromium's own sandbox; the pages are ours.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class NoBrowser(RuntimeError):
    """There is no browser to test in."""


def find_chromium(environment: Mapping[str, str] = os.environ) -> str:
    """Path of the Chromium that `CHROMIUM` names, or that is found on the PATH.

    Raises `NoBrowser` that says what to do.
    """
    wanted = environment.get(VARIABLE)
    search = environment.get("PATH")
    for name in (wanted,) if wanted else NAMES:
        found = shutil.which(name, path=search)
        if found:
            return found
    missing = f"{VARIABLE} is {wanted!r}, and that" if wanted else f"None of {', '.join(NAMES)}"
    raise NoBrowser(
        f"{missing} is no program here. The pages are tested in Chromium: install it "
        f"(Debian: apt-get install chromium), or name one in {VARIABLE}."
    )
