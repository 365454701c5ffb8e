"""URLs of nodes, as a setting has them."""

import re
from urllib.parse import urlsplit


def node_urls(text: str) -> tuple[str, ...]:
    """The URLs, one a line or behind commas. Raises `ValueError`, which quotes none of them."""
    urls = tuple(url.strip() for url in re.split(r"[,\n]", text) if url.strip())
    if not all(url.startswith(("http://", "https://", "ws://", "wss://")) for url in urls):
        raise ValueError("must hold URLs that begin with http(s):// or ws(s)://")
    if not all(map(_has_server, urls)):
        # Without a word of it: what is taken for the port may be half of a password.
        raise ValueError(
            "has a URL without a host, or with a port that is none: write / ? # @ in a password as"
            " %2F %3F %23 %40"
        )
    return urls


def _has_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
