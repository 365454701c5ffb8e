"""`GET`s of the order book at a steady rate, beside what else is measured."""

import subprocess
from collections.abc import Sequence
from typing import Any

from devnet.local_http import HOST
from devnet.services import Ports, api, environment
from devnet.supervisor import Supervisor, free_port
from indexer.config.settings import Settings
from indexer.config.warehouse import database_url
from tests.system.bench.load import finish_load, start_load
from tests.system.bench.orderbook import CONNECTIONS, WORKERS, fill_book
from tests.system.bench.site import milliseconds, percentile
from warehouse_schema.engine import make_engine

RATE = 500
"""`GET`s a second."""


class BookReads:
    """An API on a warehouse whose order book is filled, and its clients."""

    _alone: Sequence[float] = ()
    """Seconds that each answer took before `begin`."""
    _beside: "subprocess.Popen[bytes]"

    def __init__(self, supervisor: Supervisor, settings: Settings) -> None:
        engine = make_engine(database_url(settings))
        fill_book(engine)
        engine.dispose()
        ports = Ports(free_port(), page=0, code=0)
        self._port = ports.api
        supervisor.run(api(ports, environment(settings), workers=WORKERS))

    def begin(self, seconds: float) -> None:
        """Ask for that long while nothing else happens, then begin to ask for as long again."""
        self._alone = finish_load(self._start(seconds))["took"]
        self._beside = self._start(seconds)

    def finish(self) -> dict[str, Any]:
        """The figures, once the second time is over."""
        beside = finish_load(self._beside)["took"]
        return {
            "gets": len(beside),
            "gets_p50_ms": milliseconds(percentile(beside, 0.50)),
            "gets_p99_ms": milliseconds(percentile(beside, 0.99)),
            "gets_alone_p50_ms": milliseconds(percentile(self._alone, 0.50)),
            "gets_alone_p99_ms": milliseconds(percentile(self._alone, 0.99)),
            "gets_p99_ratio": round(percentile(beside, 0.99) / percentile(self._alone, 0.99), 2),
        }

    def _start(self, seconds: float) -> "subprocess.Popen[bytes]":
        request = f"GET /api/v1/orderbook HTTP/1.1\r\nHost: {HOST}:{self._port}\r\n\r\n"
        return start_load(self._port, CONNECTIONS, seconds, 200, request.encode(), RATE)
