"""Settings of Dagster's page, read by its process alone. docs/settings.md lists them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BeforeValidator

from indexer.config.settings import read_variables
from indexer.errors import ConfigurationError
from warehouse_schema.configuration import load_configuration
from warehouse_schema.variables import Variables, variable

LOGIN_VARIABLE = "ISTHMUS_PAGE_PASSWORD"
_MIN_PASSWORD = 16


def _password(text: str) -> str:
    if len(text) < _MIN_PASSWORD:
        raise ValueError(f"must have {_MIN_PASSWORD} characters or more")
    return text


def _origin(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/"):
        raise ValueError("must be like https://dagster.example.com")
    return f"{parts.scheme}://{parts.netloc}"


class PageVariables(Variables):
    """Login and public name of the page."""

    password: Annotated[str | None, BeforeValidator(_password)] = variable(
        LOGIN_VARIABLE,
        "page.password",
        "password of the user `operator`, 16 characters or more; unset: no login, the page is "
        "read-only and listens on this machine alone",
        secret=True,
    )
    origin: Annotated[str | None, BeforeValidator(_origin)] = variable(
        "ISTHMUS_PAGE_URL",
        "page.url",
        "where browsers reach the page besides `localhost`, such as `https://dagster.example.com`",
    )


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
    """Read the settings. Raises `ConfigurationError` that names every wrong variable."""
    values = read_variables(
        PageVariables, load_configuration() if environment is None else environment
    )
    if values.password is None and not _is_loopback(host):
        raise ConfigurationError(
            f"{LOGIN_VARIABLE}_FILE is not set, so the page listens on this machine alone, not on "
            f"{host}"
        )
    local = tuple(f"http://{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))
    public = () if values.origin is None else (values.origin,)
    return PageSettings(host, port, (*local, *public), values.password)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
