"""Watched addresses are looked up among those that a block names, or listed where they are few."""

from sqlalchemy import Connection, Engine, insert

from indexer.facts.watchlist import StoredWatchlist
from indexer.networks import load_network
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
    evm, stellar = (StoredWatchlist.of(engine, chain) for chain in (EVM, STELLAR))
    assert set(evm.among([FIRST, SECOND, EVM.watched[0]])) == {FIRST, EVM.watched[0]}
    assert set(stellar.among([FIRST, account("alice")])) == {account("alice")}
    assert set(evm.among([])) == set()


def test_addresses_are_listed_up_to_a_number(engine: Engine) -> None:
    watchlist = StoredWatchlist.of(engine, EVM)
    assert set(watchlist.listed(2) or ()) == set(EVM.watched)
    with engine.begin() as connection:
        watch(connection, (EVM.id, FIRST))
    assert set(watchlist.listed(3) or ()) == {*EVM.watched, FIRST}
    assert watchlist.listed(2) is None


def test_watchlist_asks_between_transactions_of_its_connection(engine: Engine) -> None:
    with engine.connect() as connection:
        watchlist = StoredWatchlist.on(connection, EVM)
        assert set(watchlist.among([EVM.watched[0]])) == {EVM.watched[0]}
        assert not connection.in_transaction()
