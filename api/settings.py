"""The api's own settings, read once from the environment by its process alone.

What every process shares (network, database, nodes) is in `indexer.config.settings`.

| variable | meaning |
|---|---|
| `ISTHMUS_STREAMS` | most streams that one process of the API has open, default 2000; 0 for none |
| `ISTHMUS_STREAMS_PER_ADDRESS` | and most from one address, default 50 |
| `ISTHMUS_PROXIES` | proxies before the API that add to `X-Forwarded-For`, default 0 |
| `ISTHMUS_ORIGINS` | whose pages may use the API: `https://app.example.com,…`; default `*` |
| `ISTHMUS_HSTS_SECONDS` | how long browsers are to insist on https, default 0: not told to |
| `ISTHMUS_LIMIT_READS` | requests of an address (IPv6: a /64), default `6000/minute`; or `off` |
| `ISTHMUS_LIMIT_SIGN_IN` | the same for `/auth`, default `60/minute` |
| `ISTHMUS_LIMIT_OWNER` | requests of an owner, default `600/minute` |
| `ISTHMUS_LIMITS_SHARED` | which all processes count together, default `sign_in,owner`; or `none` |
| `ISTHMUS_METRICS` | `HOST:PORT` where `/metrics` is served; unset or `off`: not served |
| `ISTHMUS_URL` | where clients reach the API, such as `https://api.example.com` |
| `ISTHMUS_TOKEN_KEY` | P-256 private key in PEM that signs our tokens; without one there are none |
| `ISTHMUS_TOKEN_KEY_OTHER` | a second key that they may be signed with: the next one, or the last |
| `ISTHMUS_TOKEN_SECONDS` | how long a token is good for, 60 to 86400 (default) |
| `ISTHMUS_IDENTITY_APP_ID` | our app at the identity provider; unset: its tokens are refused |
| `ISTHMUS_IDENTITY_APP_SECRET` | and its secret, to look up users with |
| `ISTHMUS_IDENTITY_ISSUER` | `iss` of its tokens, default `privy.io` |
| `ISTHMUS_IDENTITY_URL` | its API, default `https://api.privy.io` |
| `ISTHMUS_IDENTITY_KEY` | its public key in PEM; unset: the key set that it publishes |
| `ISTHMUS_IDENTITY_SECONDS` | the longest that a token of it may be good for, default 7200 |
| `ISTHMUS_SEP10_KEY` | Stellar seed that signs SEP-10 challenges; without one there are none |
| `ISTHMUS_HOME_DOMAIN` | `host` or `host:port` of stellar.toml; default: that of `ISTHMUS_URL` |
| `ISTHMUS_WEB_AUTH_DOMAIN` | what challenges call this server; default: that of `ISTHMUS_URL` |
| `ISTHMUS_STELLAR_TOML` | TOML file of what the operator says of itself in stellar.toml |
| `ISTHMUS_WEBHOOK_PUBLIC_KEY` | `whpk_…`, which webhooks are verified with; unset: there are none |
| `ISTHMUS_QUOTE_SECONDS` | how long a quote is good for, 10 to 3600, default 300 |
| `ISTHMUS_TRANSFER_SECONDS` | until an unpaid transfer expires, 60 to 86400, default 1800 |

A secret is the variable itself, or the file that the same name with `_FILE` says.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from limits import RateLimitItem
from limits import parse as parse_rate

from api.rate_limits import BUDGETS, OWNER, READS, SIGN_IN, RateBudgets
from indexer.config.secrets import secret
from indexer.errors import ConfigurationError

STREAMS = 2_000
STREAMS_PER_ADDRESS = 50
TOKEN_SECONDS = 24 * 3600
RATES: Mapping[str, str] = {READS: "6000/minute", SIGN_IN: "60/minute", OWNER: "600/minute"}
SHARED = f"{SIGN_IN},{OWNER}"
"""`reads` are not: answers from memory would wait for a round trip to Postgres each."""
IDENTITY_ISSUER = "privy.io"
IDENTITY_URL = "https://api.privy.io"
IDENTITY_SECONDS = 2 * 3600
QUOTE_SECONDS = 300
_QUOTE_RANGE = (10, 3600)
TRANSFER_SECONDS = 1_800
_TRANSFER_RANGE = (60, 86_400)


@dataclass(frozen=True, slots=True)
class IdentitySettings:
    """The identity provider whose users may sign in."""

    app_id: str
    app_secret: str = field(repr=False)
    issuer: str
    """`iss` of its tokens, to the letter."""
    url: str
    key: str | None = None
    longest_seconds: int = IDENTITY_SECONDS


OFF = "off"

_ADDRESS = re.compile(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]):[1-9][0-9]{0,4}")
_WEBHOOK_KEY = re.compile(r"whpk_[A-Za-z0-9+/]{43}=")
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """One frozen view of the environment."""

    streams: int = STREAMS
    """Most streams that one process has open."""
    streams_per_address: int = STREAMS_PER_ADDRESS
    proxies: int = 0
    """Whose word on where a request comes from is taken: as many as add to `X-Forwarded-For`."""
    origins: frozenset[str] = frozenset({"*"})
    """Of pages that may read answers and open the stream, in lower case."""
    hsts_seconds: int = 0
    rates: RateBudgets = field(default_factory=RateBudgets)
    metrics: str = ""
    """`HOST:PORT` where `/metrics` is served, or `off`."""
    metrics_folder: str | None = None
    """Where workers put their figures together; `python -m api` makes it."""
    url: str | None = None
    """Where clients reach the API, without a slash at its end; never learned from a request."""
    token_key: str | None = field(default=None, repr=False)
    token_key_other: str | None = field(default=None, repr=False)
    token_seconds: int = TOKEN_SECONDS
    identity: IdentitySettings | None = None
    """None: nobody's users but those of SEP-10."""
    sep10_key: str | None = field(default=None, repr=False)
    home_domain: str | None = None
    web_auth_domain: str | None = None
    stellar_toml: Path | None = None
    webhook_key: str | None = None
    """Public, of who sends to webhooks."""
    quote_seconds: int = QUOTE_SECONDS
    """How long a quote is good for."""
    transfer_seconds: int = TRANSFER_SECONDS
    """How long a transfer waits for what its owner has to do."""


