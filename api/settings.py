"""The API's own settings, read by its process alone. docs/settings.md lists them."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from limits import RateLimitItem
from limits import parse as parse_rate
from pydantic import BeforeValidator

from api.rate_limits import BUDGETS, OWNER, READS, SIGN_IN, RateBudgets
from api.stream.limits import MAX_STREAMS, MAX_STREAMS_PER_ADDRESS
from indexer.addresses import stellar_account
from indexer.config.metrics import METRICS_FOLDER, MetricsAddress
from indexer.config.settings import (
    Settings,
    has_node,
    load_settings,
    network_of,
    read_both,
    read_variables,
    rpc_variable,
)
from indexer.errors import ConfigurationError
from warehouse_schema.configuration import load_configuration
from warehouse_schema.location import postgres_url
from warehouse_schema.variables import Count, Variables, variable, within

OFF = "off"
IDENTITY_URL = "https://api.privy.io"
QUOTE_SECONDS = 300
TRANSFER_SECONDS = 1_800
_WEBHOOK_KEY = re.compile(r"whpk_[A-Za-z0-9+/]{43}=")
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?")


def _origins(text: str) -> frozenset[str]:
    given = [each.strip() for each in text.split(",") if each.strip()]
    # As browsers name it. `*` stands for all origins, and is no part of a name.
    if not all(each == "*" or _ORIGIN.fullmatch(each) for each in given):
        raise ValueError("must be like https://app.example.com, or *; commas between several")
    return frozenset(each.lower() for each in given) or frozenset({"*"})


def _rate(text: str) -> RateLimitItem | None:
    if text == OFF:
        return None
    try:
        return parse_rate(text)
    except ValueError:
        raise ValueError("must be like 600/minute, or off") from None


def _shared(text: str) -> frozenset[str]:
    shared = frozenset() if text == "none" else frozenset(text.split(","))
    if not shared <= set(BUDGETS):
        raise ValueError(f"must name some of {','.join(BUDGETS)}, or be none")
    return shared


def _own_url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc or text != text.rstrip("/?#"):
        raise ValueError("must be like https://api.example.com, with no slash after")
    return text


def _webhook_key(text: str) -> str:
    if not _WEBHOOK_KEY.fullmatch(text):
        raise ValueError("must be what `isthmus webhook-key` prints, whpk_…")
    return text


def _stellar_public_key(text: str) -> str:
    try:
        return stellar_account(text)
    except ValueError:
        raise ValueError("must be a public key, G…") from None


def _is_identity_url(url: str, network: str) -> bool:
    parts = urlsplit(url)
    # Plain HTTP is for the local stand-in of the provider.
    is_stand_in = parts.scheme == "http" and parts.hostname == "127.0.0.1" and network == "devnet"
    has_more = parts.username or parts.query or parts.fragment or url.endswith("/")
    return bool((parts.scheme == "https" or is_stand_in) and parts.hostname and not has_more)


_Rate = Annotated[RateLimitItem | None, BeforeValidator(_rate)]


def _missing_stellar_node(given: Mapping[str, str]) -> str | None:
    """The variable of the Stellar chain's nodes, if it has none."""
    try:
        stellar = network_of(given).stellar
    except ConfigurationError:
        return None  # Another sentence names the network.
    return None if has_node(given, stellar) else rpc_variable(stellar.id)


