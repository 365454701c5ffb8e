"""Reads from a real replica: never older than the client's own writes, never going back."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Connection, Engine, func, text, update
from sqlalchemy.engine import URL
from werkzeug.test import TestResponse

from api.metrics import Metrics
from api.replica import MAX_AGE_SECONDS, POSITION_HEADER, Replica, WalPosition
from tests.api.transfers.conftest import kept as kept
from tests.factories.machines import Standby, sql, wait_until
from tests.factories.quotes import asking
from tests.factories.started import PATH, insert_quote, make_transfer_app, start
from warehouse_schema.engine import make_pooled_engine
from warehouse_schema.facts import cursors

UNKNOWN = "ab" * 16


@dataclass
class Machine:
    """An API machine, and a client that keeps its position."""

    client: FlaskClient
    metrics: Metrics
    replica: Replica
    position: str | None = None
    seen: list[str] = field(default_factory=list)

    def headers(self) -> dict[str, str]:
        return {} if self.position is None else {POSITION_HEADER: self.position}

    def get(self, path: str) -> TestResponse:
        """A request as the owner, with the position."""
        answer = self.client.get(path, headers={**asking(), **self.headers()})
        self.position = answer.headers[POSITION_HEADER]
        return answer

    def start(self, rows: Connection) -> str:
        """A new transfer; keeps the position of the answer."""
        # A follower would report every three seconds, and move with each ledger.
        now = func.clock_timestamp()
        rows.execute(update(cursors).values(reported_at=now, updated_at=now))
        answer = start(self.client, insert_quote(rows, amount_in=1_000_000))
        assert answer.status_code == 201, answer.text
        self.position = answer.headers[POSITION_HEADER]
        transfer: str = answer.json["id"]
        return transfer

    def listed(self) -> set[str]:
        return {each["id"] for each in self.get(PATH).json["transfers"]}

    def reads(self, outcome: str) -> float:
        return (
            self.metrics.registry.get_sample_value(
                "isthmus_replica_reads_total", {"outcome": outcome}
            )
            or 0.0
        )


MakeMachine = Callable[..., Machine]


@pytest.fixture
def make_machine(pooler: URL, replica: Standby, login: URL) -> Iterator[MakeMachine]:
    """A machine with the pooler and the replica; `url` is another one's in its place."""
    engines: list[Engine] = []

    def make(url: URL | None = None, **options: Any) -> Machine:
        there = url or replica.url(login)
        engines.append(make_pooled_engine(pooler, "api", pool_size=2))
        engines.append(make_pooled_engine(there, "api", pool_size=2, connect_seconds=2))
        metrics = Metrics()
        used = Replica(engines[-1], engines[-2], **options)
        app = make_transfer_app(engines[-2], replica=used, metrics=metrics)
        return Machine(app.test_client(), metrics, used)

    yield make
    for engine in engines:
        engine.dispose()


@pytest.fixture
def machine(make_machine: MakeMachine) -> Machine:
    return make_machine()


def commit(rows: Connection, replica: Standby) -> None:
    """A commit of now, which the replica has replayed."""
    rows.execute(text("SELECT pg_current_xact_id()"))
    replica.catch_up()


def test_caught_up_replica_answers(machine: Machine, kept: Connection, replica: Standby) -> None:
    transfer = machine.start(kept)
    commit(kept, replica)
    assert machine.get(f"{PATH}/{transfer}").status_code == 200
    assert machine.listed() == {transfer}
    assert machine.reads("replica") == 2


def test_own_write_is_read_while_replay_is_paused(
    machine: Machine, kept: Connection, replica: Standby
) -> None:
    commit(kept, replica)
    with replica.paused():
        transfer = machine.start(kept)
        assert machine.get(f"{PATH}/{transfer}").status_code == 200
        assert machine.listed() == {transfer}
        cancelled = machine.client.post(f"{PATH}/{transfer}/cancel", headers=asking())
        machine.position = cancelled.headers[POSITION_HEADER]
        assert machine.get(f"{PATH}/{transfer}").json["stage"] == "CANCELLED"
    assert (machine.reads("behind"), machine.reads("replica")) == (3, 0)


def test_request_without_position_reads_the_primary(
    machine: Machine, kept: Connection, replica: Standby
) -> None:
    commit(kept, replica)
    with replica.paused():
        transfer = machine.start(kept)
        machine.position = None
        assert machine.get(f"{PATH}/{transfer}").status_code == 200
    assert machine.reads("no_position") == 1


def test_refused_write_names_a_position_too(
    machine: Machine, kept: Connection, replica: Standby
) -> None:
    quote = insert_quote(kept)
    commit(kept, replica)
    with replica.paused():
        made = start(machine.client, quote).json["id"]
        refused = start(machine.client, quote)
        assert (refused.status_code, refused.json["transfer"]) == (409, made)
        machine.position = refused.headers[POSITION_HEADER]
        assert machine.get(f"{PATH}/{made}").status_code == 200


