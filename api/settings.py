"""The api's own settings, read once from the environment by its process alone.

What every process shares (network, database, nodes) is in `indexer.settings`.

| variable | meaning |
|---|---|
| `ISTHMUS_STREAMS` | most streams that one process of the API has open, default 2000; 0 for none |
| `ISTHMUS_STREAMS_PER_ADDRESS` | and most from one address, default 50 |
| `ISTHMUS_PROXIES` | proxies before the API that add to `X-Forwarded-For`, default 0 |
| `ISTHMUS_URL` | where clients reach the API, such as `https://api.example.com` |
| `ISTHMUS_TOKEN_KEY` | P-256 private key in PEM that signs our tokens; without one there are none |
| `ISTHMUS_TOKEN_KEY_OTHER` | a second key that they may be signed with: the next one, or the last |
| `ISTHMUS_TOKEN_SECONDS` | how long a token is good for, 60 to 86400 (default) |

A secret is the variable itself, or the file that the same name with `_FILE` says.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from indexer.errors import ConfigurationError

STREAMS = 2_000
STREAMS_PER_ADDRESS = 50
TOKEN_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """One frozen view of the environment."""

    streams: int = STREAMS
    """Most streams that one process has open."""
    streams_per_address: int = STREAMS_PER_ADDRESS
    proxies: int = 0
    """Whose word on where a request comes from is taken: as many as add to `X-Forwarded-For`."""
    url: str | None = None
    """Where clients reach the API, without a slash at its end; never learned from a request."""
    token_key: str | None = field(default=None, repr=False)
    token_key_other: str | None = field(default=None, repr=False)
    token_seconds: int = TOKEN_SECONDS


def load_api_settings(environment: Mapping[str, str] | None = None) -> ApiSettings:
    """Read the settings. Raises `ConfigurationError` that names the variable."""
    env = os.environ if environment is None else environment
    return ApiSettings(
        streams=_count(env, "ISTHMUS_STREAMS", STREAMS),
        streams_per_address=_count(env, "ISTHMUS_STREAMS_PER_ADDRESS", STREAMS_PER_ADDRESS),
        proxies=_count(env, "ISTHMUS_PROXIES", 0),
        url=_own_url(env),
        token_key=secret(env, "ISTHMUS_TOKEN_KEY"),
        token_key_other=secret(env, "ISTHMUS_TOKEN_KEY_OTHER"),
        token_seconds=_count(env, "ISTHMUS_TOKEN_SECONDS", TOKEN_SECONDS),
    )


def secret(env: Mapping[str, str], variable: str) -> str | None:
    """What a variable holds, or the file that `<variable>_FILE` names; None when neither is set.

    Raises `ConfigurationError`, which never repeats it.
    """
    given, file = env.get(variable), env.get(f"{variable}_FILE")
    if given and file:
        raise ConfigurationError(f"{variable} and {variable}_FILE are both set; which one holds?")
    if not file:
        return given or None
    try:
        held = Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{variable}_FILE: {file} cannot be read") from error
    if not held:
        raise ConfigurationError(f"{variable}_FILE: {file} is empty")
    return held


def _own_url(env: Mapping[str, str]) -> str | None:
    url = env.get("ISTHMUS_URL")
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or url != url.rstrip("/?#"):
        raise ConfigurationError(
            f"ISTHMUS_URL is {url!r}; it must be like https://api.example.com, with no slash after"
        )
    return url


def _count(env: Mapping[str, str], variable: str, usual: int) -> int:
    text = env.get(variable, "")
    if not text:
        return usual
    if not text.isdecimal():
        raise ConfigurationError(f"{variable} is {text!r}; it must be a whole number")
    return int(text)
