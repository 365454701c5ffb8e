"""The loop: turns until stopped, retries on node errors, one process per account."""

import threading
from dataclasses import replace

import pytest

from indexer.config.settings import load_settings
from relay import run
from relay.keys import LocalEvmKey
from relay.leases import account_session, account_standby
from relay.nonces import AccountId
from relay.run import run_relay
from relay.settings import EvmAccount
from relay.status import all_health
from tests.factories.leases import wait_for_standby
from tests.relay.conftest import AMOUNT, LIMITS, OPERATOR, RELAYER, STRANGER, Stand
from warehouse_schema import locks
from warehouse_schema.identifiers import ChainId
from warehouse_schema.leases import RELAY_LEASES

KEY = LocalEvmKey.from_text(RELAYER.key.hex(), "KEY")


def chains(stand: Stand):
    return [EvmAccount(stand.chain, KEY, LIMITS)]


def settings_of(stand: Stand, url: str | None = None):
    return replace(load_settings({}), nodes={stand.chain.id: (url or stand.url,)})


def test_relay_delivers_until_stopped(stand: Stand):
    message, delivered = stand.add_message(), threading.Event()
    run_relay(
        stand.relay_engine,
        settings_of(stand),
        chains(stand),
        should_stop=delivered.is_set,
        on_turn=lambda chain, turn: delivered.set() if turn.sent else None,
    )
    assert stand.received(message) == AMOUNT
    assert stand.health().well


def test_two_accounts_of_a_chain_deliver_each_message_once(stand: Stand):
    other = LocalEvmKey.from_text(STRANGER.key.hex(), "KEY")
    messages = [stand.add_message() for _ in range(6)]
    sent: list[int] = []
    run_relay(
        stand.relay_engine,
        settings_of(stand),
        [*chains(stand), EvmAccount(stand.chain, other, LIMITS)],
        should_stop=lambda: sum(sent) >= len(messages),
        on_turn=lambda chain, turn: sent.append(turn.sent),
    )
    assert [stand.received(each) for each in messages] == [AMOUNT] * 6
    assert [len(stand.signed_for(each)) for each in messages] == [1] * 6


def test_unreachable_node_is_reported_and_retried(stand: Stand, monkeypatch):
    monkeypatch.setattr(run, "_RETRY_SECONDS", 0.0)
    checks = iter(range(60))
    run_relay(
        stand.relay_engine,
        settings_of(stand, "http://127.0.0.1:1"),
        chains(stand),
        should_stop=lambda: next(checks, None) is None,
        on_turn=lambda chain, turn: pytest.fail("no turn is possible"),
    )
    row = stand.health()
    assert not row.well
    assert "127.0.0.1" in row.reason


@pytest.mark.usefixtures("long_leases")
def test_second_process_waits_as_standby(stand: Stand):
    message, delivered = stand.add_message(), threading.Event()
    relay = threading.Thread(
        target=run_relay,
        args=(stand.relay_engine, settings_of(stand), chains(stand)),
        kwargs={
            "should_stop": delivered.is_set,
            "on_turn": lambda chain, turn: delivered.set() if turn.sent else None,
        },
    )
    account = stand.relay().account
    with account_session(stand.relay_engine, account):
        relay.start()
        wait_for_standby(stand.engine, RELAY_LEASES, locks.RELAY, str(account))
        assert stand.signed_for(message) == []
    relay.join(30)
    assert stand.received(message) == AMOUNT


def health_of(stand: Stand):
    with stand.engine.connect() as conn:
        return all_health(conn)


def test_unfit_node_leaves_the_lease_to_a_standby(stand: Stand, monkeypatch):
    """A command too: `isthmus relay reconcile` runs beside a relay that waits for it."""
    other_chain = replace(stand.chain, id=ChainId("eip155:31338"))
    settings = replace(load_settings({}), nodes={other_chain.id: (stand.url,)})
    paused = threading.Event()
    monkeypatch.setattr(run, "_UNFIT_SECONDS", 30.0)
    relay = threading.Thread(
        target=run_relay,
        args=(stand.relay_engine, settings, [EvmAccount(other_chain, KEY, LIMITS)]),
        kwargs={"should_stop": paused.is_set, "on_turn": lambda chain, turn: None},
    )
    relay.start()
    while not (found := health_of(stand)):
        assert relay.is_alive()
    account = AccountId(other_chain.id, OPERATOR)
    with account_standby(stand.relay_engine, account, lambda: not relay.is_alive()) as conn:
        assert conn is not None
        paused.set()
    relay.join(30)
    assert found[0].problem == "node"
