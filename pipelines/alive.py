"""Health of one process on this machine, for health checks of containers."""

from http.client import HTTPException
from urllib.request import ProxyHandler, build_opener

from pipelines.environment import code_location, prepare_dagster
from pipelines.processes import DAEMON, RELAY_SERVER, WORKER, Process

_TIMEOUT_SECONDS = 5
_HEARTBEAT_SECONDS = 300
"""The daemon writes one every 30 s."""
_SERVICE = "DagsterApi"
"""Name under which Dagster's gRPC server reports its health."""


def is_alive(process: Process, port: int | None = None) -> bool:
    """Whether it answers, at its port; of the daemon, whether it works.

    `port` is that of a process with a health path, if it is not the usual one.

    Raises `ConfigurationError`, and what `prepare_dagster` raises.
    """
    if process.health_path is not None:
        return _answers(f"http://127.0.0.1:{port or process.port}{process.health_path}")
    if process == DAEMON:
        return _has_heartbeats()
    if process == WORKER:
        return _answers_broker()
    return _serves(code_location(relay=process == RELAY_SERVER).port)


def _answers(url: str) -> bool:
    try:
        # No proxy: it is this machine.
        with build_opener(ProxyHandler({})).open(url, timeout=_TIMEOUT_SECONDS) as response:
            return bool(response.status == 200)
    except (OSError, HTTPException):
        return False


def _serves(port: int) -> bool:
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        request = health_pb2.HealthCheckRequest(service=_SERVICE)
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=_TIMEOUT_SECONDS)
        except grpc.RpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def _answers_broker() -> bool:
    prepare_dagster()
    from pipelines.celery_worker import answers_ping

    return answers_ping()


def _has_heartbeats() -> bool:
    prepare_dagster()
    from dagster import DagsterInstance
    from dagster._daemon.controller import all_daemons_live

    with DagsterInstance.get() as instance:
        return all_daemons_live(instance, heartbeat_tolerance_seconds=_HEARTBEAT_SECONDS)
