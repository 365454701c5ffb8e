"""Rolling restart of two API processes behind HAProxy: streams resume, no request is refused."""

import re
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path

import httpx
from sqlalchemy.engine import URL

from tests.api.machines.balancer import Balancer, haproxy, port_of
from tests.api.stream.conftest import Stand
from tests.api.stream.conftest import serve as serve
from tests.api.stream.conftest import stand as stand
from tests.factories.api_server import TIMEOUT, Server, serving
from tests.factories.streaming import Listener

SHUTDOWN_SECONDS = 6
SETTINGS = {
    "ISTHMUS_PROXIES": "1",
    "ISTHMUS_SHUTDOWN_SECONDS": str(SHUTDOWN_SECONDS),
    # All clients of these tests share an address.
    "ISTHMUS_LIMIT_READS": "off",
}
HINT = re.compile(r"server is stopping: resume with after=(\d+)")
HANDSHAKE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}
PATHS = ("/healthz", "/v1/routes", "/api/v1/orderbook", "/v1/status")


def test_streams_follow_the_hint_to_another_process(
    stand: Stand, serve: Callable[..., Server]
) -> None:
    first, second = serve(workers=1, settings=SETTINGS), serve(workers=1, settings=SETTINGS)
    stop = threading.Event()

    def move() -> None:
        while not stop.wait(0.1):
            stand.move()

    mover, seconds = threading.Thread(target=move), list[float]()
    with ExitStack() as stack:
        # The other process has clients already.
        stack.enter_context(Listener(second.stream_url)).wait_for(stand.market.ledger)
        leaving = [
            stack.enter_context(Listener(first.stream_url, "after=0&markers=1")) for _ in range(3)
        ]
        for each in leaving:
            each.wait_for(stand.market.ledger)
        mover.start()
        stack.callback(mover.join)
        stack.callback(stop.set)
        first.process.send_signal(signal.SIGTERM)
        resumed = []
        for before in leaving:
            code, reason = before.wait_until_closed()
            ended = time.monotonic()
            hint = HINT.fullmatch(reason)
            assert (code, hint is not None) == (1001, True), reason
            ledger = int(hint[1])
            # Nothing that was sent before is missing.
            assert before.ledger == ledger
            query = f"after={ledger}&markers=1"
            after = stack.enter_context(Listener(second.stream_url, query, book=before.book))
            after.wait_for(ledger + 1)
            seconds.append(time.monotonic() - ended)
            resumed.append((ledger, after))
        stop.set()
        mover.join()
        last = stand.market.ledger
        for ledger, after in resumed:
            assert after.wait_for(last) == stand.shown[last]
            assert after.messages[0]["mode"] == "resume"
            # Nothing is missing or repeated: `Listener` refuses an `add` of a known offer, a
            # `remove` of an unknown one and an `update` without a change.
            assert min(each["ledger"] for each in after.messages[1:]) == ledger + 1
            assert all(after.books[each] == stand.shown[each] for each in after.books)
    # The others may have waited for a processor of a busy machine.
    assert min(seconds) < 1.0, seconds


class Traffic:
    """Clients that ask without a pause; each counts what was refused."""

    def __init__(self, balancer: Balancer, clients: int) -> None:
        self.answered = 0
        self.refused: list[str] = []
        self._balancer = balancer
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(clients)]

    def __enter__(self) -> "Traffic":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, number: int) -> None:
        deadline, before = time.monotonic() + 3 * TIMEOUT, self.answered
        while self.answered < before + number:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def _run(self) -> None:
        url, tls = self._balancer.url, self._balancer.tls
        with httpx.Client(base_url=url, verify=tls, timeout=TIMEOUT) as client:
            for path in cycle(PATHS):
                if self._stop.is_set():
                    return
                try:
                    answer = client.get(path)
                except httpx.TransportError as error:
                    self.refused.append(f"{path}: {error!r}")
                    continue
                self.answered += 1
                if answer.status_code != 200:
                    # HAProxy's own answers name no server.
                    server = answer.headers.get("Server", "HAProxy")
                    self.refused.append(f"{path}: {answer.status_code} of {server}: {answer.text}")


def test_no_request_is_refused_in_a_rolling_restart(
    stand: Stand, database: URL, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        places = [stack.enter_context(ExitStack()) for _ in range(2)]

        def start(place: int, bind: str) -> Server:
            # Restarted at the same address, as a machine is.
            command = serving(database, tmp_path, workers=1, settings=SETTINGS, bind=bind)
            return places[place].enter_context(command)

        servers = [start(place, "127.0.0.1:0") for place in range(2)]
        ports = [port_of(each) for each in servers]
        # Without the time of arrival no server sheds what waited for a busy machine's processor.
        edits = {
            "slowstart 10s": "slowstart 1s",
            "http-request set-header X-Request-Start": "http-request set-header X-Unused",
        }
        balancer = stack.enter_context(haproxy(ports, edits))
        balancer.wait_until_up()
        with Traffic(balancer, 3) as traffic:
            traffic.wait_for(30)
            for place, port in enumerate(ports):
                assert servers[place].stop() == 0
                servers[place] = start(place, f"127.0.0.1:{port}")
                balancer.wait_until_up()
                traffic.wait_for(30)
        assert traffic.refused == []
        assert traffic.answered > 100


def test_readiness_ends_before_requests_do(serve: Callable[..., Server], stand: Stand) -> None:
    server = serve(workers=1, settings=SETTINGS)
    with httpx.Client(base_url=server.url, timeout=TIMEOUT) as client:
        assert client.get("/readyz/process").status_code == 200
        server.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + TIMEOUT
        while client.get("/readyz/process").status_code == 200:
            assert time.monotonic() < deadline
        assert client.get("/readyz").json()["reasons"] == ["the process is shutting down"]
        # For a load balancer to send it to another process.
        refused = client.get("/api/v1/stream", headers=HANDSHAKE)
        assert (refused.status_code, refused.json()["code"]) == (503, "STREAM_NOT_SERVED")
        # Also on a new connection: the port is open until the end.
        assert httpx.get(f"{server.url}/healthz", timeout=TIMEOUT).status_code == 200
        assert client.get("/api/v1/orderbook").status_code == 200
    assert server.process.wait(TIMEOUT) == 0
