"""A TLS site in the place of the proxy in front of the API, whose certificate can be exchanged."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

LONG, SHORT = timedelta(days=90), timedelta(days=3)
HOST = "localhost"


class TlsSite:
    """Shakes hands and closes. New connections get the certificate that was renewed last."""

    def __init__(self, folder: Path, listener: socket.socket) -> None:
        self._folder = folder
        self._listener = listener
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.url = f"https://{HOST}:{listener.getsockname()[1]}"
        self.renew(LONG)

    @classmethod
    @contextmanager
    def serving(cls, folder: Path) -> Iterator[Self]:
        """A site while the block runs."""
        folder.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            site = cls(folder, listener)
            thread = threading.Thread(target=site._serve, daemon=True)
            thread.start()
            yield site

    def renew(self, lifetime: timedelta) -> None:
        """Use a new certificate that ends after `lifetime`."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + lifetime)
            .sign(key, hashes.SHA256())
        )
        file = self._folder / "site.pem"
        pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
        file.write_bytes(made.public_bytes(pem) + secret)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        self._context = context

    def _serve(self) -> None:
        # Ends when the listener is closed.
        with suppress(OSError):
            while True:
                plain, _ = self._listener.accept()
                with suppress(OSError), self._context.wrap_socket(plain, server_side=True) as sock:
                    sock.recv(1)
