"""The page and its files."""

import html
from functools import cache

from flask import Blueprint, Response

from api.auth.owner import public
from api.deps import deps
from api.errors import NotFound
from api.market.assets import TYPES, load_bundle
from api.responses import StoredBody, send

market = Blueprint("market", __name__)
market.before_request(public)

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

HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in _POLICY.items()),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=()",
}
"""Sent with the page and its files, beside every answer's (`api.browser_headers`)."""


@market.get("/")
def show_page() -> Response:
    """The market page; its script reads the query."""
    version = load_bundle().version
    return send(_page(deps().network.name), version=version, media_type=TYPES[".html"])


@cache
def _page(network: str) -> StoredBody:
    """Built once, as are its digest and its gzipped form."""
    bundle = load_bundle()
    text = bundle.page.substitute(assets=f"assets/{bundle.version}", network=html.escape(network))
    return StoredBody(text.encode())


@market.get("/assets/<version>/<path:name>")
def send_asset(version: str, name: str) -> Response:
    """A file of the page: immutable under its version, revalidated under another.

    While a new build replaces an old one, a page of one may request files from the other.
    """
    bundle = load_bundle()
    asset = bundle.assets.get(name)
    if asset is None:
        raise NotFound("the page has no file of that name")
    response = send(asset.body, version=bundle.version, media_type=asset.media_type)
    if version == bundle.version:
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
    return response


@market.after_request
def _add_headers(response: Response) -> Response:
    response.headers.update(HEADERS)
    return response
