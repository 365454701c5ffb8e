"""The hub on socket pairs: slow clients, lost messages, rebuild and stop."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest
from sqlalchemy import Engine, update
from wsproto.events import CloseConnection, TextMessage

from api.auth.claims import AuthSession
from api.deps import read_snapshot
from api.errors import Unauthorized
from api.metrics import Metrics
from api.notifications import NotificationListener
from api.stream import hub as hub_module
from api.stream import outbox
from api.stream.client import CLOSE_REASONS, CONNECTION_LOST, Client
from api.stream.hub import Hub
from api.stream.limits import StreamLimits, StreamSlots
from api.stream.outbox import BookMessages
from api.stream.requests import SubscribeRequest, parse_subscribe_request
from api.stream.transfer_subscriptions import TokenAccess
from indexer.orderbook.state import LedgerClose
from indexer.orderbook.store import apply_ledgers
from tests.api.stream.conftest import DEVNET, Stand
from tests.api.stream.far import Far, wait_for
from tests.factories.api_server import TIMEOUT
from tests.factories.book import CHAIN
from tests.factories.streaming import notify
from warehouse_schema import projections as tables
from warehouse_schema.engine import make_engine
from warehouse_schema.identifiers import Height, UnixSeconds

LIMITS = StreamLimits(queued_bytes=20_000, socket_bytes=4_096, close_seconds=TIMEOUT)


@dataclass
class Bench:
    """A hub at work, and how to connect to it."""

    hub: Hub
    slots: StreamSlots
    limits: StreamLimits
    metrics: Metrics
    ends: list[socket.socket] = field(default_factory=list)

    def hub_knows(self, ending: str) -> int:
        """How many clients are on their way out for that reason."""
        endings = [client.ending for client in list(self.hub._clients)]
        return sum(each is not None and each.reason == ending for each in endings)

    def figure(self, name: str, **labels: str) -> float | None:
        """What an operator reads."""
        return self.metrics.registry.get_sample_value(f"isthmus_{name}", labels)

    def connect(self, query: str = "", missed: BookMessages | None = None) -> Far:
        near, far = socket.socketpair()
        near.setblocking(False)
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.limits.socket_bytes)
        far.settimeout(TIMEOUT)
        self.ends.append(far)
        pairs = dict(part.split("=") for part in query.split("&") if part)
        wish: SubscribeRequest = parse_subscribe_request(pairs)
        now = time.monotonic()
        client = Client(near, "a", self.slots.take("10.0.0.1"), self.limits, now)
        self.hub.join(client, wish, missed)
        return Far(far)


def no_tokens(_: str) -> AuthSession:
    raise Unauthorized


def missed_after(engine: Engine, ledger: int) -> BookMessages:
    with read_snapshot(engine) as connection:
        found = outbox.read_missed(connection, CHAIN, Height(ledger), limit=100_000)
    assert found is not None
    return found


@pytest.fixture
def make_bench(database, api_engine, stand) -> Iterator[Callable[..., Bench]]:
    """Call it for a hub on the book of `stand`."""
    benches: list[Bench] = []
    listening = make_engine(database, role="api", pool_size=1)
    changes = NotificationListener(listening)
    changes.start()

    def make(*, limits: StreamLimits = LIMITS, told: bool = True, started: bool = True) -> Bench:
        with read_snapshot(api_engine) as connection:
            start = outbox.read_book_snapshot(connection, CHAIN)
        metrics = Metrics()
        access = TokenAccess(no_tokens, DEVNET, lambda: UnixSeconds(0))
        hub = Hub(api_engine, CHAIN, changes if told else None, start, metrics, access)
        if started:
            hub.start()
        benches.append(Bench(hub, StreamSlots(limits), limits, metrics))
        return benches[-1]

    yield make
    for bench in benches:
        bench.hub.stop()
        for far in bench.ends:
            far.close()
        bench.hub.wait(TIMEOUT)
        assert len(bench.slots) == 0
    changes.stop()
    listening.dispose()


def test_stalled_client_ends_as_slow_reader_alone(make_bench, stand: Stand):
    bench = make_bench()
    stalled, twin, watcher = bench.connect(), bench.connect(), bench.connect("markers=1")
    while bench.hub_knows(ending="slow reader") == 0:
        ledger = stand.move(4, together=True)
        assert watcher.read_to(ledger).book() == stand.shown[ledger]
        twin.read_what_is_there()
    assert stalled.read_to_close() == (1013, "slow reader")
    assert stalled.messages
    twin.read_until(lambda: len(twin.messages) > len(stalled.messages))
    assert stalled.messages == twin.messages[: len(stalled.messages)]
    ledger = stand.move()
    assert watcher.read_to(ledger).book() == stand.shown[ledger]


def test_metrics_count_open_streams_frames_and_endings(make_bench, stand: Stand):
    bench = make_bench()
    watchers = [bench.connect("markers=1") for _ in range(3)]
    for each in watchers:
        each.read_to(stand.market.ledger)
    assert bench.figure("streams_open") == 3
    # The greeting is no news.
    assert bench.figure("stream_frames_total") == 0
    greeted = sum(len(each.messages) for each in watchers)
    leaver, talker, stays = watchers
    ledger = stand.move()
    told = sum(len(each.read_to(ledger).messages) for each in watchers) - greeted
    assert told > 0
    wait_for(lambda: bench.figure("stream_frames_total") == told)
    leaver.socket.sendall(leaver.protocol.send(CloseConnection(1000)))
    talker.socket.sendall(talker.protocol.send(TextMessage("x" * (LIMITS.message_bytes + 1))))
    assert talker.read_to_close()[0] == 1009
    for each in (leaver, talker):
        each.socket.shutdown(socket.SHUT_RDWR)
    wait_for(lambda: bench.figure("streams_open") == 1)
    before = len(stays.messages)
    told += len(stays.read_to(stand.move()).messages) - before
    wait_for(lambda: bench.figure("stream_frames_total") == told)
    assert bench.figure("streams_closed_total", code="1000") == 1
    assert bench.figure("streams_closed_total", code="1009") == 1


def test_each_close_code_has_its_own_counter():
    metrics = Metrics()
    for ending in (*CLOSE_REASONS, CONNECTION_LOST):
        metrics.stream_closed(ending.code)
    metrics.stream_closed(4711)
    counted = {
        sample.labels["code"]
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "isthmus_streams_closed_total"
    }
    assert counted == {*(str(ending.code) for ending in (*CLOSE_REASONS, CONNECTION_LOST)), "other"}


def test_client_ahead_of_the_process_resumes_without_repeats(
    make_bench, stand, api_engine, monkeypatch
):
    """It was told by another process, and is told nothing twice."""
    monkeypatch.setattr(hub_module, "_AHEAD_SECONDS", TIMEOUT)
    bench = make_bench(told=False)
    before = stand.market.ledger
    ledger = stand.move(5)
    missed = missed_after(api_engine, before)
    up_to_date = missed_after(api_engine, ledger)
    behind = bench.connect(f"after={before}&markers=1", missed)
    same = bench.connect(f"after={ledger}&markers=1", up_to_date)
    later = stand.move(2)
    assert behind.read_to(later).book(stand.shown[before]) == stand.shown[later]
    assert same.read_to(later).book(stand.shown[ledger]) == stand.shown[later]
    for far, after in ((behind, before), (same, ledger)):
        assert (far.messages[0]["mode"], far.messages[0]["ledger"]) == ("resume", after)
        said = [m for m in far.messages if m["channel"] in ("orderbook", "intent")]
        assert all(message["ledger"] > after for message in said)
        told = [json.dumps(m.get("entry") or m["intent"]) + str(m["ledger"]) for m in said]
        assert len(told) == len(set(told))


def test_unchanged_ledgers_never_go_backwards(make_bench, stand, engine, api_engine, monkeypatch):
    """They leave no message, by which a process could see that it is behind."""
    monkeypatch.setattr(hub_module, "_AHEAD_SECONDS", TIMEOUT)
    bench = make_bench()
    known = stand.market.ledger
    with read_snapshot(api_engine) as connection:
        # Time stands, so that nothing expires.
        clock = outbox.read_book_snapshot(connection, CHAIN).at.close_time
    # As another process has read it, a little earlier than this one does.
    far = bench.connect(f"after={known + 3}&markers=1", missed_after(api_engine, known))
    for ledger in range(known + 1, known + 5):
        with engine.begin() as conn:
            apply_ledgers(conn, [LedgerClose(CHAIN, Height(ledger), clock)], [])
            notify(conn, ledger)
        wait_for(lambda ledger=ledger: bench.hub._position.ledger == ledger)
    far.read_to(known + 4)
    told = [message["ledger"] for message in far.messages]
    assert far.messages[0]["mode"] == "resume"
    assert told == sorted(told)
    assert told[0] == known + 3


def test_client_ahead_for_too_long_gets_a_snapshot(make_bench, stand, api_engine, monkeypatch):
    monkeypatch.setattr(hub_module, "_AHEAD_SECONDS", 0.1)
    bench = make_bench()
    ledger = stand.market.ledger
    far = bench.connect(
        f"after={ledger}", BookMessages(replace(bench.hub._position, position=10**9), ())
    )
    assert far.read_to(ledger).book() == stand.shown[ledger]
    assert far.messages[0]["mode"] == "snapshot"


def test_stale_missed_messages_lead_to_a_snapshot(make_bench, stand, api_engine):
    """Between the read and the hub, more came than the hub remembers."""
    before = stand.market.ledger
    missed = missed_after(api_engine, before)
    bench = make_bench()
    watcher = bench.connect("markers=1")
    while bench.hub._recent_from <= missed.at.position:
        watcher.read_to(stand.move(hub_module._RECENT_BATCHES, together=True))
    ledger = stand.market.ledger
    far = bench.connect(f"after={before}", missed)
    assert far.read_to(ledger).book() == stand.shown[ledger]
    assert far.messages[0]["mode"] == "snapshot"
    recent = missed_after(api_engine, ledger)
    stand.move(3)
    watcher.read_to(stand.market.ledger)
    far = bench.connect(f"after={ledger}&markers=1", recent)
    assert far.read_to(stand.market.ledger).book(stand.shown[ledger]) == stand.show()[1]
    assert far.messages[0]["mode"] == "resume"


def test_rebuild_closes_all_connections_with_1012(make_bench, stand, engine):
    bench = make_bench()
    ledger = stand.move()
    far = bench.connect("markers=1").read_to(ledger)
    with engine.begin() as connection:
        connection.execute(update(tables.offers).values(rate=1))
    stand.market.rebuild()
    assert far.read_to_close() == (1012, "order book rebuilt")
    # The outbox tells the difference to what was stored; this client never had that.
    assert far.messages[-1]["ledger"] == ledger
    assert far.book() == stand.show()[1]
    again = bench.connect("markers=1").read_to(ledger)
    assert again.book() == stand.show()[1]
    later = stand.move(3)
    assert again.read_to(later).book() == stand.shown[later]


def test_client_lost_while_sending_leaves_the_hub_running(make_bench, stand, api_engine):
    """Its audience is removed with it, while the hub goes through all audiences."""
    bench = make_bench(started=False)
    lost, kept = bench.connect(), bench.connect("markers=1")
    bench.hub._run_jobs()
    lost.socket.close()
    before = bench.hub._position.ledger
    ledger = stand.move(5)
    missed = missed_after(api_engine, before)
    bench.hub._broadcast(missed)
    remaining = [client.ending for client in bench.hub._clients]
    # Otherwise the reading thread would send these ledgers again.
    bench.hub._since = missed.at
    bench.hub.start()
    assert remaining == [None]
    assert kept.read_to(ledger).book() == stand.shown[ledger]


def test_stop_closes_all_connections_with_1001(make_bench, stand):
    bench = make_bench()
    fars = [bench.connect().read_to(stand.market.ledger) for _ in range(5)]
    bench.hub.stop()
    assert {far.read_to_close() for far in fars} == {
        (1001, f"server is stopping: resume with after={stand.market.ledger}")
    }
    bench.hub.wait(TIMEOUT)
    assert not bench.hub.is_alive
    assert len(bench.slots) == 0
    late = bench.connect()
    assert late.socket.recv(1) == b""
    assert len(bench.slots) == 0


def test_clients_end_one_by_one_in_a_shutdown(make_bench, stand, monkeypatch):
    now = began = time.monotonic()
    monkeypatch.setattr(hub_module, "time", SimpleNamespace(monotonic=lambda: now))
    bench = make_bench()
    fars = [bench.connect().read_to(stand.market.ledger) for _ in range(4)]
    bench.hub.end_within(6.0)
    ledger = stand.move()
    for far in fars:
        assert far.read_to(ledger).closed is None
    reason = f"server is stopping: resume with after={ledger}"
    # In the last four of six seconds.
    for number, far in enumerate(fars):
        now = began + 2.5 + number
        assert far.read_to_close() == (1001, reason)
        far.socket.shutdown(socket.SHUT_RDWR)
        for later in fars[number + 1 :]:
            later.read_what_is_there()
            assert later.closed is None
    assert bench.hub.is_alive


def test_hint_names_what_is_queued_before_it(make_bench, stand):
    """A client that reads late gets all messages up to the ledger of the hint."""
    bench = make_bench()
    far = bench.connect("markers=1").read_to(stand.market.ledger)
    ledger = stand.move(3)
    wait_for(lambda: bench.hub._position.ledger == ledger)
    bench.hub.stop()
    code, reason = far.read_to_close()
    assert (code, reason) == (1001, f"server is stopping: resume with after={ledger}")
    assert far.book() == stand.shown[ledger]


def test_stop_does_not_wait_for_silent_clients(make_bench, stand):
    bench = make_bench(limits=StreamLimits(close_seconds=0.1))
    far = bench.connect().read_to(stand.market.ledger)
    bench.hub.stop()
    bench.hub.wait(TIMEOUT)
    assert not bench.hub.is_alive
    assert far.read_to_close() == (
        1001,
        f"server is stopping: resume with after={stand.market.ledger}",
    )


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_failed_reader_closes_all_connections_with_1011(make_bench, stand, monkeypatch):
    bench = make_bench()
    far = bench.connect().read_to(stand.market.ledger)

    def fail(*_):
        raise RuntimeError("nobody foresaw this")

    monkeypatch.setattr(outbox, "read_since", fail)
    stand.move()
    assert far.read_to_close() == (1011, "internal error")
    bench.hub.wait(TIMEOUT)
    assert not bench.hub.is_alive
