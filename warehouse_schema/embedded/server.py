"""A running server: its URL, and the port that it listens on."""

import random
import socket
import time
from dataclasses import dataclass, field
from urllib.parse import quote

from warehouse_schema.embedded.errors import PortTaken

HOST = "127.0.0.1"
SUPERUSER = "isthmus"
DEFAULT_DATABASE = "isthmus"
DEFAULT_SCHEME = "postgresql+psycopg"

# Below the range that Linux and macOS use for outgoing connections, so that a recorded port is
# seldom in use by another program at the next start.
_PORTS = range(20_000, 32_000)
_PORT_TIMEOUT = 2
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Server:
    """A server that accepts connections. `started_here`: this `start` started it."""

    port: int
    password: str = field(repr=False)
    started_here: bool

    def url(self, database: str = DEFAULT_DATABASE, scheme: str = DEFAULT_SCHEME) -> str:
        """The URL with the password; `scheme` is SQLAlchemy's ``dialect+driver``."""
        password = quote(self.password, safe="")
        return f"{scheme}://{SUPERUSER}:{password}@{HOST}:{self.port}/{quote(database, safe='')}"

    def public_url(self, database: str = DEFAULT_DATABASE, scheme: str = DEFAULT_SCHEME) -> str:
        """The URL without the password, for terminals and logs."""
        return f"{scheme}://{SUPERUSER}@{HOST}:{self.port}/{quote(database, safe='')}"


def choose_port(requested: int, recorded: int) -> int:
    """The requested port (0: none is), else the one of the last start, else a free one.

    Raises PortTaken.
    """
    if requested:
        if not _is_free_soon(requested):
            raise PortTaken(
                f"port {requested} of {HOST} is in use by another program. Stop it, or ask "
                "for another port (0 finds a free one)."
            )
        return requested
    if recorded and _is_free_soon(recorded):
        return recorded
    for port in random.SystemRandom().sample(_PORTS, k=len(_PORTS)):
        if _is_free(port):
            return port
    raise PortTaken(f"every port of {HOST} from {_PORTS.start} to {_PORTS.stop - 1} is in use.")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Postgres does: connections in TIME_WAIT of an earlier server do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _is_free_soon(port: int) -> bool:
    """`_is_free`, with a timeout: the port of a killed server is free a moment after its end."""
    deadline = time.monotonic() + _PORT_TIMEOUT
    while not _is_free(port):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
