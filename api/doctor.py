"""Checks of what the public sees, for `isthmus doctor`: the API's URL, TLS, stellar.toml, SEP-10.

Wallets read stellar.toml under the home domain, then sign in where it says. Each address is asked
as they ask it: from outside, over TLS, with this machine's trusted roots.
"""

import http.client
import ssl
import tomllib
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson
from stellar_sdk import Keypair
from stellar_sdk.sep import stellar_web_authentication as library
from stellar_sdk.sep.exceptions import InvalidSep10ChallengeError

from api.auth.key_set import parse_key_set
from api.auth.provider import IdentityProviderApi
from api.auth.sep10 import Sep10, sep10_from_settings
from api.auth.stellar_toml import MAX_BYTES, read_statement
from api.auth.tokens import tokens_from_settings, verifying_key
from api.errors import IdentityUnavailable
from api.public_site import REQUEST_SECONDS, PublicAnswer, fetch
from api.settings import ApiSettings, load_api_settings
from indexer.chains.http.client import host_of
from indexer.config.settings import problems_of
from indexer.doctor.checks import Check, CheckGroup, CheckResult, DoctorContext
from indexer.errors import ConfigurationError
from warehouse_schema.configuration import explain
from warehouse_schema.identifiers import UnixSeconds

MIN_CERTIFICATE_DAYS = 21
"""Certificates of 90 days are renewed 30 days before their end: by then renewal fails."""
_WELL_KNOWN = "/.well-known/stellar.toml"

SETTINGS = Check(
    "home.settings",
    "The API's settings can be read, its keys among them, and do not contradict each other.",
    "Correct the setting (docs/settings.md), or run the doctor as the API's user.",
)
API = Check(
    "home.api",
    "`ISTHMUS_URL` begins with https, except on the devnet, and its /healthz answers 200.",
    "Start the API and its proxy, and look at DNS, firewall and the proxy's log.",
)
CERTIFICATE = Check(
    "home.certificate",
    "The certificates of ISTHMUS_URL and of the home domain are valid for their names, by this "
    f"machine's trusted roots, for {MIN_CERTIFICATE_DAYS} days or more.",
    "Renew the certificate, and look why it was not renewed; serve the whole chain. Of a "
    "certificate that no public authority signed, make this machine trust the root: "
    "`update-ca-certificates`, or SSL_CERT_FILE for the doctor alone.",
)
PROXIES = Check(
    "home.proxies",
    "`ISTHMUS_PROXIES` counts the proxy that ends TLS: the API itself speaks plain HTTP. Else all "
    "clients share the limits of one address.",
    "Set ISTHMUS_PROXIES to the number of proxies in front, such as 1 (deploy/nginx.conf).",
)
STELLAR_TOML = Check(
    "home.stellar_toml",
    "stellar.toml is served under the home domain, as text/plain, without a redirect, and is TOML "
    "of at most 100 kB.",
    "Let the home domain serve what the API serves under /.well-known/stellar.toml.",
)
CORS = Check(
    "home.cors",
    "stellar.toml has `Access-Control-Allow-Origin: *`: wallets in browsers read no other.",
    "Let the server of the home domain add the header.",
)
NETWORK = Check(
    "home.network",
    "`NETWORK_PASSPHRASE` of stellar.toml is this network's.",
    "Serve this installation's stellar.toml; another one is there, or a cache is old.",
)
SIGNING_KEY = Check(
    "home.signing_key",
    "`SIGNING_KEY` of stellar.toml is the public key of ISTHMUS_SEP10_KEY.",
    "Serve this installation's stellar.toml, or correct ISTHMUS_SEP10_KEY_FILE.",
)
WEB_AUTH = Check(
    "home.web_auth",
    "`WEB_AUTH_ENDPOINT` of stellar.toml is this API's /auth, and gives a valid challenge for home "
    "domain, web auth domain and network.",
    "Correct ISTHMUS_URL, ISTHMUS_HOME_DOMAIN or ISTHMUS_WEB_AUTH_DOMAIN, and restart the API.",
)
WEBHOOK_KEY = Check(
    "home.webhook_key",
    "`WEBHOOK_SIGNING_KEY` of stellar.toml is ISTHMUS_WEBHOOK_PUBLIC_KEY.",
    "Restart the API with this configuration; let the home domain serve its stellar.toml.",
)
IDENTITY = Check(
    "home.identity",
    "The identity provider's key set can be read and has a P-256 signing key.",
    "Look at ISTHMUS_IDENTITY_URL and ISTHMUS_IDENTITY_APP_ID, and at the provider's status page.",
)


