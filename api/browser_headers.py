"""Headers for browsers on every answer: CORS, Content-Security-Policy, HSTS.

By default pages of any origin may read answers: none depends on cookies, so a page learns no more
than any program. An operator may name origins; then only their pages may read answers or open the
stream.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from flask import Flask, Response, request
from flask_cors.core import get_cors_options, set_cors_headers

ANY_ORIGIN = "*"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
REQUEST_HEADERS = (
    *("Authorization", "Content-Type", "Idempotency-Key", "If-None-Match", "X-Request-Id"),
    "X-Position",
)
"""Headers that a page may send."""
EXPOSED_HEADERS = (
    *("X-Ledger", "X-Ledger-Age", "X-Position", "ETag", "Retry-After", "X-Request-Id"),
    *("RateLimit", "RateLimit-Policy", "Deprecation", "Sunset", "Location"),
)
"""Headers that a page may read."""
PREFLIGHT_SECONDS = 86_400
WALLET_PATHS = frozenset({"/auth", "/.well-known/stellar.toml"})
"""Readable by wallets of any origin, as SEP-1 and SEP-10 require."""

_CSP = "Content-Security-Policy"


@dataclass(frozen=True, slots=True)
class BrowserPolicy:
    """An operator's choice."""

    origins: frozenset[str] = frozenset({ANY_ORIGIN})
    """Such as `https://app.example.com`, in lower case."""
    hsts_seconds: int = 0
    """0: no Strict-Transport-Security header."""

    def allows(self, origin: str | None) -> bool:
        """Whether a page of that origin may use the API; programs other than browsers send none."""
        return origin is None or ANY_ORIGIN in self.origins or origin.lower() in self.origins


def register_browser_headers(app: Flask, policy: BrowserPolicy) -> None:
    """Add the policy's headers to every answer, errors among them."""
    for_pages = [
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("X-Frame-Options", "DENY"),
    ]
    if policy.hsts_seconds:
        hsts = f"max-age={policy.hsts_seconds}; includeSubDomains"
        for_pages.append(("Strict-Transport-Security", hsts))
    # An answer without a policy of its own that is shown as a page can do nothing.
    for_data = [*for_pages, (_CSP, "default-src 'none'; frame-ancestors 'none'")]
    for_any_origin = [
        *for_data,
        ("Access-Control-Allow-Origin", ANY_ORIGIN),
        ("Access-Control-Expose-Headers", ", ".join(sorted(EXPOSED_HEADERS))),
    ]
    wallet_rules, rules = _cors_rules(app, {ANY_ORIGIN}), _cors_rules(app, policy.origins)

    def add_headers(response: Response) -> Response:
        headers = response.headers
        cors = wallet_rules if request.path in WALLET_PATHS else rules
        is_page = _CSP in headers
        if cors.allow_all_origins and request.method != "OPTIONS" and not is_page:
            # As flask-cors would do it, in a tenth of the time.
            headers.extend(for_any_origin)
            return response
        headers.extend(for_pages if is_page else for_data)
        if not cors.allow_all_origins:
            # Also on a request without an origin: a cache may give the answer to a page.
            response.vary.add("Origin")
        return set_cors_headers(response, cors)

    app.after_request(add_headers)


def _cors_rules(app: Flask, origins: Iterable[str]) -> Any:
    """flask-cors answers preflights, and decides between named origins."""
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
