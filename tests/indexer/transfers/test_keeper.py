"""The transfer keeper: missed writes, notifications and expiry."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import pytest
from sqlalchemy import Connection, Engine, select

from indexer.facts.proofs import record_proven
from indexer.ingest import rebuild
from indexer.transfers.fold import fold_transfer
from indexer.transfers.inputs import TransferTerms
from indexer.transfers.keeper import catch_up, expire_due, run_keeper
from indexer.transfers.state_machine import IllegalTransition
from indexer.transfers.store import (
    lock_transfers,
    refold_affected,
    refold_transfers,
    state_differences,
)
from tests.factories.intake import ask, cancel, submit
from tests.factories.stage_facts import (
    DIRECT,
    PAID_IN,
    bring_in,
    burn,
    make_unproven,
    paid,
    stand_at,
)
from tests.factories.stage_history import DEPOSIT, EXPIRY, START
from tests.factories.transfers import ETHEREUM, NETWORK, USER, seen
from warehouse_schema.facts import expiries
from warehouse_schema.identifiers import UnixSeconds
from warehouse_schema.projections import transfer_states

AFTER = (EXPIRY - 1_700_000_000) // 12 + 1
"""The first block after `EXPIRY`."""


def stages(conn: Connection) -> dict[str, str]:
    columns = transfer_states.c
    return {
        row.transfer: row.stage for row in conn.execute(select(columns.transfer, columns.stage))
    }


def test_missed_writes_are_caught_up(indexer_engine: Engine, engine: Engine):
    with engine.begin() as conn:
        ask(conn, DIRECT)
        ask(conn, PAID_IN)
    with indexer_engine.connect() as conn:
        catch_up(conn, NETWORK)
        assert stages(conn) == {DIRECT.id: "AWAITING_SIGNATURE", PAID_IN.id: "AWAITING_FUNDS"}
    with engine.begin() as conn:
        cancel(conn, PAID_IN, START + 60)
        submit(conn, DIRECT, "0x" + "5" * 64, START + 60)
    with indexer_engine.connect() as conn:
        catch_up(conn, NETWORK)
        assert stages(conn) == {DIRECT.id: "SUBMITTED", PAID_IN.id: "CANCELLED"}
        assert state_differences(conn, NETWORK) == []


def test_comparison_waits_until_rows_are_folded(
    indexer_engine: Engine, engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    with engine.begin() as conn:
        begin(conn, DIRECT)
        cancel(conn, DIRECT, START + 60)
        ask(conn, PAID_IN)
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            with indexer_engine.connect() as conn:
                catch_up(conn, NETWORK)

    monkeypatch.setattr(rebuild, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=sleep))
    assert rebuild.differences(indexer_engine, NETWORK) == []
    assert len(looks) == 2


def test_rows_that_no_keeper_folds_are_a_difference(
    indexer_engine: Engine, engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    with engine.begin() as conn:
        begin(conn, DIRECT)
        cancel(conn, DIRECT, START + 60)
    clock = count()
    monkeypatch.setattr(
        rebuild, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None)
    )
    (found,) = rebuild.differences(indexer_engine, NETWORK)
    assert f"{DIRECT.id}: `isthmus transfers` has not folded all of its rows" in found
    assert next(clock) > rebuild._KEEPER_SECONDS


@contextmanager
def keeping(engine: Engine) -> Iterator[None]:
    stop = threading.Event()
    keeper = threading.Thread(
        target=run_keeper, args=(engine, NETWORK), kwargs={"should_stop": stop.is_set}
    )
    keeper.start()
    try:
        yield
    finally:
        stop.set()
        keeper.join(20)
        assert not keeper.is_alive()


def becomes(engine: Engine, expected: dict[str, str]) -> bool:
    """Whether the stages are these within a while."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with engine.connect() as conn:
            if stages(conn) == expected:
                return True
        time.sleep(0.02)
    return False


def test_notification_updates_transfer(indexer_engine: Engine, engine: Engine):
    with keeping(indexer_engine):
        with engine.begin() as conn:
            ask(conn, DIRECT)
        assert becomes(engine, {DIRECT.id: "AWAITING_SIGNATURE"})
        with engine.begin() as conn:
            submit(conn, DIRECT, "0x" + "5" * 64, START + 60)
        assert becomes(engine, {DIRECT.id: "SUBMITTED"})


def test_keeper_reconnects_after_lost_session(indexer_engine: Engine, engine: Engine):
    with keeping(indexer_engine):
        with engine.begin() as conn:
            ask(conn, DIRECT)
        assert becomes(engine, {DIRECT.id: "AWAITING_SIGNATURE"})
        with engine.begin() as conn:
            # Every other session of this database.
            conn.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            cancel(conn, DIRECT, START + 60)
        assert becomes(engine, {DIRECT.id: "CANCELLED"})


def begin(conn: Connection, *transfers: TransferTerms) -> None:
    for terms in transfers:
        ask(conn, terms)
    refold_transfers(conn, NETWORK, [terms.id for terms in transfers])


