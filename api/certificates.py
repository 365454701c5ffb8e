"""When the certificate at the API's public address ends."""

import socket
import ssl
import threading
import time
from urllib.parse import urlsplit

from cryptography.x509 import load_der_x509_certificate

_TIMEOUT_SECONDS = 3.0
_EVERY_SECONDS = 30.0


class CertificateWatch:
    """Asks the own public address, as clients see it, at most twice a minute. Thread-safe."""

    def __init__(self, url: str) -> None:
        """`url` begins with https://."""
        parts = urlsplit(url)
        self._where = (parts.hostname or "", parts.port or 443)
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._ends_at: float | None = None

    def seconds_left(self) -> float | None:
        """Seconds until it ends, negative afterwards; None when nothing answers with TLS there."""
        with self._lock:
            if time.monotonic() - self._asked_at > _EVERY_SECONDS:
                self._ends_at, self._asked_at = self._ask(), time.monotonic()
            return None if self._ends_at is None else self._ends_at - time.time()

    def _ask(self) -> float | None:
        context = ssl.create_default_context()
        # An invalid one has an end as well; nothing is sent on this connection.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        try:
            with (
                socket.create_connection(self._where, _TIMEOUT_SECONDS) as plain,
                context.wrap_socket(plain, server_hostname=self._where[0]) as sock,
            ):
                found = sock.getpeercert(binary_form=True)
        except OSError:
            return None
        if found is None:
            return None
        return load_der_x509_certificate(found).not_valid_after_utc.timestamp()


def watch_certificate(url: str | None) -> CertificateWatch | None:
    """The watch of a public address; None when it is not https."""
    return CertificateWatch(url) if url is not None and url.startswith("https://") else None