@dataclass
class PublicSite:
    """Requests to the public addresses. A server that failed is not asked again: one fault is one
    finding."""

    failed: set[str] = field(default_factory=set)
    _certified: set[str] = field(default_factory=set)

    def ask(self, check: Check, url: str) -> Generator[CheckResult, None, PublicAnswer | None]:
        """Results of the request itself, under `CERTIFICATE` or `check`; returns the answer."""
        host = urlsplit(url).netloc
        if host in self.failed:
            return None
        try:
            answer = fetch(url)
        except ssl.SSLCertVerificationError as error:
            yield CERTIFICATE.failed(host, error.verify_message)
        except (OSError, http.client.HTTPException) as error:
            yield check.failed(url, f"{type(error).__name__}: {error}")
        else:
            if answer.certificate_days is not None and host not in self._certified:
                self._certified.add(host)
                yield _check_days(host, answer.certificate_days)
            return answer
        self.failed.add(host)
        return None


def _check_days(host: str, days: float) -> CheckResult:
    if days < MIN_CERTIFICATE_DAYS:
        return CERTIFICATE.failed(host, f"the certificate ends in {days:.0f} days")
    return CERTIFICATE.ok(host, f"{days:.0f} days")


def check_home(context: DoctorContext) -> Iterator[CheckResult]:
    """Check what clients and wallets reach of the API."""
    network = context.settings.network
    try:
        own = load_api_settings()
        sep10 = sep10_from_settings(own, network.stellar.passphrase)
        tokens_from_settings(own, lambda: UnixSeconds(0))
        read_statement(own.stellar_toml, network)
        if own.identity_key is not None:
            verifying_key(own.identity_key, "ISTHMUS_IDENTITY_KEY")
    except ConfigurationError as error:
        for problem in problems_of(error):
            yield SETTINGS.failed("api", explain(problem))
        return
    yield SETTINGS.ok("api", "" if own.url else "ISTHMUS_URL is unset: nothing is public")
    yield from _check_identity(own)
    if own.url is None:
        return
    url, is_local = urlsplit(own.url), network.name == "devnet"
    if url.scheme != "https" and not is_local:
        yield API.failed(own.url, "it is not https", "Set ISTHMUS_URL to the https URL.")
        return
    if url.scheme == "https" and not own.proxies:
        yield PROXIES.failed(own.url, "ISTHMUS_PROXIES is 0, and something else ends TLS")
    else:
        yield PROXIES.ok(own.url, f"{own.proxies} proxies")
    site = PublicSite()
    context.begin(API.id, own.url)
    health = yield from site.ask(API, f"{own.url}/healthz")
    if health is not None:
        is_well = health.status == 200
        yield API.ok(own.url) if is_well else API.failed(own.url, f"/healthz is {health.status}")
    scheme = url.scheme if is_local else "https"
    yield from _check_stellar_toml(
        context, site, f"{scheme}://{own.home_domain or url.netloc}{_WELL_KNOWN}", own, sep10
    )


def _check_identity(own: ApiSettings) -> Iterator[CheckResult]:
    if own.identity_app_id is None or own.identity_app_secret is None:
        return
    subject = host_of(own.identity_url)
    if own.identity_key is not None:
        yield IDENTITY.ok(subject, "its key is ISTHMUS_IDENTITY_KEY")
        return
    provider = IdentityProviderApi(
        own.identity_url, own.identity_app_id, own.identity_app_secret, timeout=REQUEST_SECONDS
    )
    try:
        body = provider.key_set()
    except IdentityUnavailable:
        yield IDENTITY.failed(subject, "the key set does not answer with 200")
        return
    try:
        yield IDENTITY.ok(subject, f"{len(parse_key_set(body))} keys")
    except IdentityUnavailable:
        yield IDENTITY.failed(subject, "the key set has no P-256 signing key")