def test_transfer_expires_once_source_chain_is_past_it(connection: Connection):
    begin(connection, DIRECT, PAID_IN)
    assert expire_due(connection, NETWORK) == 0
    stand_at(connection, seen(ETHEREUM, AFTER - 1))
    assert expire_due(connection, NETWORK) == 0
    stand_at(connection, seen(ETHEREUM, AFTER))
    assert expire_due(connection, NETWORK) == 2
    assert stages(connection) == {DIRECT.id: "EXPIRED", PAID_IN.id: "EXPIRED"}
    assert expire_due(connection, NETWORK) == 0


def test_funded_or_burned_transfer_does_not_expire(connection: Connection):
    begin(connection, DIRECT, PAID_IN)
    bring_in(connection, *burn(DIRECT, 100), paid(USER, DEPOSIT, PAID_IN.amount_in, 100, "b"))
    stand_at(connection, seen(ETHEREUM, AFTER))
    assert expire_due(connection, NETWORK) == 0
    assert connection.scalars(select(expiries.c.transfer)).all() == []


def test_short_deposit_is_refunded_at_expiry(connection: Connection):
    begin(connection, PAID_IN)
    bring_in(connection, paid(USER, DEPOSIT, PAID_IN.amount_in - 1, 100))
    stand_at(connection, seen(ETHEREUM, AFTER))
    assert expire_due(connection, NETWORK) == 1
    assert stages(connection) == {PAID_IN.id: "REFUNDING"}


def test_deposit_in_an_unproven_block_does_not_expire(connection: Connection):
    begin(connection, PAID_IN)
    payment = paid(USER, DEPOSIT, PAID_IN.amount_in, 100)
    block = make_unproven(connection, payment.seen)
    bring_in(connection, payment)
    stand_at(connection, seen(ETHEREUM, AFTER))
    assert expire_due(connection, NETWORK) == 0
    record_proven(connection, block)
    refold_affected(connection, NETWORK, [payment])
    assert stages(connection) == {PAID_IN.id: "FUNDED"}


def test_transfer_does_not_expire_before_the_clock(connection: Connection):
    later = replace(DIRECT, expires_at=UnixSeconds(4_000_000_000))
    begin(connection, later)
    stand_at(connection, replace(seen(ETHEREUM, AFTER), block_time=UnixSeconds(4_000_000_001)))
    assert expire_due(connection, NETWORK) == 0


def test_illegal_transition_blocks_no_other_expiry(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
):
    begin(connection, DIRECT, PAID_IN)
    stand_at(connection, seen(ETHEREUM, AFTER))

    def impossible(evidence):
        if evidence.terms == DIRECT:
            raise IllegalTransition("COMPLETED does not lead to EXPIRED")
        return fold_transfer(evidence)

    monkeypatch.setattr("indexer.transfers.read.fold_transfer", impossible)
    assert expire_due(connection, NETWORK) == 1
    assert stages(connection) == {DIRECT.id: "AWAITING_SIGNATURE", PAID_IN.id: "EXPIRED"}


@pytest.mark.parametrize("write", [cancel, submit])
def test_transfer_being_decided_does_not_expire(
    engine: Engine, api_engine: Engine, write: Callable[..., None]
):
    """A client's request that holds the lock comes first: the expiry finds no use afterwards."""
    with engine.begin() as conn:
        begin(conn, DIRECT, PAID_IN)
        stand_at(conn, seen(ETHEREUM, AFTER))
    with api_engine.begin() as deciding:
        lock_transfers(deciding, [DIRECT.id])
        with engine.begin() as conn:
            # Nobody waits for the one that is locked, and the other expires.
            assert expire_due(conn, NETWORK) == 1
        more = ["0x" + "5" * 64] if write is submit else []
        write(deciding, DIRECT, *more, START + 60)
    with engine.begin() as conn:
        refold_transfers(conn, NETWORK, [DIRECT.id])
        assert expire_due(conn, NETWORK) == 0
        assert stages(conn)[DIRECT.id] in ("CANCELLED", "SUBMITTED")
        assert stages(conn)[PAID_IN.id] == "EXPIRED"


def test_locked_transfers_block_no_other_expiry(engine: Engine, api_engine: Engine):
    """More than one turn looks at are older, and are being decided about."""
    older = [replace(DIRECT, id=f"{number:032x}") for number in range(120)]
    newest = replace(DIRECT, id="ff" * 16, expires_at=UnixSeconds(EXPIRY + 1))
    with engine.begin() as conn:
        begin(conn, *older, newest)
        stand_at(conn, seen(ETHEREUM, AFTER + 1))
    with api_engine.begin() as deciding:
        lock_transfers(deciding, [each.id for each in older])
        with engine.begin() as conn:
            # Each turn takes 100 of 121 by chance.
            assert any(expire_due(conn, NETWORK) == 1 for _ in range(40))
            assert stages(conn)[newest.id] == "EXPIRED"


def test_refold_does_not_wait_for_the_api(indexer_engine: Engine, api_engine: Engine):
    """The api's role may hold the locks of all transfers: a follower writes stages all the same."""
    with api_engine.connect() as holding:
        ask(holding, DIRECT)
        holding.commit()
        lock_transfers(holding, [DIRECT.id])
        with indexer_engine.begin() as conn:
            conn.exec_driver_sql("SET LOCAL lock_timeout = '1s'")
            assert refold_transfers(conn, NETWORK, [DIRECT.id]) == 1
