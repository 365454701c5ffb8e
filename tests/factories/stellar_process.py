"""The devnet as a child process, for tests and scenarios."""

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from devnet.local_http import local_client
from devnet.processes import end_process
from devnet.stellar.__main__ import READY
from devnet.stellar.ledger import PROTOCOL
from devnet.stellar.registry import Remotes

READY_WITHIN = 20.0
STOPPED_WITHIN = 10.0


class DevnetNotReady(Exception):
    """The process ended, or did not answer in time."""


@dataclass
class StellarProcess:
    """A running devnet; a context manager that stops it.

    `interval` is seconds between ledgers, 0 for a ledger for each transaction, None for ledgers on
    demand only. `state` is the directory that keeps the chain, None for memory.
    """

    child: "subprocess.Popen[str]"
    url: str

    @classmethod
    def start(
        cls,
        *,
        port: int = 0,
        interval: float | None = 0,
        clock: str = "wall",
        state: Path | None = None,
        remotes: Remotes | None = None,
        retention: int = 0,
        protocol: int = PROTOCOL,
    ) -> "StellarProcess":
        """Start the process and wait until it is healthy; raise `DevnetNotReady` otherwise."""
        command = [sys.executable, "-m", "devnet.stellar", "--port", str(port)]
        command += ["--interval", "manual" if interval is None else str(interval)]
        command += ["--clock", clock, "--retention", str(retention)]
        command += ["--protocol", str(protocol)]
        command += [] if state is None else ["--state", str(state)]
        command += [] if remotes is None else _remote_options(remotes)
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        process = cls(child, "")
        try:
            process.url = process._announced()
            process._wait_until_healthy()
        except BaseException:
            process.kill()
            raise
        return process

    def _announced(self) -> str:
        assert self.child.stdout is not None
        line = self.child.stdout.readline()
        if not line.startswith(READY):
            raise DevnetNotReady(f"exit code {self.child.wait(STOPPED_WITHIN)}")
        return line.removeprefix(READY).strip()

    def _wait_until_healthy(self) -> None:
        deadline = time.monotonic() + READY_WITHIN
        while True:
            try:
                if self.rpc("getHealth")["status"] == "healthy":
                    return
            except httpx.TransportError as error:
                if time.monotonic() > deadline or self.child.poll() is not None:
                    raise DevnetNotReady(str(error)) from error
            time.sleep(0.02)

    def rpc(self, method: str, **params: object) -> dict[str, object]:
        """One raw JSON-RPC call; raise ValueError with the error object when it is refused."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        with local_client(timeout=READY_WITHIN) as http:
            answer = http.post(self.url, json=body).json()
        if "error" in answer:
            raise ValueError(answer["error"])
        result: dict[str, object] = answer["result"]
        return result

    def stop(self) -> None:
        """Ask it to end; kill it when it does not."""
        end_process(self.child, STOPPED_WITHIN)
        self._reap()

    def kill(self) -> None:
        """End it with no chance to tidy up, as a crash would."""
        self.child.kill()
        self._reap()

    def _reap(self) -> None:
        self.child.wait(STOPPED_WITHIN)
        if self.child.stdout is not None:
            self.child.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _remote_options(remotes: Remotes) -> list[str]:
    options = ["--token-messenger", remotes.token_messenger.hex(), "--usdc", remotes.usdc.hex()]
    options += ["--oft", remotes.oft.hex()]
    for attester in remotes.attesters:
        options += ["--attester", attester.hex()]
    return [*options, "--domain", str(remotes.domain), "--eid", str(remotes.eid)]