def _check_stellar_toml(
    context: DoctorContext, site: PublicSite, url: str, own: ApiSettings, sep10: Sep10 | None
) -> Iterator[CheckResult]:
    context.begin(STELLAR_TOML.id, url)
    answer = yield from site.ask(STELLAR_TOML, url)
    if answer is None:
        return
    result, document = _read_toml(url, answer)
    yield result
    if document is None:
        return
    allowed = answer.headers.get("access-control-allow-origin")
    if allowed == "*":
        yield CORS.ok(url)
    else:
        yield CORS.failed(url, f"Access-Control-Allow-Origin is {allowed or 'not sent'}")
    expected: list[tuple[Check, str, str | None]] = [
        (NETWORK, "NETWORK_PASSPHRASE", context.settings.network.stellar.passphrase),
        (WEBHOOK_KEY, "WEBHOOK_SIGNING_KEY", own.webhook_key),
    ]
    if sep10 is not None:
        expected.append((SIGNING_KEY, "SIGNING_KEY", sep10.signing_key))
    for check, name, value in expected:
        found = document.get(name)
        if found == value:
            yield check.ok(url, value or "none")
        else:
            yield check.failed(url, f"{name} is {found or 'not there'}, it must be {value}")
    if sep10 is not None and document.get("SIGNING_KEY") == sep10.signing_key:
        yield from _check_web_auth(site, document.get("WEB_AUTH_ENDPOINT"), sep10)


def _read_toml(url: str, answer: PublicAnswer) -> tuple[CheckResult, dict[str, Any] | None]:
    """The result, and the document unless there is none."""
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip()
    if answer.status != 200:
        moved = answer.headers.get("location")
        where = f" to {moved}" if moved else ""
        return STELLAR_TOML.failed(url, f"it answers {answer.status}{where}"), None
    if len(answer.body) > MAX_BYTES:
        return STELLAR_TOML.failed(url, f"it has more than {MAX_BYTES} bytes"), None
    try:
        document = tomllib.loads(answer.body.decode())
    except ValueError as error:
        return STELLAR_TOML.failed(url, f"it is not TOML: {error}"), None
    if media_type != "text/plain":
        problem = f"its content type is {media_type or 'not sent'}, not text/plain"
        return STELLAR_TOML.failed(url, problem), document
    return STELLAR_TOML.ok(url, f"{len(answer.body)} bytes"), document


def _check_web_auth(site: PublicSite, endpoint: object, sep10: Sep10) -> Iterator[CheckResult]:
    """Ask for a challenge as a wallet does, for an account that is not on the ledger."""
    if endpoint != sep10.endpoint:
        yield WEB_AUTH.failed(
            sep10.endpoint, f"WEB_AUTH_ENDPOINT is {endpoint or 'not there'}, not {sep10.endpoint}"
        )
        return
    query = {"account": Keypair.random().public_key, "home_domain": sep10.home_domain}
    answer = yield from site.ask(WEB_AUTH, f"{sep10.endpoint}?{urlencode(query)}")
    if answer is None:
        return
    if answer.status != 200:
        yield WEB_AUTH.failed(sep10.endpoint, f"it answers {answer.status}")
        return
    try:
        library.read_challenge_transaction(
            str(orjson.loads(answer.body)["transaction"]),
            sep10.signing_key,
            sep10.home_domain,
            sep10.web_auth_domain,
            sep10.passphrase,
        )
    except (InvalidSep10ChallengeError, ValueError, KeyError, TypeError) as error:
        yield WEB_AUTH.failed(sep10.endpoint, f"it gives no valid challenge: {error}")
    else:
        yield WEB_AUTH.ok(sep10.endpoint)


GROUP = CheckGroup(
    (
        *(SETTINGS, API, CERTIFICATE, PROXIES, STELLAR_TOML, CORS, NETWORK, SIGNING_KEY),
        *(WEB_AUTH, WEBHOOK_KEY, IDENTITY),
    ),
    check_home,
)
