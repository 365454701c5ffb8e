"""A receiver of webhooks on this machine, over TLS with a certificate of its own.

A sender trusts the certificate by OpenSSL's `SSL_CERT_FILE`, or by `cafile`.
"""

import datetime
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from devnet.local_server import Handler, Server, answering

HOST = "localhost"
CERTIFICATE = "webhook-receiver.pem"


@dataclass(frozen=True)
class Posted:
    """A POST."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Receiver:
    """Keeps each POST, and responds with the status that `answer` returns."""

    url: str = ""
    answer: Callable[[Posted], int] = lambda _: 204
    received: list[Posted] = field(default_factory=list)
    _changed: Condition = field(default_factory=Condition)

    def take(self, posted: Posted) -> int:
        """Keep a POST and return the status."""
        with self._changed:
            self.received.append(posted)
            self._changed.notify_all()
        return self.answer(posted)

    def wait_for(self, is_enough: Callable[[list[Posted]], bool], seconds: float) -> bool:
        """Whether the POSTs were enough within that many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: is_enough(self.received), seconds)


class _Handler(Handler):
    server: "_Server"

    def do_POST(self) -> None:
        """Take it."""
        posted = Posted(self.path, dict(self.headers.items()), self.body())
        self.answer(self.server.receiver.take(posted))


class _Server(Server):
    def __init__(self, receiver: Receiver, context: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.receiver = receiver
        # Each connection shakes hands in its own thread, where it is read.
        self.socket = context.wrap_socket(
            self.socket, server_side=True, do_handshake_on_connect=False
        )

    def handle_error(self, *request: Any) -> None:
        """A client that does not trust the certificate disconnects: not an error."""
        if not isinstance(sys.exception(), ssl.SSLError):
            super().handle_error(*request)


@contextmanager
def receiving(certificate: Path) -> Iterator[Receiver]:
    """A receiver while it serves; `certificate` is what `make_certificate` made."""
    receiver = Receiver()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = _Server(receiver, context)
    receiver.url = f"https://{HOST}:{server.server_port}/hooks"
    with answering(server):
        yield receiver


def make_certificate(folder: Path) -> Path:
    """A file with a new key and a certificate of it for this machine's name, for a day."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / CERTIFICATE
    file.touch(mode=0o600)
    file.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    return file
