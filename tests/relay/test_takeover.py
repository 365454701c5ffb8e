"""A second signer is impossible: a relay without its lease commits and broadcasts nothing."""

import random
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import ResourceClosedError

import relay
from indexer.errors import LeaseLost
from relay.keys import LocalEvmKey
from relay.leases import account_session
from tests.factories.takeover import FAULTS, Contender, Stage, relay_contest, staged
from tests.relay.conftest import AMOUNT, EVM, OPERATOR, RELAYER_KEY, Message, Stand
from tests.system.faults.fault import Exchange, Fault, Response
from tests.system.faults.proxy import FaultyHttp
from warehouse_schema.relay import attempts

ROUNDS, MESSAGES_A_ROUND = 5, 3


class SigningService:
    """The relayer's key; something happens between its signature and what is done with it."""

    def __init__(self, after: Callable[[], None]) -> None:
        self._key, self._after = LocalEvmKey.from_text(RELAYER_KEY, "KEY"), after
        self.signatures = 0

    @property
    def public_key(self) -> bytes:
        return self._key.public_key

    def sign(self, digest: bytes) -> tuple[int, int]:
        signature = self._key.sign(digest)
        self.signatures += 1
        self._after()
        return signature


def take_over(engine: Engine) -> None:
    """As a process on another machine, for longer than the test."""
    statement = (
        "UPDATE relay.leases SET term = term + 1,"
        " expires_at = clock_timestamp() + interval '1 hour', host = 'elsewhere'"
    )
    with engine.begin() as conn:
        conn.execute(text(statement))


def free(engine: Engine) -> None:
    with engine.begin() as conn:
        conn.execute(text("UPDATE relay.leases SET expires_at = NULL"))


def test_stale_relay_that_signed_neither_commits_nor_broadcasts(stand: Stand):
    message = stand.add_message()
    key = SigningService(lambda: take_over(stand.engine))
    stale = stand.relay(key=key)
    with (
        account_session(stand.relay_engine, stale.account) as conn,
        pytest.raises(LeaseLost, match="took the lease of relay"),
    ):
        stale.turn(conn)
    assert key.signatures == 1
    assert stand.slots_of(message) == []
    assert stand.signed_for(message) == []
    assert stand.devnet.rpc("txpool_status")["pending"] == "0x0"
    assert stand.nonce() == 0
    free(stand.engine)
    assert stand.turns(stand.relay()).sent == 1
    assert stand.received(message) == AMOUNT


def test_stale_replacement_is_not_stored(stand: Stand):
    message = stand.add_message()
    stand.devnet.rpc("evm_setAutomine", False)
    stand.turns(stand.relay())
    stand.age_attempts(61)
    stale = stand.relay(key=SigningService(lambda: take_over(stand.engine)))
    with account_session(stand.relay_engine, stale.account) as conn, pytest.raises(LeaseLost):
        stale.turn(conn)
    assert len(stand.signed_for(message)) == 1


def test_no_transaction_of_a_stale_session_begins(stand: Stand):
    """Slots, attempts, outcomes, halts, health: all of them begin on this session."""
    account = stand.relay().account
    with account_session(stand.relay_engine, account) as conn:
        with conn.begin():
            conn.execute(select(attempts))
        take_over(stand.engine)
        with pytest.raises(LeaseLost):
            conn.execute(select(attempts))
        with pytest.raises(ResourceClosedError):
            conn.execute(select(attempts))
        with pytest.raises(ResourceClosedError):
            conn.begin()


def test_no_transaction_of_the_relay_goes_without_the_fence():
    """Sessions come from `relay.leases`; commands that sign nothing have others."""
    commands = {"cli.py", "keys_cli.py", "doctor.py"}
    found = {
        path.name
        for path in Path(*relay.__path__).rglob("*.py")
        if re.search(r"fences_itself|engine\.(connect|begin)\(", path.read_text())
    }
    assert found <= commands


def test_only_one_function_broadcasts():
    """It is handed slots that were read from committed rows."""
    found = [
        path.name
        for path in Path(*relay.__path__).rglob("*.py")
        for _ in re.findall(r"\bsend\(attempt\.raw\)|slots\.broadcast\(", path.read_text())
    ]
    assert sorted(found) == ["account.py", "slots.py", "submissions.py"]


class Recorder(Fault):
    """Spoils nothing, and remembers what was broadcast."""

    def __init__(self) -> None:
        super().__init__()
        self.raw: set[bytes] = set()

    def respond(self, exchange: Exchange) -> Response | None:
        for call in exchange.calls:
            if call["method"] == "eth_sendRawTransaction":
                self.raw.add(bytes.fromhex(call["params"][0].removeprefix("0x")))
        return None


@pytest.fixture
def recorder(stand: Stand) -> Iterator[tuple[Recorder, str]]:
    recorder = Recorder()
    with closing(FaultyHttp(stand.url)) as node:
        node.inject(recorder)
        yield recorder, node.url


@pytest.fixture
def stage(
    stand: Stand, engine: Engine, database: URL, recorder: tuple[Recorder, str]
) -> Iterator[Stage]:
    contest = relay_contest(f"{EVM.id} {OPERATOR}", recorder[1])
    with staged(contest, engine, database) as stage:
        yield stage


@pytest.mark.timeout(600)
def test_two_relays_under_faults_broadcast_committed_bytes_only(
    stage: Stage, stand: Stand, recorder: tuple[Recorder, str]
):
    """Hundreds of turns, with kills, stops and cut links at random moments."""
    chance, messages = random.Random(20), list[Message]()
    contenders = {each.pid: each for each in stage.start_both()}
    for _ in range(ROUNDS):
        messages += [stand.add_message() for _ in range(MESSAGES_A_ROUND)]
        turns = stage.observer.written() + chance.randrange(100)
        stage.observer.wait_for(partial(has_written, stage, turns), "a turn")
        # On a busy machine the standby may have it by now, for want of renewals.
        stage.observer.wait_for(lambda: stage.observer.active() is not None, "a holder")
        active = contenders.pop(stage.observer.active() or min(contenders))
        [standby] = contenders.values()
        name = chance.choice([*FAULTS])
        FAULTS[name](active)
        stage.observer.wait_for_write(standby)
        active.recover()
        if name == "kill":
            active = stage.start()
        contenders[active.pid] = active
        stage.observer.wait_for(partial(is_present, stage, active), "it is there again")
        stand.ingest()
    stage.observer.wait_for(lambda: all(map(stand.received, messages)), "all are delivered")
    committed = signed_bytes(stand)
    assert recorder[0].raw <= committed
    assert [stand.received(each) for each in messages] == [AMOUNT] * len(messages)
    assert [len(stand.signed_for(each)) for each in messages] == [1] * len(messages)
    assert stand.nonce() == len(messages)


def is_present(stage: Stage, contender: Contender) -> bool:
    return contender.pid in {*stage.observer.standbys(), stage.observer.active()}


def has_written(stage: Stage, least: int) -> bool:
    return stage.observer.written() >= least


def signed_bytes(stand: Stand) -> set[Any]:
    with stand.engine.connect() as conn:
        return {bytes(raw) for raw in conn.scalars(select(attempts.c.signed))}
