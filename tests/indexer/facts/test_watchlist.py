"""Watched addresses: looked up for a block, or listed if they are few."""

import pytest
from sqlalchemy import Connection, Engine, event, insert, text
from sqlalchemy.exc import IntegrityError

from indexer.config.networks import load_network
from indexer.facts.alarms import open_alarms
from indexer.facts.watchlist import StoredWatchlist
from tests.factories.stellar_events import account
from warehouse_schema.intake import watched_addresses

DEVNET = load_network("devnet")
EVM, STELLAR = DEVNET.evm[0], DEVNET.stellar
FIRST, SECOND = "0x" + "01" * 20, "0x" + "02" * 20


def watch(connection: Connection, *rows: tuple[str, str]) -> None:
    values = [{"chain": chain, "address": address, "reason": "a test"} for chain, address in rows]
    connection.execute(insert(watched_addresses), values)


def test_addresses_of_file_and_table_are_watched(engine: Engine) -> None:
    with engine.begin() as connection:
        watch(connection, (EVM.id, FIRST), (STELLAR.id, account("alice")))
    evm, stellar = (StoredWatchlist(chain, engine.begin) for chain in (EVM, STELLAR))
    assert set(evm.intersection([FIRST, SECOND, EVM.watched[0]])) == {FIRST, EVM.watched[0]}
    assert set(stellar.intersection([FIRST, account("alice")])) == {account("alice")}
    assert set(evm.intersection([])) == set()


def test_addresses_are_listed_up_to_a_number(engine: Engine) -> None:
    watchlist = StoredWatchlist(EVM, engine.begin)
    assert set(watchlist.addresses_up_to(2) or ()) == set(EVM.watched)
    with engine.begin() as connection:
        watch(connection, (EVM.id, FIRST))
    assert set(watchlist.addresses_up_to(3) or ()) == {*EVM.watched, FIRST}
    assert watchlist.addresses_up_to(2) is None


def test_watchlist_asks_between_transactions_of_its_connection(engine: Engine) -> None:
    with engine.connect() as connection:
        watchlist = StoredWatchlist.on(connection, EVM)
        assert set(watchlist.intersection([EVM.watched[0]])) == {EVM.watched[0]}
        assert not connection.in_transaction()


@pytest.mark.parametrize(
    ("chain", "address"),
    [
        (EVM.id, ""),
        (EVM.id, "0x01"),
        (EVM.id, FIRST + "\n"),
        (EVM.id, "0x" + "AB" * 20),
        (EVM.id, account("alice")),
        (STELLAR.id, FIRST),
        (STELLAR.id, "G" + "1" * 55),
        (STELLAR.id, "C" + account("alice")[1:]),
        ("solana:mainnet", FIRST),
    ],
)
def test_api_role_cannot_watch_a_malformed_address(
    api_engine: Engine, chain: str, address: str
) -> None:
    with api_engine.connect() as connection, pytest.raises(IntegrityError, match="check"):
        watch(connection, (chain, address))


def test_malformed_row_is_skipped_with_an_alarm(engine: Engine, indexer_engine: Engine) -> None:
    with engine.begin() as connection:
        drop = "ALTER TABLE intake.watched_addresses DROP CONSTRAINT ck_watched_addresses_address"
        connection.execute(text(drop))
        watch(connection, (EVM.id, "no address"), (EVM.id, FIRST))
    watchlist = StoredWatchlist(EVM, indexer_engine.begin)
    assert set(watchlist.addresses_up_to(10) or ()) == {*EVM.watched, FIRST}
    with engine.connect() as connection:
        [alarm] = open_alarms(connection)
    assert (alarm.chain, alarm.kind, alarm.subject) == (EVM.id, "watched_address", "no address")


def test_address_stored_after_the_recent_list_was_read_is_found(engine: Engine) -> None:
    watchlist = StoredWatchlist(EVM, engine.begin)
    assert set(watchlist.recent_up_to(10) or ()) == set(EVM.watched)
    with engine.begin() as connection:
        watch(connection, (EVM.id, FIRST))
    watchlist.refresh()
    assert set(watchlist.intersection([FIRST])) == {FIRST}
    assert set(watchlist.addresses_up_to(10) or ()) == {*EVM.watched, FIRST}


def test_recent_list_is_read_once_in_a_while(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr("indexer.facts.watchlist._now", lambda: now)
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda _conn, _, sql, *__: statements.append(sql))
    watchlist = StoredWatchlist(EVM, engine.begin)
    # A second later, ten later while no block waits, and eleven after that without a pause.
    for seconds, refresh, reads in ((0, False, 1), (1, True, 1), (10, True, 2), (21.5, False, 3)):
        now = 1_000.0 + seconds
        if refresh:
            watchlist.refresh()
        assert set(watchlist.recent_up_to(10) or ()) == set(EVM.watched)
        assert len(statements) == reads
