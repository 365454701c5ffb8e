"""Where the processes of `isthmus up` listen, and whether these addresses are free."""

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from indexer.config.settings import SharedVariables, read_variables
from pipelines.processes import API, CODE_SERVER, PAGE, RELAY_SERVER, Process

HOST = "127.0.0.1"
_LOCATION_PORTS = {CODE_SERVER: "code_server_port", RELAY_SERVER: "relay_server_port"}
"""Process → its key under `[dagster]`."""
_METRICS_KEYS = {
    "ISTHMUS_METRICS": "`metrics` under `[api]`",
    "ISTHMUS_METRICS_PIPELINES": "`pipelines` under `[metrics]`",
    "ISTHMUS_METRICS_RELAY": "`relay` under `[metrics]`",
}


class StartRefused(RuntimeError):
    """Something on this machine keeps the processes from starting; it says what to do."""


@dataclass(frozen=True, slots=True)
class Listener:
    """An address that a process listens on."""

    what: str
    host: str
    port: int
    setting: str
    """What chooses the address."""

    @property
    def address(self) -> str:
        """`HOST:PORT`."""
        return f"{self.host}:{self.port}"


def listeners_of(
    processes: Sequence[Process],
    given: Mapping[str, str],
    *,
    bind: str | None,
    page_port: int | None,
) -> tuple[Listener, ...]:
    """The TCP addresses that these processes listen on. Raises `ConfigurationError`."""
    values = read_variables(SharedVariables, given)
    return tuple(
        listener
        for process in processes
        for listener in _listeners(process, values, given, bind, page_port)
    )


def _listeners(
    process: Process,
    values: SharedVariables,
    given: Mapping[str, str],
    bind: str | None,
    page_port: int | None,
) -> Iterator[Listener]:
    if process == API:
        yield from _parse(API.name, bind or f"{HOST}:{API.port}", "--bind HOST:PORT")
    elif process == PAGE:
        yield Listener(PAGE.name, HOST, page_port or int(PAGE.port or 0), "--page-port PORT")
    elif process in _LOCATION_PORTS:
        key = _LOCATION_PORTS[process]
        yield Listener(
            process.name, HOST, getattr(values, key), f"`{key}` under `[dagster]` of isthmus.toml"
        )
    if process.metrics is not None and (address := given.get(process.metrics)):
        setting = f"{_METRICS_KEYS[process.metrics]} of isthmus.toml"
        yield from _parse(f"the metrics of {process.name}", address, setting)


def _parse(what: str, address: str, setting: str) -> Iterator[Listener]:
    """Nothing for a Unix socket, or for `off`."""
    host, _, port = address.rpartition(":")
    if port.isdecimal():
        yield Listener(what, host.strip("[]"), int(port), setting)


def require_free(listeners: Sequence[Listener]) -> None:
    """Raise one `StartRefused` that names every address which cannot be listened on."""
    problems = []
    with ExitStack() as held:
        for each in listeners:
            try:
                held.enter_context(_bound(each))
            except OSError as error:
                problems.append(
                    f"{each.what} cannot listen on {each.address}: "
                    f"{os.strerror(error.errno or 0)}. Choose another with {each.setting}"
                )
    if problems:
        raise StartRefused("\n".join(problems))


def _bound(listener: Listener) -> socket.socket:
    """A socket at the address, so that no second one of ours gets it."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        listener.host or None, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.socket(family, kind, protocol)
    # As servers do: connections of an earlier process that are in TIME_WAIT do not count. A socket
    # that listens does.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
        bound.listen(1)
    except OSError:
        bound.close()
        raise
    return bound
