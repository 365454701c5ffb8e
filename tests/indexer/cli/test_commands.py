"""Commands of `isthmus`: quarantine, reconcile and help."""

import json
import subprocess
import sys
from collections.abc import Callable
from os import getpid
from socket import gethostname

import pytest
from sqlalchemy import Engine, delete, select

from indexer.chains.ports import UnreadLedger
from indexer.chains.stellar.xdr.ledgers import block_of_meta
from indexer.cli.base import LazyCommand
from indexer.cli.main import OTHER_PACKAGES, isthmus, main
from indexer.decode.build import decoder_build
from indexer.facts import quarantine, store
from indexer.facts.cursors import Cursor, move_cursor, read_cursor
from indexer.ingest.ranges import follower_lease
from tests.factories.projections import insert_sender
from tests.factories.stage_facts import DIRECT, bring_in, burn
from tests.factories.stellar_lake import DEVNET, FIRST, history_metas
from warehouse_schema import locks
from warehouse_schema.events import cctp_burns
from warehouse_schema.identifiers import Height
from warehouse_schema.leases import INDEXER_LEASES, LeaseName, record_standby
from warehouse_schema.projections import reconciliation

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def command(
    indexer_engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs `isthmus …` in this process; its exit code and what it printed."""
    monkeypatch.setenv("ISTHMUS_NETWORK", "devnet")
    monkeypatch.setenv("ISTHMUS_RPC_EIP155_31337", "")
    monkeypatch.setattr("indexer.config.warehouse.open_engine", lambda *_, **__: indexer_engine)

    def run(*arguments: str) -> tuple[int, str]:
        code = main(arguments)
        output = capsys.readouterr()
        return code, output.out + output.err

    return run


def _put(engine: Engine, height: int, raw: bytes) -> None:
    block = block_of_meta(history_metas()[height - FIRST], DEVNET.id)
    cursor = Cursor(
        chain=block.chain,
        height=block.height,
        block_hash=block.hash,
        block_time=block.time,
        head_height=block.height,
        head_time=block.time,
    )
    with engine.begin() as conn:
        move_cursor(conn, read_cursor(conn, DEVNET.id), cursor)
        store.append(conn, [block], [])
        quarantine.add_ledgers(conn, [UnreadLedger(block, "99 at 4", raw, "a lake")], "older")


def test_quarantine_is_listed_and_retried(command: Command, indexer_engine: Engine) -> None:
    assert command("quarantine") == (0, f"0 in quarantine; this build is {decoder_build()}\n")
    sound = history_metas()[30]
    _put(indexer_engine, FIRST + 30, sound)
    _put(indexer_engine, FIRST + 31, history_metas()[31][:-4])
    code, printed = command("quarantine")
    assert code == 1
    first, second, count = printed.splitlines()
    assert first.startswith(f"{DEVNET.id} {FIRST + 30} undecodable, read from a lake, last tried")
    assert first.endswith(": 99 at 4")
    assert " by build older at " in second
    assert count.startswith("2 in quarantine")
    code, printed = command("status")
    assert code == 1
    assert ", 2 open alarms, 2 ledgers in quarantine\n" in printed
    code, printed = command("quarantine", "--retry")
    assert code == 1
    let_out, kept, listed, count = printed.splitlines()
    assert let_out == f"{DEVNET.id} {FIRST + 30} is out of quarantine, 0 events"
    assert kept.startswith(f"{DEVNET.id} {FIRST + 31} stays in quarantine: ledger {FIRST + 31} ")
    assert f" by build {decoder_build()} at " in listed
    assert count == f"1 in quarantine; this build is {decoder_build()}"


def test_status_names_a_chain_without_a_follower(command: Command) -> None:
    assert f"\nfollower {DEVNET.id}: no process\n" in command("status")[1]


@pytest.mark.usefixtures("long_leases")
def test_status_names_the_follower_and_its_standbys(command: Command, engine: Engine) -> None:
    name = LeaseName(locks.FOLLOWER, DEVNET.id)
    with follower_lease(engine, DEVNET.id), engine.connect() as conn:
        with conn.begin():
            record_standby(conn, INDEXER_LEASES, name, "other", 7)
        _, printed = command("status")
        assert f"follower {DEVNET.id}: {gethostname()}:{getpid()} since " in printed
        assert ", standby other:7 since " in printed
        _, printed = command("status", "--json")
    [state] = json.loads(printed)["processes"]
    assert state["name"] == f"follower {DEVNET.id}"
    assert state["active"]["pid"] == getpid()
    assert [each["host"] for each in state["standbys"]] == ["other"]


def test_status_fails_for_a_configured_relay_that_does_not_run(
    command: Command, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISTHMUS_RPC_STELLAR_DEVNET", "")
    assert command("status")[0] == 0
    monkeypatch.setenv("ISTHMUS_RELAY_KEY_EIP155_31337_FILE", "/nobody/reads/this")
    monkeypatch.setenv("ISTHMUS_WEBHOOK_KMS", "vault:webhooks")
    code, printed = command("status")
    assert code == 1
    assert "relay eip155:31337: configured by ISTHMUS_RELAY_KEY_EIP155_31337" in printed
    assert "webhooks: configured by ISTHMUS_WEBHOOK_KMS" in printed
    code, printed = command("status", "--json")
    shown = json.loads(printed)
    assert (code, shown["is_good"]) == (1, False)
    assert [each["sender"] for each in shown["silent_senders"]] == [
        "relay eip155:31337",
        "webhooks",
    ]
    monkeypatch.delenv("ISTHMUS_WEBHOOK_KMS")
    with engine.begin() as conn:
        insert_sender(conn, "eip155:31337")
    assert command("status")[0] == 0


def test_released_ledger_raises_no_alarm(command: Command, indexer_engine: Engine) -> None:
    _put(indexer_engine, FIRST + 30, history_metas()[30])
    code, printed = command("quarantine", "--retry")
    assert (code, printed.splitlines()[-1][:15]) == (0, "0 in quarantine")
    assert command("status")[0] == 0
    with indexer_engine.connect() as conn:
        assert quarantine.read_bytes(conn, DEVNET.id, Height(FIRST + 30)) is None


def test_decoder_build_changes_with_the_decoders(monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = decoder_build()
    assert genuine == decoder_build.__wrapped__()
    assert len(genuine) == 12
    for name, value in (
        ("_DECODERS", ("decode",)),
        ("_LIBRARIES", ("stellar-sdk",)),
        ("version", lambda _: "0"),
    ):
        with monkeypatch.context() as other:
            other.setattr(f"indexer.decode.build.{name}", value)
            assert decoder_build.__wrapped__() != genuine


@pytest.mark.parametrize(
    "arguments",
    [("follow", "stellar"), ("clear", "stellar", "7"), ("redecode", "start", "stellar")],
)
def test_unknown_chain_error_lists_known_chains(
    command: Command, arguments: tuple[str, ...]
) -> None:
    assert command(*arguments) == (
        2,
        "NetworkFileError: network devnet has no chain stellar; it has stellar:devnet, "
        "eip155:31337\n",
    )


def test_reconcile_prints_flows_and_findings(command: Command, engine: Engine) -> None:
    with engine.begin() as conn:
        bring_in(conn, *burn(DIRECT, 100, "a"))
    code, printed = command("reconcile")
    assert code == 0
    assert printed.splitlines() == [
        f"cctp eip155:1 to stellar:pubnet: sent {DIRECT.amount_in * 10}, delivered 0, fees 0, on "
        f"the way {DIRECT.amount_in * 10}, unexplained 0",
        "it adds up",
    ]
    with engine.begin() as conn:
        assert conn.scalar(select(reconciliation.c.findings)) == []
        conn.execute(delete(cctp_burns))
    code, printed = command("reconcile")
    assert code == 1
    assert "movements_hold_all_facts: " in printed
    assert printed.endswith("1 findings\n")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    assert all(f"\n  {name} " in listed for name in ("follow", "relay", "api", "demo"))


@pytest.mark.parametrize("name", [*isthmus.commands, *OTHER_PACKAGES])
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    assert f"Usage: isthmus {name}" in capsys.readouterr().out


def test_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(OTHER_PACKAGES, "demo", LazyCommand("no_devnet.cli:demo", ""))
    assert main(["demo"]) == 1
    assert "it needs the package no_devnet" in capsys.readouterr().err


def test_help_of_a_command_imports_no_database_or_keys() -> None:
    code = (
        "import sys; from indexer.cli.main import main; main(['follow', '--help']); "
        "print(*(each for each in ('sqlalchemy', 'web3', 'relay', 'api') if each in sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == ""
