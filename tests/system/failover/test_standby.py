"""A primary without its standby, and an old primary that starts again, acknowledge nothing."""

import re
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import Connection, Engine, text

from api.warehouse_metrics import WarehouseMetrics
from indexer.config.networks import load_network
from indexer.doctor.postgres_storage import check_synchronous
from pipelines.storage import process_engine
from relay.leases import account_session
from relay.nonces import AccountId
from tests.system.failover.nodes import Node, Pair, blocks, running_pair
from warehouse_schema.engine import Role, confirm_on_standby, make_engine, warehouse_url
from warehouse_schema.identifiers import ChainId
from warehouse_schema.migrate import ensure_database, migrate

DEADLINE = 60.0
DATABASE = "isthmus"
LOGOUT = text("INSERT INTO access.revoked_tokens (jti, expires_at) VALUES (:jti, now())")
WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid = %s"
    " AND clock_timestamp() - query_start > %s * interval '1 s'"
)
LONGER_THAN_STATEMENTS = 6.0
"""Seconds: the api's statement timeout is 5 s, and must not end a waiting commit."""
RELAY_WAITS = (
    "SELECT pid FROM pg_stat_activity"
    " WHERE wait_event = 'SyncRep' AND application_name = 'isthmus-relay'"
)
WRITERS: tuple[Role, ...] = ("api", "relay", "indexer")


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with tempfile.TemporaryDirectory(prefix="isthmus-failover-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        with running_pair(Path(name)) as made:
            migrate(warehouse_url(made.url(DATABASE)))
            yield made


def log_out(jti: str) -> Callable[[Connection], None]:
    """A row that the api stores."""

    def store(conn: Connection) -> None:
        conn.execute(LOGOUT, {"jti": jti})

    return store


def commit(engine: Engine, work: Callable[[Connection], None], pids: list[int]) -> None:
    with engine.begin() as conn:
        pids.append(conn.scalar(text("SELECT pg_backend_pid()")))
        work(conn)


@contextmanager
def committing(
    url: str, role: Role, work: Callable[[Connection], None]
) -> Iterator[tuple[Future[None], int]]:
    """A commit under way in a thread, and its session's process."""
    engine, pids = make_engine(warehouse_url(url), role=role, pool_size=1), list[int]()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(commit, engine, work, pids)
        deadline = time.monotonic() + DEADLINE
        while not pids and not done.done():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield done, pids[0]
    engine.dispose()


def await_wait(node: Node, pid: int, seconds: float = 0.0) -> None:
    """Until that session waits for the standby in its commit, for so long."""
    deadline = time.monotonic() + DEADLINE
    with node.connect(DATABASE) as watching:
        while watching.execute(WAITING, (pid, seconds)).fetchone() != (1,):
            assert time.monotonic() < deadline, "the commit does not wait"
            time.sleep(0.01)


def logouts(node: Node) -> list[str]:
    with node.connect(DATABASE) as conn:
        return [row[0] for row in conn.execute("SELECT jti FROM access.revoked_tokens ORDER BY 1")]


def guard(node: Node, peer: Node) -> int:
    """Exit code of the drop-in's command on a machine."""
    [unit] = blocks("ini", "Settings of both machines")
    [command] = re.findall(r"^ExecStartPre=(.*)$", unit, re.M)
    return node.run(command.replace("PEER", peer.address)).returncode


@pytest.mark.parametrize("role", WRITERS)
def test_commit_waits_until_the_standby_is_back(pair: Pair, role: Role) -> None:
    pair.standby.sh("pg_ctlcluster 15 main stop -m immediate")
    with committing(pair.url(DATABASE), role, confirm_on_standby) as (done, pid):
        await_wait(pair.primary, pid, LONGER_THAN_STATEMENTS if role == "api" else 0.0)
        assert not done.done()
        pair.standby.sh("pg_ctlcluster 15 main start")
        done.result(DEADLINE)
    pair.await_sync()


def doctor(pair: Pair) -> str:
    """The problem that the doctor finds."""
    url = warehouse_url(pair.url(DATABASE))
    engine = make_engine(url, pool_size=1)
    with engine.connect() as conn:
        found = check_synchronous(url, conn, "").problem
    engine.dispose()
    return found


def exported(pair: Pair) -> float | None:
    """`isthmus_synchronous_standbys`, as the api reads it without a right of its own."""
    engine = make_engine(warehouse_url(pair.url(DATABASE)), role="api", pool_size=1)
    registry = CollectorRegistry()
    registry.register(WarehouseMetrics(engine, load_network("devnet"), lambda: None))
    found = registry.get_sample_value("isthmus_synchronous_standbys")
    engine.dispose()
    return found


def test_commit_goes_on_without_the_standby_by_the_command(pair: Pair) -> None:
    assert (doctor(pair), exported(pair)) == ("", 1)
    pair.standby.sh("pg_ctlcluster 15 main stop -m immediate")
    await_disconnected(pair)
    assert doctor(pair) == "commits wait for isthmus_standby, which is not connected"
    assert exported(pair) == 0
    with committing(pair.url(DATABASE), "api", log_out("alone")) as (done, pid):
        await_wait(pair.primary, pid)
        assert "alone" not in logouts(pair.primary)
        [go_on] = blocks("sh", "Without the standby")
        pair.primary.sh(go_on)
        done.result(DEADLINE)
    assert "alone" in logouts(pair.primary)
    assert doctor(pair) == "DATABASE_URL names a standby, and no commit waits for it"
    assert exported(pair) == 0
    pair.make_standby()
    assert "alone" in standby_logouts(pair)


def await_disconnected(pair: Pair) -> None:
    """Until the primary has noticed that the standby has stopped."""
    deadline = time.monotonic() + DEADLINE
    with pair.primary.connect(DATABASE) as conn:
        while conn.execute("SELECT FROM pg_stat_replication").fetchone() is not None:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def standby_logouts(pair: Pair) -> list[str]:
    """What the standby shows, once it has replayed what it has."""
    deadline = time.monotonic() + DEADLINE
    with pair.standby.connect(DATABASE) as conn:
        query = "SELECT pg_last_wal_replay_lsn() >= pg_last_wal_receive_lsn()"
        while conn.execute(query).fetchone() != (True,):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    return logouts(pair.standby)


def server_of(engine: Engine) -> str:
    """Address of the server of a session."""
    with engine.connect() as conn:
        return str(conn.scalar(text("SELECT host(inet_server_addr())")))


def enter(engine: Engine) -> None:
    with account_session(engine, AccountId(ChainId("eip155:1"), "0x00")):
        return


def relay_gets_no_session(node: Node, url: str) -> bool:
    """Whether the relay waits for the standby when it takes an account's lease."""
    engine = make_engine(warehouse_url(url), role="relay", pool_size=1)
    deadline = time.monotonic() + DEADLINE
    with node.connect() as conn, ThreadPoolExecutor(1) as pool:
        entering = pool.submit(enter, engine)
        while (waits := conn.execute(RELAY_WAITS).fetchone()) is None:
            assert not entering.done()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        conn.execute("SELECT pg_terminate_backend(%s)", waits)
        is_refused = entering.exception(DEADLINE) is not None
    engine.dispose()
    return is_refused


def test_old_primary_that_starts_again_acknowledges_nothing(pair: Pair) -> None:
    old = pair.primary
    ensure_database(warehouse_url(pair.url("isthmus_dagster")))
    storage = warehouse_url(pair.url("isthmus_dagster")).set(drivername="postgresql+psycopg2")
    dagster = process_engine(storage.render_as_string(hide_password=False))
    assert server_of(dagster) == old.address
    only_old = f"postgresql://isthmus@{old.address}:{old.port}/{DATABASE}"
    assert [guard(pair.primary, pair.standby), guard(pair.standby, pair.primary)] == [0, 0]
    # A commit that the standby does not have, and that no client was told of.
    pair.standby.sh("pg_ctlcluster 15 main stop -m immediate")
    with committing(only_old, "api", log_out("not told")) as (done, pid):
        await_wait(old, pid)
        old.kill()
        assert done.exception(DEADLINE) is not None
    pair.standby.sh("pg_ctlcluster 15 main start")
    pair.promote(fence=False)
    assert server_of(dagster) == pair.primary.address
    dagster.dispose()
    assert guard(old, pair.primary) != 0
    # The guard would have kept it: whoever starts it all the same.
    old.sh("pg_ctlcluster 15 main start")
    assert ("not told" in logouts(old), "not told" in logouts(pair.primary)) == (True, False)
    for role in WRITERS:
        with committing(only_old, role, confirm_on_standby) as (done, pid):
            await_wait(old, pid)
            assert not done.done()
            with old.connect() as conn:
                conn.execute("SELECT pg_terminate_backend(%s)", (pid,))
            assert done.exception(DEADLINE) is not None
    assert relay_gets_no_session(old, only_old)
    pair.make_standby()
    with committing(pair.url(DATABASE), "api", log_out("told")) as (done, _):
        done.result(DEADLINE)
    assert "not told" not in standby_logouts(pair)
    assert "told" in standby_logouts(pair)
