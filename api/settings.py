"""The api's own settings, read once from the environment by its process alone.

What every process shares (network, database, nodes) is in `indexer.settings`.

| variable | meaning |
|---|---|
| `ISTHMUS_STREAMS` | most streams that one process of the API has open, default 2000; 0 for none |
| `ISTHMUS_STREAMS_PER_ADDRESS` | and most from one address, default 50 |
| `ISTHMUS_PROXIES` | proxies before the API that add to `X-Forwarded-For`, default 0 |
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from indexer.errors import ConfigurationError

STREAMS = 2_000
STREAMS_PER_ADDRESS = 50


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """One frozen view of the environment."""

    streams: int = STREAMS
    """Most streams that one process has open."""
    streams_per_address: int = STREAMS_PER_ADDRESS
    proxies: int = 0
    """Whose word on where a request comes from is taken: as many as add to `X-Forwarded-For`."""


def load_api_settings(environment: Mapping[str, str] | None = None) -> ApiSettings:
    """Read the settings. Raises `ConfigurationError` that names the variable."""
    env = os.environ if environment is None else environment
    return ApiSettings(
        streams=_count(env, "ISTHMUS_STREAMS", STREAMS),
        streams_per_address=_count(env, "ISTHMUS_STREAMS_PER_ADDRESS", STREAMS_PER_ADDRESS),
        proxies=_count(env, "ISTHMUS_PROXIES", 0),
    )


def _count(env: Mapping[str, str], variable: str, usual: int) -> int:
    text = env.get(variable, "")
    if not text:
        return usual
    if not text.isdecimal():
        raise ConfigurationError(f"{variable} is {text!r}; it must be a whole number")
    return int(text)
