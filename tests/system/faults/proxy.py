"""A faulty node: JSON-RPC over HTTP and WebSocket in front of a real one.

A test injects faults (`lies`, `refusals`), each named after what nodes were seen to do. A fault has
`fired` once for every request that it spoilt, so that no test passes because nothing went wrong.
With a seed and a rate, faults come by chance, and the seed reproduces which.
"""

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import httpx
import orjson
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from devnet.local_server import Handler, Server, answering
from tests.system.faults.fault import Call, Exchange, Fault, Reply, Response, answered

_LONGEST_HANG = 20.0
_DRAWN = 3


class FaultyHttp:
    """Serves `url`, and answers as the real node does unless a fault is injected."""

    def __init__(self, upstream: str, *, host: str = "127.0.0.1", seed: int = 0) -> None:
        self.rng = random.Random(seed)
        self.requests = 0
        self.watch: Callable[[Sequence[Call]], None] = lambda _: None
        """Called with the calls of each request, before it is passed on."""
        self._upstream = upstream
        self._lock = threading.RLock()
        self._injected: list[tuple[Fault, int]] = []
        self._by_chance: tuple[Sequence[Fault], float] = ((), 0.0)
        self._client = httpx.Client(timeout=30.0, trust_env=False)
        self._doors = ExitStack()
        self.url = self._doors.enter_context(answering(_serving(self, host)))

    def close(self) -> None:
        self.heal()
        self._doors.close()
        self._client.close()

    def inject(self, fault: Fault, *, times: int = 1_000_000) -> None:
        """Spoil the next requests in which the fault shows; one fault after another."""
        with self._lock:
            self._injected.append((fault, times))

    def inject_by_chance(self, faults: Sequence[Fault], rate: float) -> None:
        """Spoil up to that share of the requests, each by one of these."""
        with self._lock:
            self._by_chance = (faults, rate)

    def heal(self) -> None:
        """No more faults."""
        with self._lock:
            for fault in [*(fault for fault, _ in self._injected), *self._by_chance[0]]:
                fault.release()
            self._injected.clear()
            self._by_chance = ((), 0.0)

    @contextmanager
    def faulty(self, fault: Fault, *, times: int = 1_000_000) -> Iterator[Fault]:
        """With the fault; on the way out it has to have shown."""
        self.inject(fault, times=times)
        yield fault
        self.heal()
        assert fault.fired, f"{type(fault).__name__} never showed"

    def respond(self, body: bytes) -> Response:
        payload = orjson.loads(body)
        alone = isinstance(payload, dict)
        response = self._respond([payload] if alone else payload)
        if alone and response.status == 200 and response.body.startswith(b"["):
            # What is not asked as a batch is not answered as one.
            response.body = response.body[1:].removesuffix(b"]")
        return response

    def _respond(self, calls: list[Call]) -> Response:
        with self._lock:
            self.requests += 1
            self.watch(calls)
            exchange = Exchange(calls, self._ask, random.Random(self.rng.random()))
            faults = [*(fault for fault, _ in self._injected), *self._drawn()]
        for fault in faults:
            response = fault.respond(exchange)
            if response is not None:
                self._count(fault)
                return response
        return answered(exchange.replies())

    def _drawn(self) -> list[Fault]:
        faults, rate = self._by_chance
        # Several, because most show in some requests only; the first that does spoils this one.
        is_spoilt = faults and self.rng.random() < rate
        return self.rng.sample(faults, min(_DRAWN, len(faults))) if is_spoilt else []

    def _count(self, fault: Fault) -> None:
        with self._lock:
            fault.fired += 1
            self._injected = [
                (each, left - 1 if each is fault else left)
                for each, left in self._injected
                if each is not fault or left > 1
            ]

    def _ask(self, calls: list[Call]) -> list[Reply]:
        response = self._client.post(
            self._upstream,
            content=orjson.dumps(calls),
            headers={"content-type": "application/json"},
        )
        by_id = {reply["id"]: reply for reply in orjson.loads(response.content)}
        return [by_id[call["id"]] for call in calls]


