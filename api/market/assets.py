"""The page's files, read once, and the version of them all."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template

from api.responses import StoredBody

STATIC = Path(__file__).parent / "static"
PAGE = "index.html"

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
    """All files of one build of the page."""

    version: str
    """Changes with any byte of any file."""
    page: Template
    """The page itself, which names its files' folder `$assets` and the network `$network`."""
    assets: Mapping[str, Asset]
    """Path below `static/` → file, the page not among them."""


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
    page = Template(files.pop(PAGE).decode())
    assets = {}
    for name, content in files.items():
        suffix = Path(name).suffix
        body = StoredBody(content, compress=suffix not in _COMPRESSED)
        assets[name] = Asset(TYPES[suffix], body)
    return Bundle(digest.hexdigest()[:16], page, assets)
