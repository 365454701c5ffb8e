"""After a restore of an old backup nothing is signed before the chain's transactions are recorded.

Each test takes a copy of the database in mid-work, lets the relay go on, and restores the copy.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, select, text
from sqlalchemy.engine import URL
from stellar_sdk.operation import ChangeTrust

from devnet.evm import EvmDevnet
from devnet.stellar.accounts import USDC
from relay.account import AccountRelay
from relay.jobs.refund_orders import NATIVE
from relay.reconcile import NotYetFinal, Recorded, UnrecordedTransactions
from tests.relay.conftest import AMOUNT, RELAYER, STRANGER, Stand, open_stand
from tests.relay.deposit_stand import AMOUNT as DEPOSIT
from tests.relay.deposit_stand import DepositStand
from tests.relay.ledger import LedgerStand
from tests.relay.test_onboardings import deposit, finish
from tests.relay.test_onboardings import relay as sponsor_of
from warehouse_schema import engine as engine_module
from warehouse_schema.relay import slots

Backup = Callable[[], Callable[[], None]]
"""Takes a backup; what it returns restores it."""
AnyStand = Stand | LedgerStand


@pytest.fixture
def backup(
    database: URL, server_engine: Engine, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> Backup:
    """Copies the test's database, and later puts the copy in its place."""
    # Sooner than any restore takes.
    monkeypatch.setattr(engine_module, "IDLE_SECONDS", 0.0)
    copy = f"{database.database}_backup"

    def run(*statements: str) -> None:
        with server_engine.connect() as conn:
            for statement in statements:
                conn.execute(text(statement))

    def end_sessions() -> str:
        return (
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
            f"WHERE datname = '{database.database}'"
        )

    def take() -> Callable[[], None]:
        engine.dispose()
        run(end_sessions(), f"CREATE DATABASE {copy} TEMPLATE {database.database}")

        def restore() -> None:
            engine.dispose()
            run(
                f"DROP DATABASE {database.database} WITH (FORCE)",
                f"ALTER DATABASE {copy} RENAME TO {database.database}",
            )

        return restore

    return take


@pytest.fixture
def deposits(node: tuple[EvmDevnet, str], database: URL, engine: Engine) -> Iterator[DepositStand]:
    with open_stand(DepositStand, node, database, engine) as stand:
        yield stand


def reconcile(stand: AnyStand, relay: AccountRelay[Any]) -> list[Recorded]:
    """As `isthmus relay reconcile` does."""
    with stand.relay_engine.connect() as conn:
        return relay.reconcile(conn)


@contextmanager
def refused(stand: AnyStand) -> Iterator[None]:
    """A turn that signs nothing and names the command."""
    stand.relay_engine.dispose()
    with pytest.raises(UnrecordedTransactions, match="isthmus relay reconcile"):
        yield


def all_slots(stand: AnyStand) -> list[tuple[int, str, str | None]]:
    columns = slots.c
    with stand.engine.connect() as conn:
        query = select(columns.number, columns.purpose, columns.outcome).order_by(columns.number)
        return [(row.number, row.purpose, row.outcome) for row in conn.execute(query)]


def settle(stand: Stand, relay: AccountRelay[Any]) -> None:
    for _ in range(3):
        stand.turns(relay)
        stand.ingest()


