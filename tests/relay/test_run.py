"""The loop: turns until it is told to stop, whatever nodes do, and one process an account."""

import threading
from dataclasses import replace

import pytest

from indexer.config.settings import load_settings
from indexer.errors import FollowerConflict
from relay import run, store
from relay.keys import LocalEvmKey
from relay.run import run_relay
from relay.settings import EvmAccount
from tests.relay.conftest import AMOUNT, LIMITS, RELAYER, Stand

KEY = LocalEvmKey.from_text(RELAYER.key.hex(), "KEY")


def chains(stand: Stand):
    return [EvmAccount(stand.chain, KEY, LIMITS)]


def settings_of(stand: Stand, url: str | None = None):
    return replace(load_settings({}), nodes={stand.chain.id: (url or stand.url,)})


def test_a_relay_delivers_until_it_is_told_to_stop(stand: Stand):
    message, delivered = stand.owed(), threading.Event()
    run_relay(
        stand.relay_engine,
        settings_of(stand),
        chains(stand),
        should_stop=delivered.is_set,
        on_turn=lambda chain, turn: delivered.set() if turn.sent else None,
    )
    assert stand.received(message) == AMOUNT
    assert stand.health().well


def test_a_node_that_is_away_is_waited_for_and_said(stand: Stand, monkeypatch):
    monkeypatch.setattr(run, "_AGAIN_SECONDS", 0.0)
    looks = iter(range(60))
    run_relay(
        stand.relay_engine,
        settings_of(stand, "http://127.0.0.1:1"),
        chains(stand),
        should_stop=lambda: next(looks, None) is None,
        on_turn=lambda chain, turn: pytest.fail("no turn is possible"),
    )
    row = stand.health()
    assert not row.well
    assert "127.0.0.1" in row.reason


def test_a_second_process_is_turned_away(stand: Stand):
    with (
        store.account_session(stand.relay_engine, stand.relay().account),
        pytest.raises(FollowerConflict, match="another process signs"),
    ):
        run_relay(
            stand.relay_engine,
            settings_of(stand),
            chains(stand),
            should_stop=lambda: False,
            on_turn=lambda chain, turn: None,
        )
