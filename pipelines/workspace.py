"""The code servers, as Dagster's page and daemon want them."""

import logging
import time

import grpc
from dagster._core.workspace.load_target import CompositeTarget, GrpcServerTarget

from pipelines.environment import code_locations

logger = logging.getLogger(__name__)

_START_SECONDS = 60.0
_OPTIONS = (
    # gRPC's own pauses grow to two minutes, and to half a minute for a name that is not there yet.
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.dns_min_time_between_resolutions_ms", 1_000),
)


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
        with grpc.insecure_channel(f"{each.host}:{each.port}", _OPTIONS) as channel:
            try:
                ready = grpc.channel_ready_future(channel)
                ready.result(max(0.0, deadline - time.monotonic()))
            except grpc.FutureTimeoutError:
                logger.warning("no code server %s at %s:%d", each.name, each.host, each.port)
