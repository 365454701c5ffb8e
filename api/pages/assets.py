"""The pages' files, read once, and the version of them all."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template

from api.responses import StoredBody

STATIC = Path(__file__).parent / "static"

TYPES: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
"""Suffix → media type. A file of another suffix (a licence) is not served."""

_COMPRESSED = {".woff2"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A served file."""

    media_type: str
    body: StoredBody


@dataclass(frozen=True, slots=True)
class Bundle:
    """All files of one build of the pages."""

    version: str
    """Changes with any byte of any file."""
    pages: Mapping[str, Template]
    """Name → page, or a part of every page: `parts/…`.

    A page names the API's root `$root`, its files' folder `$assets`, the network `$network` and its
    chains with their explorers `$chains`, and of the Stellar chain its id `$stellar`, `$passphrase`
    and `$escrow`.
    `$top` is the part `parts/top`: brand, network and navigation, in which `$current_…` marks the
    current page.
    """
    assets: Mapping[str, Asset]
    """Path below `static/` → file, the pages not among them."""


@cache
def load_bundle() -> Bundle:
    """The files, read at the first request."""
    files = {
        path.relative_to(STATIC).as_posix(): path.read_bytes()
        for path in sorted(STATIC.rglob("*"))
        if path.suffix in TYPES
    }
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    pages = {}
    assets = {}
    for name, content in files.items():
        suffix = Path(name).suffix
        if suffix == ".html":
            pages[name.removesuffix(suffix)] = Template(content.decode())
        else:
            body = StoredBody(content, compress=suffix not in _COMPRESSED)
            assets[name] = Asset(TYPES[suffix], body)
    return Bundle(digest.hexdigest()[:16], pages, assets)
