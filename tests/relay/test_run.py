"""The loop: turns until stopped, retries on node errors, one process per account."""

import threading
from dataclasses import replace

import pytest

from indexer.config.settings import load_settings
from indexer.errors import FollowerConflict
from relay import run
from relay.keys import LocalEvmKey
from relay.leases import account_session
from relay.run import run_relay
from relay.settings import EvmAccount
from tests.relay.conftest import AMOUNT, LIMITS, RELAYER, STRANGER, Stand

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


def test_second_process_raises_conflict(stand: Stand):
    with (
        account_session(stand.relay_engine, stand.relay().account),
        pytest.raises(FollowerConflict, match="another process signs"),
    ):
        run_relay(
            stand.relay_engine,
            settings_of(stand),
            chains(stand),
            should_stop=lambda: False,
            on_turn=lambda chain, turn: None,
        )
