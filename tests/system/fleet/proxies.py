"""HAProxy in front of the API, and PgBouncer between an API machine and the primary."""

import resource
import shutil
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.factories.machines import LOGIN, PooledLogin
from tests.system.fleet.hosts import Host
from tests.system.fleet.programs import ROOT, FleetFailed, Program, find_program

API_PORT = 8080
HOST = "127.0.0.1"
"""HAProxy listens outside, where the clients are."""
_UP = ("1", "2")
"""Operational states of a server that gets requests: starting and running."""
_SPARE_FILES = 1_000
"""Of a HAProxy: requests, health checks and its own."""


def processes_for(sockets: int) -> int:
    """HAProxy processes for so many sockets: each needs two open files for one of them."""
    usual, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return -(-2 * sockets // (usual - _SPARE_FILES))


def haproxy(
    name: str, port: int, machines: Sequence[Host], folder: Path, *, sockets: int
) -> Program:
    """A HAProxy with `deploy/haproxy.cfg` at that port, without TLS, in front of two machines.

    All clients have one address here, so its limit of connections is lifted.
    """
    first, second = machines
    file = folder / f"{name}.cfg"
    edits = {
        "bind :443 ssl crt /etc/isthmus/tls/api.pem alpn h2,http/1.1": f"bind {HOST}:{port}",
        "/run/haproxy/admin.sock": f"{folder}/{name}.sock",
        "maxconn 8192": f"maxconn {sockets + _SPARE_FILES // 2}\n    nbthread 1",
        "sc_conn_cur(0) gt 128": "sc_conn_cur(0) gt 1000000",
        "10.0.0.11:8080": f"{first.address}:{API_PORT}",
        "10.0.0.12:8080": f"{second.address}:{API_PORT}",
    }
    file.write_text(_edited("haproxy.cfg", edits))
    program = find_program("haproxy")
    assert program is not None
    return Program(name, [program, "-db", "-f", str(file)], folder / f"{name}.log")


def pgbouncer(host: Host, login: PooledLogin, folder: Path) -> Program:
    """PgBouncer on a machine, with `deploy/pgbouncer.ini`, in front of the login's server."""
    own = folder / f"pgbouncer-{host.name}"
    own.mkdir()
    point_pgbouncer(own, str(login.url.host))
    (own / "userlist.txt").write_text(f'"{LOGIN}" "{login.secret}"\n')
    for path in (own, *own.iterdir()):
        shutil.chown(path, "nobody")
    program = find_program("pgbouncer")
    assert program is not None
    words = [program, str(own / "pgbouncer.ini")]
    name = f"pgbouncer on {host.name}"
    return Program(name, words, own / "log", host, user="nobody", stop_signal=signal.SIGINT)


def point_pgbouncer(folder: Path, address: str) -> None:
    """Write its configuration, for a primary at that address; SIGHUP makes it read it again."""
    edits = {
        "host=db.internal": f"host={address}",
        "/run/postgresql/pgbouncer.pid": f"{folder}/pid",
        "/etc/pgbouncer/userlist.txt": f"{folder}/userlist.txt",
    }
    (folder / "pgbouncer.ini").write_text(_edited("pgbouncer.ini", edits))


def _edited(name: str, edits: Mapping[str, str]) -> str:
    """A file of `deploy` as an operator edits it. Raises `FleetFailed` where a text is missing."""
    text = (ROOT / "deploy" / name).read_text()
    for old, new in edits.items():
        if old not in text:
            raise FleetFailed(f"deploy/{name} has no {old}")
        text = text.replace(old, new)
    return text


_FORWARDED = """\
defaults
    mode tcp
    timeout connect 2s
    timeout client 1h
    timeout server 1h

{listeners}
"""


def forwarder(
    name: str, source: str, target: str, ports: Sequence[int], folder: Path, host: Host | None
) -> Program:
    """A HAProxy that passes TCP connections from one address to another one, port by port."""
    listeners = "\n".join(
        f"listen port-{port}\n    bind {source}:{port}\n    server target {target}:{port}"
        for port in ports
    )
    file = folder / f"{name}.cfg"
    file.write_text(_FORWARDED.format(listeners=listeners))
    program = find_program("haproxy")
    assert program is not None
    return Program(name, [program, "-db", "-f", str(file)], folder / f"{name}.log", host)


def is_up(folder: Path, name: str, machines: int) -> bool:
    """Whether a HAProxy finds so many machines ready."""
    # Not by its port: it serves as soon as one of them is.
    answer = ask(folder / f"{name}.sock", "show servers state api")
    # After the version and the names: be_id be_name srv_id srv_name srv_addr srv_op_state …
    states = [line.split()[5] for line in answer.splitlines()[2:] if line]
    return sum(each in _UP for each in states) == machines


def ask(path: Path, command: str) -> str:
    """Answer of a HAProxy at its control socket; empty when there is none."""
    with socket.socket(socket.AF_UNIX) as control:
        control.settimeout(5.0)
        try:
            control.connect(str(path))
            control.sendall(f"{command}\n".encode())
            return b"".join(iter(lambda: control.recv(1 << 16), b"")).decode()
        except (ConnectionError, FileNotFoundError, TimeoutError):
            return ""
