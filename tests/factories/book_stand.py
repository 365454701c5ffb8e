"""The order book from the contracts to what clients see: a devnet's RPC, a warehouse, an API.

The contracts run in this process and close a ledger when they are told to. Their events are read
over HTTP by the real reader, followed into Postgres by the real follower, and asked back from the
API.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, select

from devnet.stellar.rpc import Rpc
from devnet.stellar.server import DevnetServer
from indexer.chains.stellar.reader import StellarReader
from indexer.config.networks import Network, load_network
from tests.devnet.stellar.market import Market
from tests.factories.app import make_app
from tests.factories.ingesting import ingest_once
from warehouse_schema import projections as tables
from warehouse_schema.metadata import metadata

NETWORK = load_network("devnet")
FILTERS = ("minAmount=30", "minAmount=35")


@dataclass(frozen=True)
class ForgetfulRpc(Rpc):
    """Leaves events out of getEvents, as if they had never been emitted."""

    omitted: frozenset[str] = frozenset()
    """Event ids."""

    def call(self, method: str, params: Any) -> dict[str, Any]:
        answer = super().call(method, params)
        if method != "getEvents":
            return answer
        kept = [event for event in answer["events"] if event["id"] not in self.omitted]
        return {**answer, "events": kept}


@contextmanager
def serving(rpc: Rpc) -> Iterator[str]:
    """The URL of a devnet's RPC."""
    server = DevnetServer(rpc, host="127.0.0.1", port=0, interval=None)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.stop()
        thread.join()


@contextmanager
def reading(market: Market, omitted: Sequence[str] = ()) -> Iterator[StellarReader]:
    """A reader of the market's chain, by a node that leaves these events out."""
    with serving(ForgetfulRpc(market.chain.node, omitted=frozenset(omitted))) as url:
        reader = StellarReader(NETWORK.stellar, [url])
        try:
            yield reader
        finally:
            reader.close()


def follow_up(
    engine: Engine, reader: StellarReader, network: Network = NETWORK, *, ledgers: int = 200
) -> None:
    """Bring in every ledger there is, so many in one transaction."""
    while ingest_once(engine, reader, network, max_blocks=ledgers) is not None:
        pass


@dataclass(frozen=True)
class Shown:
    """What clients see after some ledgers, and what they were told meanwhile."""

    ledger: int
    offers: list[dict[str, Any]]
    """`GET /api/v1/orderbook`."""
    filtered: dict[str, list[dict[str, Any]]]
    """The same by query."""
    summary: dict[str, Any]
    provider: dict[str, Any]
    orders: dict[str, dict[str, Any]]
    """Every order by its id without `0x`."""
    rows: dict[str, list[dict[str, Any]]]
    """The stored `providers`, `orders` and `offers`."""
    messages: list[tuple[str, str | None, Any]]
    """Channel, op, and what it is about: the rails of an offer, the id and status of an order."""
    entries: list[dict[str, Any]]
    """Of the messages."""


class Screen:
    """Everything that can be seen of one provider's market, asked for again and again."""

    def __init__(self, market: Market, engine: Engine, api_engine: Engine) -> None:
        self.provider = market.provider.public_key
        self._engine = engine
        self._client = make_app(api_engine, network=NETWORK).test_client()
        self._last_read = 0

    def get(self, path: str) -> Any:
        """The JSON of an answer that must be 200."""
        answer = self._client.get(f"/api/v1/{path}")
        assert answer.status_code == 200, answer.get_data(as_text=True)
        return answer.json

    def look(self) -> Shown:
        """All of it now; messages since the last look."""
        rows = {name: self._rows(name) for name in ("providers", "orders", "offers")}
        ids = [row["order_id"].removeprefix("0x") for row in rows["orders"]]
        new_messages = self._messages()
        known = any(row["provider"] == self.provider for row in rows["providers"])
        return Shown(
            ledger=int(self._client.get("/api/v1/orderbook").headers["X-Ledger"]),
            offers=self.get("orderbook"),
            filtered={query: self.get(f"orderbook?{query}") for query in FILTERS},
            summary=self.get("orderbook/summary"),
            provider=self.get(f"providers/{self.provider}") if known else {},
            orders={order_id: self.get(f"intents/{order_id}") for order_id in ids},
            rows=rows,
            messages=[_about(row) for row in new_messages],
            entries=[row.entry for row in new_messages],
        )

    def _rows(self, name: str) -> list[dict[str, Any]]:
        table = metadata.tables[f"projections.{name}"]
        with self._engine.connect() as conn:
            found = [dict(row._mapping) for row in conn.execute(select(table))]
        return sorted(found, key=lambda row: json.dumps(row, default=str, sort_keys=True))

    def _messages(self) -> list[Any]:
        stored = tables.stream_events.c
        query = select(tables.stream_events).where(stored.id > self._last_read).order_by(stored.id)
        with self._engine.connect() as conn:
            new_messages = conn.execute(query).all()
        if new_messages:
            assert new_messages[-1].last, "a ledger's final message is marked"
            self._last_read = new_messages[-1].id
        return list(new_messages)


def _about(row: Any) -> tuple[str, str | None, Any]:
    if row.channel == "orderbook":
        return row.channel, row.op, row.entry["rails"]
    return row.channel, row.op, (row.entry["order_id"].removeprefix("0x"), row.entry["status"])