def load_api_settings(environment: Mapping[str, str] | None = None) -> ApiSettings:
    """Read the settings. Raises `ConfigurationError` that names the variable."""
    env = os.environ if environment is None else environment
    return ApiSettings(
        streams=_count(env, "ISTHMUS_STREAMS", STREAMS),
        streams_per_address=_count(env, "ISTHMUS_STREAMS_PER_ADDRESS", STREAMS_PER_ADDRESS),
        proxies=_count(env, "ISTHMUS_PROXIES", 0),
        origins=_origins(env),
        hsts_seconds=_count(env, "ISTHMUS_HSTS_SECONDS", 0),
        rates=_rates(env),
        metrics=_metrics(env),
        metrics_folder=env.get("PROMETHEUS_MULTIPROC_DIR") or None,
        url=_own_url(env),
        token_key=secret(env, "ISTHMUS_TOKEN_KEY"),
        token_key_other=secret(env, "ISTHMUS_TOKEN_KEY_OTHER"),
        token_seconds=_count(env, "ISTHMUS_TOKEN_SECONDS", TOKEN_SECONDS),
        identity=_identity(env),
        sep10_key=secret(env, "ISTHMUS_SEP10_KEY"),
        home_domain=env.get("ISTHMUS_HOME_DOMAIN") or None,
        web_auth_domain=env.get("ISTHMUS_WEB_AUTH_DOMAIN") or None,
        stellar_toml=Path(file) if (file := env.get("ISTHMUS_STELLAR_TOML")) else None,
        webhook_key=_webhook_key(env),
        quote_seconds=_within(env, "ISTHMUS_QUOTE_SECONDS", QUOTE_SECONDS, _QUOTE_RANGE),
        transfer_seconds=_within(
            env, "ISTHMUS_TRANSFER_SECONDS", TRANSFER_SECONDS, _TRANSFER_RANGE
        ),
    )


