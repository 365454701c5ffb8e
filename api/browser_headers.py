"""What every answer says to browsers: which pages may read it, and what may be made of it.

Anyone may read by default, and no answer depends on cookies: a page of any origin learns no more
than anyone could ask for. An operator may name origins; then only their pages may read answers or
open the stream.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flask import Flask, Response, request
from flask_cors.core import get_cors_options, set_cors_headers

ANY_ORIGIN = "*"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
REQUEST_HEADERS = (
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "If-None-Match",
    "X-Request-Id",
)
"""Headers that a page may send."""
EXPOSED_HEADERS = (
    *("X-Ledger", "X-Ledger-Age", "ETag", "Retry-After", "X-Request-Id"),
    *("RateLimit", "RateLimit-Policy", "Deprecation", "Sunset", "Location"),
)
"""Headers that a page may read."""
PREFLIGHT_SECONDS = 86_400
_TO_ANYONE = (
    ("Access-Control-Allow-Origin", ANY_ORIGIN),
    ("Access-Control-Expose-Headers", ", ".join(sorted(EXPOSED_HEADERS))),
)
WALLET_PATHS = frozenset({"/auth", "/.well-known/stellar.toml"})
"""Which wallets of any origin read: SEP-1 and SEP-10 want that."""

_POLICY = "Content-Security-Policy"
_EVERY_ANSWER = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
)
_NO_PAGE = ((_POLICY, "default-src 'none'; frame-ancestors 'none'"),)
"""For what has no policy of its own: if it is shown as a page all the same, it can do nothing."""


@dataclass(frozen=True, slots=True)
class BrowserPolicy:
    """An operator's choice."""

    origins: frozenset[str] = frozenset({ANY_ORIGIN})
    """Such as `https://app.example.com`, in lower case."""
    hsts_seconds: int = 0
    """How long browsers are to insist on https; 0: they are not told."""

    def allows(self, origin: str | None) -> bool:
        """Whether a page of that origin may use the API; what is no page sends none."""
        return origin is None or ANY_ORIGIN in self.origins or origin.lower() in self.origins


def register_browser_headers(app: Flask, web: BrowserPolicy) -> None:
    """Put what `web` says on every answer, errors among them."""
    hsts = (("Strict-Transport-Security", f"max-age={web.hsts_seconds}; includeSubDomains"),)
    for_pages = (*_EVERY_ANSWER, *(hsts if web.hsts_seconds else ()))
    for_data = (*for_pages, *_NO_PAGE)
    everyone, chosen = _cors(app, {ANY_ORIGIN}), _cors(app, web.origins)

    to_anyone = (*for_data, *_TO_ANYONE)

    def finish(response: Response) -> Response:
        headers = response.headers
        rules = everyone if request.path in WALLET_PATHS else chosen
        is_page = _POLICY in headers
        if rules.allow_all_origins and request.method != "OPTIONS" and not is_page:
            # What flask-cors would say too, at a tenth of the time.
            headers.extend(to_anyone)
            return response
        headers.extend(for_pages if is_page else for_data)
        if not rules.allow_all_origins:
            # Also where no origin was named: a cache may hand the answer to a page.
            response.vary.add("Origin")
        return set_cors_headers(response, rules)

    app.after_request(finish)


def _cors(app: Flask, origins: Iterable[str]) -> Any:
    """flask-cors decides where there is something to decide: preflights, and chosen origins."""
    return get_cors_options(
        app,
        {
            "origins": sorted(origins),
            "send_wildcard": True,
            "always_send": ANY_ORIGIN in origins,
            "vary_header": False,
            "methods": METHODS,
            "allow_headers": REQUEST_HEADERS,
            "expose_headers": EXPOSED_HEADERS,
            "max_age": PREFLIGHT_SECONDS,
        },
    )
