"""`isthmus api` as an operator starts it, for tests."""

import os
import re
import select
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import URL

from devnet.processes import end_process
from devnet.services import isthmus

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 100.0
"""Seconds that a condition may take on a busy machine: a server's start took 40 at a load of 20."""


@dataclass
class Server:
    """`isthmus api` in processes of its own."""

    process: subprocess.Popen[str]
    url: str
    """`http://HOST:PORT`."""
    log: list[str]
    """The lines so far; all of them after `stop`."""
    _reader: threading.Thread
    """Reads the log. A server that writes more than a pipe holds would wait."""

    @property
    def stream_url(self) -> str:
        """Where the stream is."""
        return self.url.replace("http", "ws", 1) + "/api/v1/stream"

    def kill_workers(self) -> None:
        """Let every process vanish that serves; the server starts others."""
        for worker in self._workers():
            os.kill(worker, signal.SIGKILL)

    def end_workers(self) -> None:
        """Let every process end that serves, and wait for it; the server starts others."""
        for worker in self._workers():
            ended = os.pidfd_open(worker)
            try:
                os.kill(worker, signal.SIGTERM)
                assert select.select([ended], [], [], TIMEOUT)[0], "it did not end"
            finally:
                os.close(ended)

    def _workers(self) -> list[int]:
        pid = self.process.pid
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))

    def stop(self) -> int:
        """Tell it to stop; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(TIMEOUT)
        self._reader.join()
        return status


@contextmanager
def serving(
    database: URL,
    home: Path,
    *,
    workers: int = 2,
    settings: Mapping[str, str] | None = None,
    program: Sequence[str] | None = None,
    bind: str = "127.0.0.1:0",
) -> Iterator[Server]:
    """The API, by default on a port of its choice, on the devnet's network."""
    process = subprocess.Popen(
        [*(program or isthmus("api")), "--bind", bind, "--workers", str(workers)],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "ISTHMUS_NETWORK": "devnet",
            "ISTHMUS_HOME": str(home),
            "DATABASE_URL": database.render_as_string(hide_password=False),
            **(settings or {}),
        },
        cwd=home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    log: list[str] = []
    listening = threading.Event()
    reader = threading.Thread(target=_read, args=(process, log, listening), daemon=True)
    reader.start()
    try:
        assert listening.wait(TIMEOUT), "".join(log)
        assert process.poll() is None, "".join(log)
        found = re.search(r"Listening at: (http://[0-9.:]+)", "".join(log))
        assert found is not None
        yield Server(process, found[1], log, reader)
    finally:
        end_process(process, TIMEOUT)
        reader.join()
        assert process.stderr is not None
        process.stderr.close()


def _read(process: "subprocess.Popen[str]", log: list[str], listening: threading.Event) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        log.append(line)
        if "Listening at" in line:
            listening.set()
    listening.set()
