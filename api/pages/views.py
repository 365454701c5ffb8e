"""The pages and their files."""

import html
import json
from functools import cache

from flask import Blueprint, Response

from api.auth.owner import public
from api.deps import deps
from api.errors import NotFound
from api.pages.assets import TYPES, load_bundle
from api.responses import StoredBody, send
from indexer.config.networks import Network
from indexer.config.networks.chains import EXPLORER_PAGES

pages = Blueprint("pages", __name__)
pages.before_request(public)

_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "font-src": "'self'",
    "img-src": "'self'",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
    # Text from the chain stays text: no script may turn a string into markup.
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}

_NO_DOCUMENTS = {"text/css", "text/javascript", "font/woff2"}
"""What a browser opens as no page: the policy of the page that loads it holds."""
HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in _POLICY.items()),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=()",
}
"""Sent with pages, pictures and errors, beside every answer's (`api.browser_headers`)."""


NAVIGABLE = ("market", "transfers", "status")
"""Pages that the navigation marks as the current one. `/docs` is a document of its own."""


@pages.get("/")
def show_market() -> Response:
    """The market page; its script reads the query."""
    return _send_page("market")


@pages.get("/transfers", defaults={"transfer": None})
@pages.get("/transfers/<transfer>")
def show_transfers(transfer: str | None) -> Response:
    """One document starts a transfer and shows one: its script reads the path and asks the API."""
    return _send_page("transfers", depth=0 if transfer is None else 1)


@pages.get("/status")
def show_status() -> Response:
    """The status page; its script asks `/v1/status`."""
    return _send_page("status")


def _send_page(name: str, depth: int = 0) -> Response:
    """`depth` is how many folders below the root the page lies: its links are relative."""
    body = _page(name, deps().network, "../" * depth or "./")
    return send(body, version=load_bundle().version, media_type=TYPES[".html"])


def _chains(network: Network) -> str:
    """Names of the chains and templates of their explorers' pages, as JSON for scripts."""
    named = {
        chain.id: {"name": chain.name, **{page: getattr(chain, page) for page in EXPLORER_PAGES}}
        for chain in network.chains
    }
    return json.dumps(named)


@cache
def _page(name: str, network: Network, root: str) -> StoredBody:
    """Built once, as are its digest and its gzipped form."""
    bundle = load_bundle()
    stellar = network.stellar
    named = {
        "network": network.name,
        "chains": _chains(network),
        "passphrase": stellar.passphrase,
        "stellar": stellar.id,
        "escrow": stellar.escrow,
    }
    shared = {
        **{each: html.escape(value or "") for each, value in named.items()},
        "root": root,
        "assets": f"{root}assets/{bundle.version}",
    }
    current = {
        f"current_{each}": 'aria-current="page"' if each == name else "" for each in NAVIGABLE
    }
    top = bundle.pages["parts/top"].substitute(shared, **current)
    return StoredBody(bundle.pages[name].substitute(shared, top=top).encode())


@pages.get("/assets/<version>/<path:name>")
def send_asset(version: str, name: str) -> Response:
    """A file of the pages: immutable under its version, revalidated under another.

    While a new build replaces an old one, a page of one may request files from the other.
    """
    bundle = load_bundle()
    asset = bundle.assets.get(name)
    if asset is None:
        raise NotFound("the pages have no file of that name")
    response = send(asset.body, version=bundle.version, media_type=asset.media_type)
    if version == bundle.version:
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
    return response


@pages.after_request
def _add_headers(response: Response) -> Response:
    if response.mimetype not in _NO_DOCUMENTS:
        response.headers.update(HEADERS)
    return response