class FaultyNode(FaultyHttp):
    """The same with `ws_url`, of a node that pushes its heads."""

    def __init__(
        self, upstream: str, upstream_ws: str, *, host: str = "127.0.0.1", seed: int = 0
    ) -> None:
        super().__init__(upstream, host=host, seed=seed)
        self.heads = HeadsProxy(upstream_ws, host)
        self.ws_url = self.heads.url

    def close(self) -> None:
        self.heads.close()
        super().close()


def _serving(node: FaultyHttp, host: str) -> Server:
    class RequestHandler(Handler):
        # What is sent slowly is sent as it is written.
        wbufsize = 0

        def do_POST(self) -> None:
            response = node.respond(self.body())
            if response.waits is not None:
                response.waits.wait(_LONGEST_HANG)
            self.send_response(response.status)
            self.send_header("content-length", str(len(response.body) + response.cut))
            for name, value in response.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self._send(response)
            if response.cut:
                self.close_connection = True

        def _send(self, response: Response) -> None:
            if not response.pauses:
                self.wfile.write(response.body)
                return
            waiting = threading.Event()
            for start in range(len(response.body)):
                self.wfile.write(response.body[start : start + 1])
                waiting.wait(response.pauses)

    return Server((host, 0), RequestHandler)


class HeadsProxy:
    """Passes new heads on from the real node's socket, as far as a test lets it."""

    def __init__(self, upstream: str, host: str) -> None:
        self._upstream = upstream
        self._sockets: list[ServerConnection] = []
        self._lock = threading.RLock()
        self.subscriptions = 0
        self.is_silent = False
        self.held: list[bytes | str] | None = None
        """While it is a list, heads are put here; `let_go` passes them on in another order."""
        self._arrived = threading.Condition(self._lock)
        self._newest = 0
        self._server = serve(self._accept, host, 0)
        self.url = f"ws://{host}:{self._server.socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self._kept = ExitStack()
        self._source = self._kept.enter_context(connect(upstream, compression=None, proxy=None))
        self._source.send('{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}')
        self._source.recv()
        self._pump = threading.Thread(target=self._pass_on, daemon=True)
        self._pump.start()

    def drop(self) -> None:
        """Close every client's socket."""
        with self._lock:
            sockets, self._sockets = self._sockets, []
        for socket in sockets:
            socket.close()

    def let_go(self, order: Callable[[list[bytes | str]], list[bytes | str]]) -> int:
        """Pass on the heads that were held, in the order that `order` gives; how many."""
        with self._lock:
            held, self.held = self.held or [], None
            for message in order(held):
                self._send(message)
        return len(held)

    def wait_for(self, height: int) -> None:
        """Until the real node has pushed that head."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: self._newest >= height, timeout=20)

    def close(self) -> None:
        self._kept.close()
        self._pump.join()
        self.drop()
        self._server.shutdown()
        self._thread.join()

    def _accept(self, socket: ServerConnection) -> None:
        try:
            call = orjson.loads(socket.recv())
            assert call["params"] == ["newHeads"]
            socket.send(orjson.dumps({"jsonrpc": "2.0", "id": call["id"], "result": "0xcd"}))
            with self._lock:
                self.subscriptions += 1
                self._sockets.append(socket)
            socket.recv()
        except ConnectionClosed:
            return

    def _pass_on(self) -> None:
        try:
            for message in self._source:
                with self._lock:
                    if self.held is not None:
                        self.held.append(message)
                    elif not self.is_silent:
                        self._send(message)
                    head = orjson.loads(message)["params"]["result"]
                    self._newest = int(head["number"], 16)
                    self._arrived.notify_all()
        except ConnectionClosed:
            return

    def _send(self, message: bytes | str) -> None:
        for socket in [*self._sockets]:
            try:
                socket.send(message)
            except ConnectionClosed:
                self._sockets.remove(socket)
