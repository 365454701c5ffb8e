"""HAProxy with `deploy/haproxy.cfg`, in front of API processes."""

import signal
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from devnet.supervisor import free_port
from devnet.webhook_receiver import make_certificate
from tests.factories.api_server import ROOT, TIMEOUT, Server
from tests.factories.machines import program, running


@dataclass(frozen=True)
class Balancer:
    """HAProxy over TLS."""

    port: int
    tls: ssl.SSLContext
    admin: Path
    """HAProxy's own socket."""

    @property
    def url(self) -> str:
        """`https://localhost:PORT`, the name of the certificate."""
        return f"https://localhost:{self.port}"

    @property
    def stream_url(self) -> str:
        return f"wss://localhost:{self.port}/api/v1/stream"

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        """A GET on a connection of its own."""
        return httpx.get(self.url + path, headers=headers, verify=self.tls, timeout=TIMEOUT)

    def wait_until_up(self, servers: int = 2) -> None:
        """Until its checks have passed for so many servers."""
        self._wait(lambda: self._states().count(_RUNNING) >= servers)

    def wait_until_down(self) -> None:
        """Until its checks have failed for all servers."""
        self._wait(lambda: set(self._states()) == {_STOPPED})

    def _wait(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not holds():
            assert time.monotonic() < deadline, self._ask("show stat")
            time.sleep(0.05)

    def _states(self) -> list[str]:
        answer = self._ask("show servers state api")
        # After the version and the names: be_id be_name srv_id srv_name srv_addr srv_op_state …
        return [line.split()[5] for line in answer.splitlines()[2:] if line]

    def _ask(self, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as admin:
            admin.connect(str(self.admin))
            admin.sendall(f"{command}\n".encode())
            return b"".join(iter(lambda: admin.recv(65536), b"")).decode()


_STOPPED, _RUNNING = "0", "2"


@contextmanager
def haproxy(ports: Sequence[int], edits: Mapping[str, str] | None = None) -> Iterator[Balancer]:
    """The committed configuration, the lines below EDIT and paths replaced.

    `edits` are further texts to replace.
    """
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="isthmus-haproxy-") as name:
        folder = Path(name)
        certificate = str(make_certificate(folder))
        config = (ROOT / "deploy" / "haproxy.cfg").read_text()
        for old, new in {
            "bind :443": f"bind 127.0.0.1:{port}",
            "/etc/isthmus/tls/api.pem": certificate,
            "/run/haproxy/admin.sock": f"{folder}/admin.sock",
            "10.0.0.11:8080": f"127.0.0.1:{ports[0]}",
            "10.0.0.12:8080": f"127.0.0.1:{ports[-1]}",
            **(edits or {}),
        }.items():
            assert old in config, old
            config = config.replace(old, new)
        (folder / "haproxy.cfg").write_text(config)
        command = [program("haproxy", "haproxy"), "-db", "-f", str(folder / "haproxy.cfg")]
        # HAProxy ignores SIGINT where the shell that started the tests does.
        with running(command, folder / "log", port, stop=signal.SIGTERM):
            tls = ssl.create_default_context(cafile=certificate)
            yield Balancer(port, tls, folder / "admin.sock")


def port_of(server: Server) -> int:
    return int(server.url.rpartition(":")[2])
