"""A real nginx with `deploy/nginx.conf` in front of a real API process."""

import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.engine import URL

from devnet.supervisor import free_port
from devnet.webhook_receiver import make_certificate
from tests.api.test_metrics import figures
from tests.factories.api_server import ROOT, TIMEOUT, serving

MAX_CONNS = 64
"""Of the test's configuration; the committed one has 512."""


@dataclass
class Proxy:
    """nginx over TLS, the API behind it, and the API's metrics."""

    port: int
    tls: ssl.SSLContext
    metrics_url: str
    api_url: str

    @property
    def url(self) -> str:
        """`https://localhost:PORT`, the name of the certificate."""
        return f"https://localhost:{self.port}"

    @contextmanager
    def connections(self, number: int) -> Iterator[list[socket.socket]]:
        """TLS connections that have sent nothing."""
        with ExitStack() as stack:
            yield [
                stack.enter_context(
                    self.tls.wrap_socket(
                        socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT),
                        server_hostname="localhost",
                    )
                )
                for _ in range(number)
            ]

    def get(self, path: str) -> httpx.Response:
        """A GET through the proxy on a connection of its own."""
        return httpx.get(self.url + path, verify=self.tls, timeout=TIMEOUT)

    def metric(self, name: str) -> dict[tuple[str, ...], float]:
        """Values of a metric by its labels."""
        return figures(httpx.get(self.metrics_url, timeout=TIMEOUT).text)[name]


def nginx_program() -> str:
    """Path of nginx. Fails with the fix where there is none."""
    found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        pytest.fail(
            "no nginx on this machine: install Debian's nginx-light, or run .ci/run as root"
        )
    return found


@contextmanager
def nginx(
    port: int, api_port: int, edits: Mapping[str, str] | None = None
) -> Iterator[ssl.SSLContext]:
    """nginx with the committed configuration, its EDIT lines and paths replaced.

    `edits` are further texts to replace.
    """
    with tempfile.TemporaryDirectory(prefix="isthmus-nginx-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        certificate = str(make_certificate(folder))
        config = (ROOT / "deploy" / "nginx.conf").read_text()
        for old, new in {
            "pid /run/nginx.pid;": f"pid {folder}/pid; {'user root;' if os.geteuid() == 0 else ''}",
            "listen 443 ssl http2;": f"listen 127.0.0.1:{port} ssl http2;",
            # Some machines of the suite have no IPv6.
            "listen [::]:443 ssl http2;": "",
            "/etc/isthmus/tls/fullchain.pem": certificate,
            "/etc/isthmus/tls/key.pem": certificate,
            "127.0.0.1:8080": f"127.0.0.1:{api_port}",
            "max_conns=512": f"max_conns={MAX_CONNS}",
            "http {\n": "http {\n" + _temporary_paths(folder),
            **(edits or {}),
        }.items():
            assert old in config, old
            config = config.replace(old, new)
        (folder / "nginx.conf").write_text(config)
        command = [nginx_program(), "-c", str(folder / "nginx.conf"), "-g", "daemon off;"]
        log = (folder / "log").open("w+")
        process = subprocess.Popen(command, stderr=log)
        try:
            _wait_until_listening(process, port, folder / "log")
            yield ssl.create_default_context(cafile=certificate)
        finally:
            process.terminate()
            process.wait(TIMEOUT)
            log.close()


def _temporary_paths(folder: Path) -> str:
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    return "".join(f"    {kind}_temp_path {folder}/{kind};\n" for kind in kinds)


def _wait_until_listening(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            return
    pytest.fail(log.read_text())


@contextmanager
def proxied(database: URL, home: Path) -> Iterator[Proxy]:
    """An API with one process, and nginx in front."""
    metrics = f"127.0.0.1:{free_port()}"
    settings = {
        "ISTHMUS_METRICS": metrics,
        "ISTHMUS_NETWORK": "testnet",
        "ISTHMUS_PROXIES": "1",
        "ISTHMUS_LIMIT_SIGN_IN": "off",
    }
    port = free_port()
    with (
        serving(database, home, workers=1, settings=settings) as server,
        nginx(port, int(server.url.rpartition(":")[2])) as tls,
    ):
        yield Proxy(port, tls, f"http://{metrics}/metrics", server.url)


@pytest.fixture(scope="module")
def proxy(api_database: URL, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """For tests that leave nothing behind."""
    with proxied(api_database, tmp_path_factory.mktemp("home")) as running:
        yield running


@pytest.fixture
def overloaded(
    api_database: URL, book: Connection, tmp_path: Path
) -> Iterator[tuple[Proxy, Callable[[], AbstractContextManager[None]]]]:
    """A proxy, and a function that locks the orders until its block ends."""
    owner = create_engine(api_database)

    @contextmanager
    def locked() -> Iterator[None]:
        with owner.begin() as connection:
            connection.execute(text("LOCK TABLE projections.orders IN ACCESS EXCLUSIVE MODE"))
            yield

    with proxied(api_database, tmp_path) as running:
        yield running, locked
    owner.dispose()
