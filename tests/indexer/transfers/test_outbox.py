"""The outbox of transfer events: numbered in commit order, without gaps or idle rows."""

import threading
from typing import Any

from sqlalchemy import Connection, Engine, select, update

from indexer.transfers.outbox import TransferChange, publish_changes
from indexer.transfers.store import refold_all, refold_transfers
from tests.factories.intake import ask, cancel, submit
from tests.factories.notifications import queued_notifications
from tests.factories.stage_facts import DIRECT, USDC
from tests.factories.stage_history import START, make_terms
from tests.factories.transfers import NETWORK
from warehouse_schema import channels
from warehouse_schema.identifiers import StellarAddress
from warehouse_schema.projections import transfer_events, transfer_states

OTHER = StellarAddress("GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN")
SECOND = make_terms(source_token=USDC, id="b2" * 16)
OTHERS = make_terms(deposit_address=None, source_token=USDC, id="c3" * 16, owner=OTHER)


def published(conn: Connection, owner: str = DIRECT.owner) -> list[tuple[Any, ...]]:
    columns = transfer_events.c
    query = select(columns.number, columns.transfer, columns.stage, columns.status, columns.reason)
    query = query.where(columns.owner == owner).order_by(columns.number)
    return [tuple(row) for row in conn.execute(query)]


def begin(conn: Connection) -> None:
    for terms in (DIRECT, SECOND, OTHERS):
        ask(conn, terms)
    refold_transfers(conn, NETWORK, [terms.id for terms in (DIRECT, SECOND, OTHERS)])


def test_owners_have_separate_numbers_without_gaps(connection: Connection):
    begin(connection)
    submit(connection, DIRECT, "0x" + "5" * 64, START + 60)
    refold_transfers(connection, NETWORK, [DIRECT.id])
    cancel(connection, OTHERS, START + 60)
    refold_transfers(connection, NETWORK, [OTHERS.id])
    waits = ("pending_user_transfer_start", None)
    assert published(connection) == [
        (1, DIRECT.id, "AWAITING_SIGNATURE", *waits),
        (2, SECOND.id, "AWAITING_FUNDS", *waits),
        (3, DIRECT.id, "SUBMITTED", "pending_external", "not_included"),
    ]
    assert published(connection, OTHER) == [
        (1, OTHERS.id, "AWAITING_SIGNATURE", *waits),
        (2, OTHERS.id, "CANCELLED", "expired", "cancelled"),
    ]


def test_invisible_change_writes_no_event(connection: Connection):
    begin(connection)
    before = published(connection)
    row = transfer_states.c.transfer == DIRECT.id
    connection.execute(update(transfer_states).where(row).values(inputs=9, source_height=7))
    assert refold_transfers(connection, NETWORK, [DIRECT.id]) == 1
    assert published(connection) == before


def test_rebuild_writes_events_of_repaired_rows_only(connection: Connection):
    begin(connection)
    before = published(connection)
    refold_all(connection, NETWORK)
    assert published(connection) == before
    wrong = update(transfer_states).where(transfer_states.c.transfer == SECOND.id)
    connection.execute(wrong.values(stage="ON_HOLD"))
    refold_all(connection, NETWORK)
    assert [row[:3] for row in published(connection)[2:]] == [(3, SECOND.id, "AWAITING_FUNDS")]


def test_rollback_writes_no_event_and_leaves_no_gap(engine: Engine):
    with engine.begin() as conn:
        begin(conn)
    with engine.connect() as conn:
        cancel(conn, SECOND, START + 60)
        refold_transfers(conn, NETWORK, [SECOND.id])
        conn.rollback()
    with engine.begin() as conn:
        submit(conn, DIRECT, "0x" + "5" * 64, START + 60)
        refold_transfers(conn, NETWORK, [DIRECT.id])
        assert [(row[0], row[2]) for row in published(conn)[2:]] == [(3, "SUBMITTED")]


def news(transfer: str, owner: StellarAddress = DIRECT.owner) -> TransferChange:
    return TransferChange(
        owner=owner, transfer=transfer, stage="FUNDED", status="pending_anchor", reason=None
    )


def test_second_writer_waits_so_numbers_follow_commits(engine: Engine):
    with engine.begin() as first:
        publish_changes(first, [news("first")])
        second = threading.Thread(target=tell_and_commit, args=(engine, [news("second")]))
        second.start()
        with engine.begin() as free:
            # Another owner waits for nobody.
            publish_changes(free, [news("free", OTHER)])
        second.join(0.3)
        assert second.is_alive()
        first.commit()
        second.join(20)
    with engine.connect() as conn:
        assert [row[:2] for row in published(conn)] == [(1, "first"), (2, "second")]
        assert [row[:2] for row in published(conn, OTHER)] == [(1, "free")]


def tell_and_commit(engine: Engine, said: list[TransferChange]) -> None:
    with engine.begin() as conn:
        publish_changes(conn, said)


def test_each_owner_is_notified_with_the_commit(engine: Engine):
    tell_and_commit(engine, [news("a"), news("b"), news("c", OTHER)])
    with engine.connect() as conn:
        assert queued_notifications(conn, channels.TRANSFERS) == sorted([DIRECT.owner, OTHER])


def test_no_changes_write_no_event(connection: Connection):
    publish_changes(connection, [])
    assert published(connection, OTHER) == []