class ApiSettings(Variables):
    """One frozen view of the environment."""

    pooler_url: Annotated[str | None, BeforeValidator(postgres_url)] = variable(
        "ISTHMUS_POOLER_URL",
        "api.pooler_url",
        "a pooler in transaction mode in front of the warehouse, for requests, `postgresql://…` "
        "with the login of `deploy/pooled-login.sql`; unset: `DATABASE_URL`, as for LISTEN",
        has_file=True,
        hidden=True,
    )
    replica_url: Annotated[str | None, BeforeValidator(postgres_url)] = variable(
        "ISTHMUS_REPLICA_URL",
        "api.replica_url",
        "a streaming replica of the warehouse that some reads may use, directly or through a "
        "pooler, with the same login; unset: none",
        has_file=True,
        hidden=True,
    )
    streams: Count = variable(
        "ISTHMUS_STREAMS",
        "api.streams",
        "most streams that one process has open; 0 for none",
        MAX_STREAMS,
    )
    streams_per_address: Count = variable(
        "ISTHMUS_STREAMS_PER_ADDRESS",
        "api.streams_per_address",
        "most streams from one address (IPv6: one /64)",
        MAX_STREAMS_PER_ADDRESS,
    )
    proxies: Count = variable(
        "ISTHMUS_PROXIES", "api.proxies", "proxies in front that add to `X-Forwarded-For`", 0
    )
    shutdown_seconds: Annotated[int, within(0, 300)] = variable(
        "ISTHMUS_SHUTDOWN_SECONDS",
        "api.shutdown_seconds",
        "seconds from SIGTERM in which the API still answers while `/readyz` says 503 and streams "
        "end one by one, 0 to 300: for load balancers, 10 or more",
        0,
    )
    origins: Annotated[frozenset[str], BeforeValidator(_origins)] = variable(
        "ISTHMUS_ORIGINS",
        "api.origins",
        "origins whose pages may read answers and open the stream, such as "
        "`https://app.example.com`; `*` for all",
        frozenset({"*"}),
    )
    hsts_seconds: Count = variable(
        "ISTHMUS_HSTS_SECONDS",
        "api.hsts_seconds",
        "`max-age` of `Strict-Transport-Security`; 0: the header is not sent",
        0,
    )
    limit_reads: _Rate = variable(
        "ISTHMUS_LIMIT_READS",
        "api.limit_reads",
        "requests of one address (IPv6: one /64), counted by each process; or `off`",
        parse_rate("6000/minute"),
    )
    limit_sign_in: _Rate = variable(
        "ISTHMUS_LIMIT_SIGN_IN",
        "api.limit_sign_in",
        "the same for `/auth`",
        parse_rate("60/minute"),
    )
    limit_owner: _Rate = variable(
        "ISTHMUS_LIMIT_OWNER",
        "api.limit_owner",
        "requests of one owner with tokens; or `off`",
        parse_rate("600/minute"),
    )
    limits_shared: Annotated[frozenset[str], BeforeValidator(_shared)] = variable(
        "ISTHMUS_LIMITS_SHARED",
        "api.limits_shared",
        "which of `reads`, `sign_in`, `owner` all processes count together in Postgres; or `none`",
        # Answers from memory would wait for a round trip to Postgres each.
        frozenset({SIGN_IN, OWNER}),
    )
    metrics: MetricsAddress = variable(
        "ISTHMUS_METRICS", "api.metrics", "`HOST:PORT` where `/metrics` is served; or `off`"
    )
    metrics_folder: str | None = variable(
        METRICS_FOLDER,
        None,
        "folder where workers put their figures together; the API's command sets it",
    )
    backup_file: Path | None = variable(
        "ISTHMUS_BACKUP_FILE",
        "api.backup_file",
        "file that each backup renews, such as pgBackRest's `backup.info`; its age is a metric",
    )
    url: Annotated[str | None, BeforeValidator(_own_url)] = variable(
        "ISTHMUS_URL",
        "api.url",
        "where clients reach the API, such as `https://api.example.com`; never learned from a "
        "request",
    )
    token_key: str | None = variable(
        "ISTHMUS_TOKEN_KEY",
        "api.token_key",
        "P-256 private key in PEM that signs tokens; unset: no tokens",
        secret=True,
    )
    token_key_other: str | None = variable(
        "ISTHMUS_TOKEN_KEY_OTHER",
        "api.token_key_other",
        "second key that tokens may be signed with: the next one, or the last",
        secret=True,
    )
    token_seconds: Annotated[int, within(60, 86_400)] = variable(
        "ISTHMUS_TOKEN_SECONDS", "api.token_seconds", "lifetime of a token, 60 to 86400", 24 * 3600
    )
    identity_app_id: str | None = variable(
        "ISTHMUS_IDENTITY_APP_ID",
        "api.identity_app_id",
        "app at the identity provider; unset: its tokens are refused",
    )
    identity_app_secret: str | None = variable(
        "ISTHMUS_IDENTITY_APP_SECRET",
        "api.identity_app_secret",
        "the app's secret, which looks up users",
        secret=True,
    )
    identity_issuer: str = variable(
        "ISTHMUS_IDENTITY_ISSUER",
        "api.identity_issuer",
        "`iss` of the provider's tokens",
        "privy.io",
    )
    identity_url: str = variable(
        "ISTHMUS_IDENTITY_URL", "api.identity_url", "the provider's API", IDENTITY_URL, hidden=True
    )
    identity_key: str | None = variable(
        "ISTHMUS_IDENTITY_KEY",
        "api.identity_key",
        "the provider's public key in PEM; unset: the key set that it publishes",
        has_file=True,
        hidden=True,
    )
    identity_seconds: Count = variable(
        "ISTHMUS_IDENTITY_SECONDS",
        "api.identity_seconds",
        "longest lifetime of the provider's tokens that is accepted",
        2 * 3600,
    )
    sep10_key: str | None = variable(
        "ISTHMUS_SEP10_KEY",
        "api.sep10_key",
        "Stellar seed `S…` that signs SEP-10 challenges and nothing else; unset: no SEP-10",
        secret=True,
    )
    sep10_public_key_other: Annotated[str | None, BeforeValidator(_stellar_public_key)] = variable(
        "ISTHMUS_SEP10_PUBLIC_KEY_OTHER",
        "api.sep10_public_key_other",
        "public key `G…` of the next SEP-10 key, or of the last: its challenges are accepted too",
        # The operator may have put the seed here.
        hidden=True,
    )
    home_domain: str | None = variable(
        "ISTHMUS_HOME_DOMAIN",
        "api.home_domain",
        "`host` or `host:port` of stellar.toml; unset: that of `ISTHMUS_URL`",
    )
    web_auth_domain: str | None = variable(
        "ISTHMUS_WEB_AUTH_DOMAIN",
        "api.web_auth_domain",
        "`host` or `host:port` that challenges name; unset: that of `ISTHMUS_URL`",
    )
    stellar_toml: Path | None = variable(
        "ISTHMUS_STELLAR_TOML",
        "api.stellar_toml",
        "TOML file of the operator's own statements in stellar.toml",
    )
    webhook_key: Annotated[str | None, BeforeValidator(_webhook_key)] = variable(
        "ISTHMUS_WEBHOOK_PUBLIC_KEY",
        "api.webhook_public_key",
        "public key `whpk_…` that webhooks are verified with; unset: no webhooks",
        # The operator may have put the private key here.
        hidden=True,
    )
    quote_seconds: Annotated[int, within(10, 3_600)] = variable(
        "ISTHMUS_QUOTE_SECONDS",
        "api.quote_seconds",
        "lifetime of a quote, 10 to 3600",
        QUOTE_SECONDS,
    )
    transfer_seconds: Annotated[int, within(60, 86_400)] = variable(
        "ISTHMUS_TRANSFER_SECONDS",
        "api.transfer_seconds",
        "time until an unpaid transfer expires, 60 to 86400",
        TRANSFER_SECONDS,
    )

    @classmethod
    def contradictions(cls, given: Mapping[str, str]) -> Iterator[str]:
        """Keys without what they need, and an identity provider that is not reached over TLS."""
        if "ISTHMUS_TOKEN_KEY_OTHER" in given and "ISTHMUS_TOKEN_KEY" not in given:
            yield "ISTHMUS_TOKEN_KEY_OTHER_FILE is set without ISTHMUS_TOKEN_KEY_FILE"
        if "ISTHMUS_TOKEN_KEY" in given and "ISTHMUS_URL" not in given:
            yield "ISTHMUS_TOKEN_KEY_FILE needs ISTHMUS_URL: a token names its issuer"
        if "ISTHMUS_SEP10_KEY" in given and not {"ISTHMUS_TOKEN_KEY", "ISTHMUS_URL"} <= {*given}:
            yield "ISTHMUS_SEP10_KEY_FILE needs ISTHMUS_TOKEN_KEY_FILE and ISTHMUS_URL"
        if "ISTHMUS_SEP10_KEY" in given and (missing := _missing_stellar_node(given)):
            yield f"ISTHMUS_SEP10_KEY_FILE needs {missing}: a node knows an account's signers"
        app, secret = "ISTHMUS_IDENTITY_APP_ID", "ISTHMUS_IDENTITY_APP_SECRET"
        if secret in given and app not in given:
            yield f"{secret}_FILE is set without {app}"
        if app in given and secret not in given:
            yield f"{app} needs {secret}_FILE"
        network = given.get("ISTHMUS_NETWORK", "devnet")
        if not _is_identity_url(given.get("ISTHMUS_IDENTITY_URL", IDENTITY_URL), network):
            # Not repeated: it may hold a secret.
            yield "ISTHMUS_IDENTITY_URL must be like https://api.privy.io, with no slash after"

    @property
    def rates(self) -> RateBudgets:
        """Limits of requests; a budget that is `off` is not in it."""
        chosen = {READS: self.limit_reads, SIGN_IN: self.limit_sign_in, OWNER: self.limit_owner}
        budgets = {budget: item for budget, item in chosen.items() if item is not None}
        return RateBudgets(budgets, self.limits_shared)


def load_api_settings(environment: Mapping[str, str] | None = None) -> ApiSettings:
    """Read the settings. Raises `ConfigurationError` that names every wrong variable."""
    return read_variables(ApiSettings, load_configuration() if environment is None else environment)


def load_all_settings() -> tuple[Settings, ApiSettings]:
    """What the API's process reads. Raises one `ConfigurationError` with all problems."""
    return read_both(load_settings, load_api_settings)