def _identity(env: Mapping[str, str]) -> IdentitySettings | None:
    prefix = "ISTHMUS_IDENTITY"
    app_id, app_secret = env.get(f"{prefix}_APP_ID"), secret(env, f"{prefix}_APP_SECRET")
    if not app_id:
        if app_secret:
            raise ConfigurationError(f"{prefix}_APP_SECRET is set without {prefix}_APP_ID")
        return None
    if not app_secret:
        raise ConfigurationError(f"{prefix}_APP_ID needs {prefix}_APP_SECRET")
    return IdentitySettings(
        app_id=app_id,
        app_secret=app_secret,
        issuer=env.get(f"{prefix}_ISSUER") or IDENTITY_ISSUER,
        url=_identity_url(env),
        key=secret(env, f"{prefix}_KEY"),
        longest_seconds=_count(env, f"{prefix}_SECONDS", IDENTITY_SECONDS),
    )


def _webhook_key(env: Mapping[str, str]) -> str | None:
    text = env.get("ISTHMUS_WEBHOOK_PUBLIC_KEY") or None
    if text is not None and not _WEBHOOK_KEY.fullmatch(text):
        # Not repeated: somebody may have taken the other one.
        raise ConfigurationError(
            "ISTHMUS_WEBHOOK_PUBLIC_KEY must be what `python -m relay webhook-key` prints, whpk_…"
        )
    return text


def _within(env: Mapping[str, str], variable: str, usual: int, bounds: tuple[int, int]) -> int:
    number, (least, most) = _count(env, variable, usual), bounds
    if not least <= number <= most:
        raise ConfigurationError(f"{variable} is {number}; it must be from {least} to {most}")
    return number


def _identity_url(env: Mapping[str, str]) -> str:
    url = env.get("ISTHMUS_IDENTITY_URL") or IDENTITY_URL
    parts = urlsplit(url)
    # The stand-in of the local chains speaks plain HTTP, here and nowhere else.
    is_stand_in = (
        parts.scheme == "http"
        and parts.hostname == "127.0.0.1"
        and env.get("ISTHMUS_NETWORK", "devnet") == "devnet"
    )
    has_more = parts.username or parts.query or parts.fragment or url.endswith("/")
    if not (parts.scheme == "https" or is_stand_in) or not parts.hostname or has_more:
        # Not repeated: it may hold what is secret.
        raise ConfigurationError(
            "ISTHMUS_IDENTITY_URL must be like https://api.privy.io, with no slash after"
        )
    return url


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


def _origins(env: Mapping[str, str]) -> frozenset[str]:
    given = [each.strip() for each in env.get("ISTHMUS_ORIGINS", "").split(",") if each.strip()]
    for each in given:
        # As browsers name it. The `*` is for all of them, and no part of a name.
        if each != "*" and not _ORIGIN.fullmatch(each):
            raise ConfigurationError(
                f"ISTHMUS_ORIGINS has {each!r}; it must be like https://app.example.com, or *"
            )
    return frozenset(each.lower() for each in given) or frozenset({"*"})


def _rates(env: Mapping[str, str]) -> RateBudgets:
    chosen = {budget: _rate(env, budget) for budget in BUDGETS}
    named = env.get("ISTHMUS_LIMITS_SHARED") or SHARED
    shared = frozenset() if named == "none" else frozenset(named.split(","))
    if not shared <= set(BUDGETS):
        raise ConfigurationError(
            f"ISTHMUS_LIMITS_SHARED is {named!r}; it must name some of {','.join(BUDGETS)}, or none"
        )
    return RateBudgets(
        {budget: item for budget, item in chosen.items() if item is not None}, shared
    )


def _rate(env: Mapping[str, str], budget: str) -> RateLimitItem | None:
    variable = f"ISTHMUS_LIMIT_{budget.upper()}"
    text = env.get(variable) or RATES[budget]
    if text == OFF:
        return None
    try:
        return parse_rate(text)
    except ValueError as error:
        raise ConfigurationError(
            f"{variable} is {text!r}; it must be like 600/minute, or off"
        ) from error


def _metrics(env: Mapping[str, str]) -> str:
    where = env.get("ISTHMUS_METRICS") or OFF
    if where != OFF and not _ADDRESS.fullmatch(where):
        raise ConfigurationError(f"ISTHMUS_METRICS is {where!r}; it must be HOST:PORT, or off")
    return where


def _count(env: Mapping[str, str], variable: str, usual: int) -> int:
    text = env.get(variable, "")
    if not text:
        return usual
    if not text.isdecimal():
        raise ConfigurationError(f"{variable} is {text!r}; it must be a whole number")
    return int(text)