def test_restored_evm_account_delivers_nothing_twice(stand: Stand, backup: Backup):
    # A block's time decides on which day a found transaction counts, and a test before this one may
    # have left the chain's clock behind, on the day before.
    stand.devnet.rpc("evm_setTime", int(time.time()))
    done, under_way, waiting = (stand.add_message() for _ in range(3))
    with stand.engine.begin() as conn:
        hidden = "UPDATE projections.movements SET stage = 'ATTESTING' WHERE message_id = :id"
        conn.execute(text(hidden), {"id": waiting.nonce})
    stand.turns(stand.relay())
    restore = backup()
    with stand.engine.begin() as conn:
        conn.execute(text("UPDATE projections.movements SET stage = 'DELIVERING'"))
    settle(stand, stand.relay())
    spent = stand.health().spent_today
    assert stand.nonce() == 3
    restore()
    stand.ingested.clear()
    with stand.engine.begin() as conn:
        conn.execute(text("UPDATE projections.movements SET stage = 'DELIVERING'"))
    # The search for the transaction starts from the head.
    stand.devnet.mine(70)
    with refused(stand):
        stand.turns(stand.relay())
    with pytest.raises(NotYetFinal, match="follower of eip155:31337"):
        reconcile(stand, stand.relay())
    stand.ingest()
    [found] = reconcile(stand, stand.relay())
    assert (found.number, found.outcome) == (2, "confirmed")
    assert found.job is not None
    assert (found.job.key, found.job.subject) == (waiting.nonce, waiting.nonce[2:34])
    settle(stand, stand.relay())
    assert [stand.received(each) for each in (done, under_way, waiting)] == [AMOUNT] * 3
    assert all_slots(stand) == [(number, "deliver", "confirmed") for number in range(3)]
    assert (stand.nonce(), stand.health().spent_today) == (3, spent), "no fee, none forgotten"
    assert reconcile(stand, stand.relay()) == []
    later = stand.add_message()
    settle(stand, stand.relay())
    assert stand.slots_of(later) == [(3, "confirmed")]


def test_replacement_after_the_backup_closes_its_slot(stand: Stand, backup: Backup):
    message = stand.add_message()
    stand.devnet.rpc("evm_setAutomine", False)
    stand.turns(stand.relay())
    restore = backup()
    stand.age_attempts(120)
    assert stand.turns(stand.relay()).replaced == 1
    stand.devnet.rpc("evm_mine")
    stand.devnet.rpc("evm_setAutomine", True)
    restore()
    stand.relay_engine.dispose()
    stand.ingest()
    [found] = reconcile(stand, stand.relay())
    assert (found.number, found.outcome) == (0, "confirmed")
    settle(stand, stand.relay())
    assert stand.slots_of(message) == [(0, "confirmed")]
    assert (stand.received(message), stand.nonce(), stand.health().well) == (AMOUNT, 1, True)


def test_pending_transaction_that_is_not_known_delays_reconcile(stand: Stand, backup: Backup):
    first = stand.add_message()
    settle(stand, stand.relay())
    restore = backup()
    stand.add_message()
    stand.devnet.rpc("evm_setAutomine", False)
    stand.turns(stand.relay())
    restore()
    stand.relay_engine.dispose()
    with pytest.raises(NotYetFinal, match="pool"):
        reconcile(stand, stand.relay())
    stand.devnet.rpc("evm_mine")
    stand.ingest()
    [found] = reconcile(stand, stand.relay())
    assert (found.number, found.outcome, stand.received(first)) == (1, "confirmed", AMOUNT)


def test_transaction_without_a_job_is_recorded_as_taken(stand: Stand):
    stand.add_message()
    settle(stand, stand.relay())
    stand.devnet.send(RELAYER, STRANGER.address, b"")
    message, relay = stand.add_message(), stand.relay()
    with stand.relay_engine.connect() as conn:
        with pytest.raises(UnrecordedTransactions) as refusal:
            relay.turn(conn)
        relay.report_unhealthy(conn, refusal.value)
    assert (stand.health().well, stand.health().problem) == (False, "unrecorded")
    stand.ingest()
    [found] = reconcile(stand, stand.relay())
    assert (found.number, found.job, found.outcome) == (1, None, "nonce_taken")
    settle(stand, stand.relay())
    assert stand.slots_of(message) == [(2, "confirmed")]


