"""The doctor's checks of what the public sees, against the app behind real HTTP and TLS."""

import datetime
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from flask import Flask
from sqlalchemy import Engine
from stellar_sdk import Keypair
from werkzeug.serving import make_server

from api.app import create_app
from api.auth.sep10 import sep10_from_settings
from api.deps import Deps
from api.doctor import GROUP, check_home
from api.settings import load_api_settings
from devnet.identity.provider import StandIn
from devnet.identity.server import serving
from devnet.keys import in_files
from indexer.config.settings import load_settings
from indexer.doctor.checks import CheckResult, DoctorContext
from tests.factories.sep10 import FixedAccounts
from tests.factories.tokens import make_tokens, private_key, private_pem
from warehouse_schema.identifiers import UnixSeconds

HOST = "localhost"
WEBHOOK_KEY = "whpk_" + "A" * 43 + "="
SEED = Keypair.from_raw_ed25519_seed(bytes(32))
# SEP-10 needs a node; these checks do not ask it.
NODE = {"ISTHMUS_RPC_STELLAR_TESTNET": "http://127.0.0.1:1", "ISTHMUS_START_STELLAR_TESTNET": "1"}
DATABASE = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}

StartResponse = Callable[..., Any]


@dataclass
class Home:
    """A server of the app, how the doctor is configured, and what is changed on the way."""

    engine: Engine
    monkeypatch: pytest.MonkeyPatch
    folder: Path
    url: str = ""
    header: Callable[[str, str], str | None] = lambda _, text: text
    """Changes the text of a header by its name; None drops it."""
    body: Callable[[str, bytes], bytes] = lambda _, body: body
    """Changes a body, by its path."""
    status: Callable[[str, str], str] = lambda _, status: status
    app: Flask | None = None

    def configure(self, variables: Mapping[str, str]) -> None:
        for name, text in variables.items():
            self.monkeypatch.setenv(name, text)

    def unset(self, prefix: str) -> None:
        for name in [each for each in os.environ if each.startswith(prefix)]:
            self.monkeypatch.delenv(name)

    def write(self, variable: str, secret: str) -> None:
        path = self.folder / variable.lower()
        path.touch(mode=0o600)
        path.write_text(secret)
        self.configure({f"{variable}_FILE": str(path)})

    def start(self) -> None:
        """Build the app from what is configured now, as a start of the API does."""
        settings, own = load_settings(), load_api_settings()
        deps = Deps(
            self.engine,
            settings.network,
            lambda: UnixSeconds(1_800_000_000),
            tokens=make_tokens(),
            sep10=sep10_from_settings(own, settings.network.stellar.passphrase),
            accounts=FixedAccounts(),
            webhook_key=own.webhook_key,
        )
        self.app = create_app(deps)

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        assert self.app is not None
        path = environ["PATH_INFO"]

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            changed = ((name, self.header(name, text)) for name, text in headers)
            kept = [(name, text) for name, text in changed if text is not None]
            kept = [each for each in kept if each[0].lower() != "content-length"]
            return start_response(self.status(path, status), kept, *rest)

        return [self.body(path, b"".join(self.app(environ, start)))]

    def examine(self) -> list[CheckResult]:
        found = list(check_home(DoctorContext(load_settings())))
        assert SEED.secret not in repr(found)
        assert "PRIVATE" not in repr(found)
        return found

    def faults(self) -> Mapping[str, str]:
        return {each.check: each.problem for each in self.examine() if each.is_finding}