def test_missing_transfer_is_reported_as_of_a_position(
    machine: Machine, kept: Connection, replica: Standby
) -> None:
    machine.start(kept)
    commit(kept, replica)
    assert machine.get(f"{PATH}/{UNKNOWN}").status_code == 404
    assert machine.reads("replica") == 1


def test_public_reads_need_no_position(
    machine: Machine, kept: Connection, replica: Standby
) -> None:
    commit(kept, replica)
    for path in ("/v1/status", "/v1/routes"):
        answer = machine.client.get(path)
        assert answer.status_code == 200
        WalPosition.parse(answer.headers[POSITION_HEADER])
    assert machine.reads("replica") == 2


def test_position_of_another_timeline_reads_the_primary(
    machine: Machine, kept: Connection, replica: Standby
) -> None:
    commit(kept, replica)
    machine.position = "2:0/1"
    assert machine.get(PATH).status_code == 200
    assert machine.reads("behind") == 1


@pytest.mark.parametrize(
    "header",
    ["", "0", "1", "1:16B3748", "1:0/g", "0:0/1", "1:0/123456789", "1:0/1, 1:0/2", "-1:0/1"],
)
@pytest.mark.parametrize("path", [PATH, f"{PATH}/{UNKNOWN}", "/v1/status", "/v1/routes"])
def test_malformed_position_is_refused_by_name(machine: Machine, header: str, path: str) -> None:
    answer = machine.client.get(path, headers={**asking(), POSITION_HEADER: header})
    assert (answer.status_code, answer.json["code"]) == (400, "BAD_POSITION")
    assert answer.json["message"].startswith(POSITION_HEADER)


def test_stale_replica_is_not_read(
    make_machine: MakeMachine, kept: Connection, replica: Standby
) -> None:
    machine = make_machine(max_age=0.2)
    commit(kept, replica)
    with replica.paused():
        wait_until(
            replica.owner, "SELECT clock_timestamp() - pg_last_xact_replay_timestamp() > '0.2 s'"
        )
        assert machine.client.get("/v1/status").status_code == 200
    assert machine.reads("stale") == 1
    assert MAX_AGE_SECONDS == 10


def test_replica_that_is_down_is_asked_again_after_a_pause(
    make_machine: MakeMachine, login: URL, kept: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    def asked() -> int:
        return caplog.text.count("the replica does not answer")

    now = [0.0]
    machine = make_machine(login.set(port=1), monotonic=lambda: now[0])
    transfer = machine.start(kept)
    assert machine.get(f"{PATH}/{transfer}").status_code == 200
    assert machine.get(f"{PATH}/{transfer}").status_code == 200
    assert asked() == 1
    now[0] = 6.0
    assert machine.get(f"{PATH}/{transfer}").status_code == 200
    assert asked() == 2
    assert machine.reads("unavailable") == 3


def test_primary_in_place_of_a_replica_is_not_read(
    make_machine: MakeMachine, login: URL, kept: Connection
) -> None:
    machine = make_machine(login)
    assert machine.client.get("/v1/status").status_code == 200
    assert machine.reads("unavailable") == 1


def test_read_that_fails_on_the_replica_is_repeated_on_the_primary(
    machine: Machine, kept: Connection, replica: Standby
) -> None:
    transfer = machine.start(kept)
    commit(kept, replica)
    assert machine.get(PATH).status_code == 200
    # Another session of the replica ends this one in the middle: so does a restart.
    sql(
        replica.owner,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name LIKE 'isthmus-%'",
    )
    assert machine.listed() == {transfer}


def test_no_answer_is_older_than_what_the_client_saw(
    make_machine: MakeMachine, kept: Connection, replica: Standby
) -> None:
    """Two machines in turn, of which one has no replica; writes, pauses and reads at random."""
    machines = [make_machine(), make_machine(), make_machine(url=None, max_age=0.05)]
    chance, seen, position = random.Random(1), set[str](), None
    commit(kept, replica)
    paused = False
    try:
        for _ in range(150):
            machine = chance.choice(machines)
            machine.position = position
            match chance.choice(("start", "read", "read", "read", "pause")):
                case "start":
                    if len(seen) < 25:
                        seen.add(machine.start(kept))
                case "pause":
                    paused = not paused
                    sql(replica.owner, f"SELECT pg_wal_replay_{'pause' if paused else 'resume'}()")
                case _:
                    listed = machine.listed()
                    assert listed >= seen
                    seen = listed
            position = machine.position
    finally:
        sql(replica.owner, "SELECT pg_wal_replay_resume()")
    assert sum(each.reads("replica") for each in machines) > 5
    assert sum(each.reads("behind") for each in machines) > 5
