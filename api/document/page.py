"""`/docs`: the document for people, shown by Swagger UI, which is shipped with the project."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from api.responses import StoredBody

STATIC = Path(__file__).parent / "static"
PAGE = "index.html"
FILES: Mapping[str, str] = {
    PAGE: "text/html; charset=utf-8",
    "docs.css": "text/css; charset=utf-8",
    "docs.js": "text/javascript; charset=utf-8",
    "vendor/swagger-ui/swagger-ui.css": "text/css; charset=utf-8",
    "vendor/swagger-ui/swagger-ui-bundle.js": "text/javascript; charset=utf-8",
}
"""File below `static/` → media type. A licence is kept there and not served."""

_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    # Swagger UI's icons are in its style sheet.
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in _POLICY.items()),
    "Cross-Origin-Opener-Policy": "same-origin",
}


@cache
def load(name: str) -> StoredBody:
    """A file of `FILES`, read once. Raises `KeyError` for any other."""
    if name not in FILES:
        raise KeyError(name)
    return StoredBody((STATIC / name).read_bytes())