@contextmanager
def serve(home: Home, certificate: Path | None = None) -> Iterator[None]:
    """The app on a free port; over TLS with a certificate."""
    tls = None if certificate is None else (str(certificate), str(certificate))
    server = make_server(HOST, 0, home, threaded=True, ssl_context=tls)
    home.url = f"{'http' if tls is None else 'https'}://{HOST}:{server.port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def make_certificate(folder: Path, *, days: float, name: str = HOST) -> Path:
    """A key with its own certificate, made 90 days before its end."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(end - datetime.timedelta(days=90))
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "certificate.pem"
    file.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return file


@pytest.fixture
def home(reader: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Home]:
    """The local chains' API over plain HTTP, with an identity provider."""
    made, stand_in = Home(reader, monkeypatch, tmp_path), StandIn()
    with serve(made), serving(stand_in) as identity_url:
        made.configure({"ISTHMUS_NETWORK": "devnet", "ISTHMUS_URL": made.url, **DATABASE})
        made.configure({"ISTHMUS_WEBHOOK_PUBLIC_KEY": WEBHOOK_KEY})
        made.configure(in_files(tmp_path / "identity", stand_in.variables(identity_url)))
        made.write("ISTHMUS_TOKEN_KEY", private_pem(private_key("server")))
        made.write("ISTHMUS_SEP10_KEY", SEED.secret)
        made.start()
        yield made


@contextmanager
def on_testnet(home: Home, certificate: Path) -> Iterator[None]:
    """The same on testnet over TLS, behind a proxy, with a trusted certificate."""
    with serve(home, certificate):
        home.configure(
            {
                "ISTHMUS_NETWORK": "testnet",
                **NODE,
                "ISTHMUS_URL": home.url,
                "ISTHMUS_PROXIES": "1",
                "SSL_CERT_FILE": str(certificate),
            }
        )
        home.unset("ISTHMUS_IDENTITY_")
        home.start()
        yield


def test_devnet_over_plain_http_gives_no_finding(home: Home) -> None:
    found = home.examine()
    assert [each for each in found if each.is_finding] == []
    assert {each.check for each in found} == {each.id for each in GROUP.checks} - {
        "home.certificate"
    }


def test_testnet_over_tls_gives_no_finding(home: Home, tmp_path: Path) -> None:
    with on_testnet(home, make_certificate(tmp_path, days=60)):
        found = home.examine()
    assert [each for each in found if each.is_finding] == []
    assert [each.seen for each in found if each.check == "home.certificate"] == ["60 days"]


@pytest.mark.parametrize(
    ("days", "name", "problem"),
    [
        (-1, HOST, "certificate has expired"),
        (20.5, HOST, "the certificate ends in 20 days"),
        (60, "isthmus.example.com", "Hostname mismatch"),
    ],
    ids=["expired", "near-its-end", "another-name"],
)
def test_bad_certificate_is_the_only_finding(
    home: Home, tmp_path: Path, days: float, name: str, problem: str
) -> None:
    with on_testnet(home, make_certificate(tmp_path, days=days, name=name)):
        found = home.faults()
    assert list(found) == ["home.certificate"]
    assert problem in found["home.certificate"]


def test_certificate_of_an_unknown_issuer_is_found(home: Home, tmp_path: Path) -> None:
    with on_testnet(home, make_certificate(tmp_path, days=60)):
        home.monkeypatch.delenv("SSL_CERT_FILE")
        found = home.faults()
    assert list(found) == ["home.certificate"]
    assert "self-signed certificate" in found["home.certificate"]


def test_tls_without_a_counted_proxy_is_found(home: Home, tmp_path: Path) -> None:
    with on_testnet(home, make_certificate(tmp_path, days=60)):
        home.configure({"ISTHMUS_PROXIES": "0"})
        assert list(home.faults()) == ["home.proxies"]


def test_testnet_over_plain_http_is_found(home: Home) -> None:
    home.unset("ISTHMUS_IDENTITY_")
    home.configure({"ISTHMUS_NETWORK": "testnet", **NODE})
    assert home.faults() == {"home.api": "it is not https"}


def test_server_that_is_away_is_one_finding(home: Home) -> None:
    home.configure({"ISTHMUS_URL": "http://localhost:1"})
    found = home.faults()
    assert list(found) == ["home.api"]
    assert "refused" in found["home.api"]


def test_health_that_fails_is_found(home: Home) -> None:
    home.status = lambda path, status: "503 DOWN" if path == "/healthz" else status
    assert home.faults() == {"home.api": "/healthz is 503"}


