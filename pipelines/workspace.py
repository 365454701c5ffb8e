"""The code servers, as Dagster's page and daemon want them."""

import logging
import socket
import time

from dagster._core.workspace.load_target import CompositeTarget, GrpcServerTarget

from pipelines.environment import CodeLocation, code_locations

logger = logging.getLogger(__name__)

_START_SECONDS = 60.0
_POLL_SECONDS = 0.2


def load_workspace() -> CompositeTarget:
    """The code servers of the settings. Raises `ConfigurationError`."""
    return CompositeTarget(
        [
            GrpcServerTarget(each.host, each.port, socket=None, location_name=each.name)
            for each in code_locations()
        ]
    )


def await_code_servers() -> None:
    """Wait for servers that are starting, a minute at most.

    The daemon would look again for one that it did not find after a minute, the page when a person
    reloads it.
    """
    deadline = time.monotonic() + _START_SECONDS
    for each in code_locations():
        while not _listens(each):
            if time.monotonic() > deadline:
                logger.warning("no code server %s at %s:%d", each.name, each.host, each.port)
                break
            time.sleep(_POLL_SECONDS)


def _listens(location: CodeLocation) -> bool:
    try:
        socket.create_connection((location.host, location.port), timeout=1).close()
    except OSError:
        return False
    return True