@pytest.mark.parametrize("mechanism", ["cctp", "oft"])
def test_second_payment_after_a_lost_sweep_goes_back(
    deposits: DepositStand, backup: Backup, mechanism: Any
):
    stand = deposits
    # The account has a slot: a new one has no number that the chain could be beyond.
    other = stand.deposit()
    stand.pay(other)
    stand.settle(stand.relay())
    paid = stand.deposit(mechanism)
    stand.pay(paid)
    restore = backup()
    stand.settle(stand.relay())
    assert stand.outcomes(paid) == [("sweep", "confirmed")]
    stand.pay(paid)
    restore()
    with refused(stand):
        stand.turns(stand.relay())
    stand.ingest()
    [found] = reconcile(stand, stand.relay())
    assert found.job is not None
    assert (found.job.purpose, found.job.subject) == ("sweep", paid.terms.id)
    before = stand.returned(paid.terms.source_token)
    stand.settle(stand.relay())
    assert stand.outcomes(paid) == [("sweep", "confirmed"), ("refund", "confirmed")]
    assert stand.returned(paid.terms.source_token) - before == DEPOSIT


@pytest.mark.parametrize("is_ordered", [False, True])
def test_restored_account_refunds_once(deposits: DepositStand, backup: Backup, is_ordered: bool):
    stand = deposits
    other = stand.deposit()
    stand.pay(other)
    stand.settle(stand.relay())
    paid = stand.deposit()
    stand.expire(paid)
    if is_ordered:
        stand.order(paid, NATIVE)
        stand.devnet.rpc("anvil_setBalance", paid.address, hex(10**15))
    else:
        stand.pay(paid)
    restore = backup()
    stand.settle(stand.relay())
    nonce = stand.nonce()
    assert stand.outcomes(paid) == [("refund", "confirmed")]
    restore()
    with refused(stand):
        stand.turns(stand.relay())
    stand.ingest()
    [found] = reconcile(stand, stand.relay())
    assert found.outcome == "confirmed"
    stand.settle(stand.relay())
    assert (stand.outcomes(paid), stand.nonce()) == ([("refund", "confirmed")], nonce)


def test_restored_stellar_account_delivers_nothing_twice(ledger_stand: LedgerStand, backup: Backup):
    stand = ledger_stand
    stand.close()
    first = stand.add_message()
    stand.turns(stand.relay())
    restore = backup()
    second = stand.add_message()
    for _ in range(4):
        stand.chain.at(stand.chain.now + 5)
        stand.ingest_all()
        stand.turns(stand.relay())
    sequence = stand.sequence()
    assert (stand.slots_of(first), stand.slots_of(second)) == (["confirmed"], ["confirmed"])
    restore()
    with refused(stand):
        stand.turns(stand.relay())
    with pytest.raises(NotYetFinal, match="follower"):
        reconcile(stand, stand.relay())
    stand.ingest_all()
    [found] = reconcile(stand, stand.relay())
    assert found.job is not None
    assert (found.outcome, found.job.key) == ("confirmed", second.nonce)
    stand.turns(stand.relay())
    stand.close()
    assert (stand.received(first), stand.received(second)) == (AMOUNT * 10, AMOUNT * 10)
    assert (stand.sequence(), stand.slots_of(first)) == (sequence, ["confirmed"])


def test_lost_sponsorship_is_not_paid_again(ledger_stand: LedgerStand, backup: Backup):
    stand = ledger_stand
    by, first = sponsor_of(stand), deposit(stand)
    first.sign(by)
    stand.turns(by)
    finish(stand, by)
    newcomer = deposit(stand, has_account=True)
    restore = backup()
    newcomer.sign(by)
    stand.turns(by)
    finish(stand, by)
    assert newcomer.outcomes() == ["confirmed"]
    restore()
    with refused(stand):
        stand.turns(by)
    stand.ingest_all()
    [found] = reconcile(stand, by)
    assert found.job is not None
    assert (found.job.purpose, found.job.subject, found.outcome) == (
        *("onboard", newcomer.transfer),
        "confirmed",
    )
    stand.chain.run(newcomer.owner, ChangeTrust(USDC, "0"))
    again = deposit(stand, owner=newcomer.owner)
    again.sign(by)
    assert (stand.turns(by).opened, again.line) == (0, None)