def test_key_of_another_installation_is_found(home: Home) -> None:
    home.write("ISTHMUS_SEP10_KEY", Keypair.random().secret)
    found = home.faults()
    assert list(found) == ["home.signing_key"]
    assert f"SIGNING_KEY is {SEED.public_key}" in found["home.signing_key"]


def test_missing_cors_header_is_found(home: Home) -> None:
    home.header = lambda name, text: None if name == "Access-Control-Allow-Origin" else text
    assert home.faults() == {"home.cors": "Access-Control-Allow-Origin is not sent"}


def test_other_content_type_is_found(home: Home) -> None:
    home.header = lambda name, text: "text/html" if name == "Content-Type" else text
    found = home.faults()
    assert found == {"home.stellar_toml": "its content type is text/html, not text/plain"}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda body: b"<!doctype html>", "it is not TOML"),
        (lambda body: body + b"\n#" * 60_000, "it has more than 100000 bytes"),
        (lambda body: b"\xff" + body, "it is not TOML"),
    ],
    ids=["a-page", "too-long", "no-text"],
)
def test_unreadable_toml_is_the_only_finding(
    home: Home, change: Callable[[bytes], bytes], problem: str
) -> None:
    home.body = lambda path, body: change(body) if path.endswith(".toml") else body
    found = home.faults()
    assert list(found) == ["home.stellar_toml"]
    assert problem in found["home.stellar_toml"]


def test_toml_that_is_elsewhere_is_found(home: Home) -> None:
    home.status = lambda path, status: "302 FOUND" if path.endswith(".toml") else status
    assert home.faults() == {"home.stellar_toml": "it answers 302"}


def test_other_published_webhook_key_is_found(home: Home) -> None:
    home.configure({"ISTHMUS_WEBHOOK_PUBLIC_KEY": WEBHOOK_KEY.replace("A", "B")})
    found = home.faults()
    assert list(found) == ["home.webhook_key"]
    assert WEBHOOK_KEY in found["home.webhook_key"]


def test_other_network_is_found(home: Home) -> None:
    ours = load_settings().network.stellar.passphrase.encode()
    home.body = lambda path, body: body.replace(ours, b"Another") if "toml" in path else body
    assert list(home.faults()) == ["home.network"]


def test_challenge_for_another_domain_is_found(home: Home) -> None:
    home.configure({"ISTHMUS_WEB_AUTH_DOMAIN": "auth.example.com"})
    found = home.faults()
    assert list(found) == ["home.web_auth"]
    assert "it gives no valid challenge" in found["home.web_auth"]


def test_other_web_auth_endpoint_is_found(home: Home) -> None:
    other = b"https://old.example.com/auth"
    ours = f"{home.url}/auth".encode()
    home.body = lambda path, body: body.replace(ours, other) if "toml" in path else body
    found = home.faults()
    assert found == {"home.web_auth": f"WEB_AUTH_ENDPOINT is {other.decode()}, not {ours.decode()}"}


def test_identity_provider_that_is_away_is_found(home: Home) -> None:
    home.configure({"ISTHMUS_IDENTITY_URL": "http://127.0.0.1:1"})
    assert home.faults() == {"home.identity": "the key set does not answer with 200"}


def test_unreadable_key_is_said_and_nothing_is_asked(home: Home) -> None:
    home.write("ISTHMUS_TOKEN_KEY", "no key")
    [found] = home.examine()
    assert (found.check, found.is_finding) == ("home.settings", True)
    assert "ISTHMUS_TOKEN_KEY" in found.problem


def test_configuration_without_an_api_says_so(home: Home) -> None:
    for prefix in ("URL", "TOKEN_KEY", "SEP10_KEY", "IDENTITY_"):
        home.unset(f"ISTHMUS_{prefix}")
    [found] = home.examine()
    assert (found.is_finding, found.seen) == (False, "ISTHMUS_URL is unset: nothing is public")
