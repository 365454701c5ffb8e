"""Links, `make` targets and `isthmus` commands that the documentation names exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from indexer.cli.main import isthmus
from tests.architecture.imports import ROOT

PAGES = [
    *(ROOT / "README.md", ROOT / "clients/python/README.md"),
    *(*ROOT.glob("*/README.md"), *ROOT.glob("docs/**/*.md")),
]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_ISTHMUS = re.compile(r"(?:`|\.venv/bin/)isthmus ([a-z-]+)")
_MAKE = re.compile(r"`make ([a-z]+)[^`]*`|^make ([a-z]+)", re.MULTILINE)


def test_links_have_targets() -> None:
    assert [dead for page in PAGES for dead in dead_links(page)] == []


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {a or b for page in PAGES for a, b in _MAKE.findall(page.read_text())}
    assert named - targets == set()


def test_isthmus_commands_exist() -> None:
    named = {name for page in PAGES for name in _ISTHMUS.findall(page.read_text())}
    known = set(isthmus.list_commands(click.Context(isthmus)))
    assert named - known == set()


@pytest.mark.parametrize("link", ["nowhere.md", "page.md#no-such-heading", "#no-such-heading"])
def test_planted_dead_link_is_found(tmp_path: Path, link: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# A heading\n[here](#a-heading) and [there]({link})\n")
    assert list(dead_links(page)) == [f"{page}: {link}"]


def dead_links(page: Path) -> Iterator[str]:
    """Relative links of a page whose file or heading does not exist."""
    for link in _LINK.findall(page.read_text()):
        if link.startswith(("http://", "https://")):
            continue
        name, _, heading = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (heading and heading not in _anchors(target)):
            yield f"{page}: {link}"


def _anchors(page: Path) -> set[str]:
    """Anchors as GitHub makes them of headings."""
    plain = (
        re.sub(r"`|\*|\[([^\]]*)\]\([^)]*\)", r"\1", each)
        for each in _HEADING.findall(page.read_text())
    )
    return {re.sub(r"[^\w\- ]", "", each.lower()).strip().replace(" ", "-") for each in plain}
