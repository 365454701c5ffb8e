"""The API as a process on a port that it keeps from start to start."""

import os
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
from sqlalchemy.engine import URL

from devnet.services import isthmus
from devnet.supervisor import free_port

ROOT = Path(__file__).resolve().parents[3]
TIMEOUT = 60.0


class Serving:
    """`isthmus api` on a database, until the block ends."""

    def __init__(self, database: URL, home: Path, *, workers: int = 1) -> None:
        self._port = free_port(0)
        self._workers = workers
        self._log = home / "api.log"
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "ISTHMUS_NETWORK": "devnet",
            "ISTHMUS_HOME": str(home),
            "DATABASE_URL": database.render_as_string(hide_password=False),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(signal.SIGKILL)

    def start(self) -> None:
        """Start, and wait until it answers."""
        where = ["--bind", f"127.0.0.1:{self._port}", "--workers", str(self._workers)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                isthmus("api", *where),
                cwd=self._log.parent,
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + TIMEOUT
        while not self._answers():
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)

    def stop(self, by: signal.Signals = signal.SIGTERM) -> None:
        """End it and its workers; wait for that."""
        if self._process is None:
            return
        if by is signal.SIGKILL:
            os.killpg(self._process.pid, by)
        else:
            self._process.send_signal(by)
        self._process.wait(TIMEOUT)
        self._process = None

    def get(self, path: str) -> httpx.Response:
        """An answer of the API."""
        return httpx.get(f"{self.url}{path}", timeout=TIMEOUT)

    def log(self) -> str:
        """All it said, in all its lives."""
        return self._log.read_text()

    def _answers(self) -> bool:
        try:
            return self.get("/healthz").status_code == 200
        except httpx.TransportError:
            return False
