"""The Stellar stand-in as a process: restart after a crash, ledger interval and manual mode."""

import pytest
from stellar_sdk import Asset
from stellar_sdk.operation import BumpSequence

from devnet.stellar.accounts import address
from devnet.stellar.client import DevnetClient
from devnet.stellar.registry import Remotes
from tests.devnet.stellar.chain import UNIT
from tests.factories.stellar_process import DevnetNotReady, StellarProcess


def hashes(client):
    return [ledger.hash for ledger in client.server.get_ledgers(start_ledger=2, limit=200).ledgers]


def test_killed_chain_continues_where_it_stopped(tmp_path):
    options = {"interval": 0, "clock": "fixed", "state": tmp_path}
    process = StellarProcess.start(**options)
    with DevnetClient(process.url) as client:
        alice = client.open_account("alice", usdc=5 * UNIT)
        paid = client.pay(alice, address("admin"), Asset.native(), UNIT)
        before = hashes(client)
        events = client.server.get_events(2, limit=1000).events
    process.kill()
    with StellarProcess.start(**options) as again, DevnetClient(again.url) as client:
        assert hashes(client) == before
        assert client.server.get_events(2, limit=1000).events == events
        assert client.server.get_transaction(paid.hash).ledger == paid.ledger
        after = client.pay(alice, address("admin"), Asset.native(), UNIT)
        assert after.ledger == paid.ledger + 1
        first = client.server.get_ledgers(start_ledger=2, limit=200).ledgers
        assert [ledger.hash for ledger in first][:-1] == before


def test_folder_of_other_genesis_is_refused(tmp_path):
    with StellarProcess.start(state=tmp_path):
        pass
    other = Remotes(b"\1" * 20, b"\2" * 20, b"\3" * 20, (b"\4" * 20, b"\5" * 20))
    with pytest.raises(DevnetNotReady):
        StellarProcess.start(state=tmp_path, remotes=other)


def test_ledgers_close_at_the_interval():
    with StellarProcess.start(interval=0.05) as process, DevnetClient(process.url) as client:
        client.open_account("alice")
        assert client.server.get_health().latest_ledger > 2


def test_manual_mode_closes_ledgers_only_on_demand():
    with StellarProcess.start(interval=None) as process, DevnetClient(process.url) as client:
        alice = client.open_account("alice")
        head = client.server.get_health().latest_ledger
        sent = client.send(alice, [BumpSequence(0)])
        assert client.server.get_health().latest_ledger == head
        assert client.server.get_transaction(sent).status.value == "NOT_FOUND"
        assert client.close_ledger() == head + 1
        assert client.server.get_transaction(sent).status.value == "SUCCESS"
