"""Which port of this machine the server listens on."""

import random
import socket
import time

from warehouse_schema.embedded.errors import PortTaken
from warehouse_schema.embedded.server import HOST

# Below the range that Linux and macOS lend to outgoing connections, so that a port we keep is
# seldom taken by another program after a pause.
_PORTS = range(20_000, 32_000)
_TIMEOUT = 2
_POLL_SECONDS = 0.05


def choose_port(asked: int, kept: int) -> int:
    """The port asked for (0: none is), else the one kept from last time, else a free one.

    Raises PortTaken.
    """
    if asked:
        if not _is_free_soon(asked):
            raise PortTaken(
                f"port {asked} of {HOST} is in use by another program. Stop it, or ask "
                "for another port (0 finds a free one)."
            )
        return asked
    if kept and _is_free_soon(kept):
        return kept
    return _free_port()


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Postgres does: connections of a past server that are timing out do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _is_free_soon(port: int) -> bool:
    """As `_is_free`, with a timeout: the port of a killed server is free a moment after its end."""
    deadline = time.monotonic() + _TIMEOUT
    while not _is_free(port):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _free_port() -> int:
    for port in random.SystemRandom().sample(_PORTS, k=len(_PORTS)):
        if _is_free(port):
            return port
    raise PortTaken(f"every port of {HOST} from {_PORTS.start} to {_PORTS.stop - 1} is in use.")
