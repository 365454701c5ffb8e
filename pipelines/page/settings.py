"""What Dagster's page is set to, read from the environment.

| variable | meaning |
|---|---|
| `ISTHMUS_PAGE_PASSWORD` | the operator's password, 16 characters or more; or `…_FILE`. Unset: no login, and the page is read-only |
| `ISTHMUS_PAGE_URL` | where browsers reach the page, such as `https://dagster.example.com`, beside `localhost` |
"""  # noqa: E501

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from indexer.config.secrets import secret
from indexer.errors import ConfigurationError

LOGIN_VARIABLE = "ISTHMUS_PAGE_PASSWORD"
URL_VARIABLE = "ISTHMUS_PAGE_URL"
_SHORTEST_PASSWORD = 16


@dataclass(frozen=True, slots=True)
class PageSettings:
    """Where the page listens, under which names, and for whom."""

    host: str
    port: int
    origins: tuple[str, ...]
    password: str | None = field(repr=False)

    @property
    def read_only(self) -> bool:
        """Whether nothing can be started, stopped or changed there."""
        return self.password is None


def load_page_settings(
    host: str, port: int, environment: Mapping[str, str] | None = None
) -> PageSettings:
    """Read the settings. Raises `ConfigurationError` that names the variable."""
    env = os.environ if environment is None else environment
    password = secret(env, LOGIN_VARIABLE)
    if password is not None and len(password) < _SHORTEST_PASSWORD:
        raise ConfigurationError(
            f"{LOGIN_VARIABLE} must have {_SHORTEST_PASSWORD} characters or more"
        )
    if password is None and not _is_loopback(host):
        raise ConfigurationError(
            f"{LOGIN_VARIABLE} is not set, so the page listens on this machine alone, not on {host}"
        )
    local = tuple(f"http://{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))
    public = env.get(URL_VARIABLE)
    return PageSettings(host, port, (*local, *([] if not public else [_origin(public)])), password)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/"):
        raise ConfigurationError(f"{URL_VARIABLE} must be like https://dagster.example.com")
    return f"{parts.scheme}://{parts.netloc}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
