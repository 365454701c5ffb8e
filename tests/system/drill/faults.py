"""Faults: how each begins, how the world ends it, and the alert that it must fire.

`mend` is what a person does outside of this machine, such as sending coin or replacing a node; the
section's commands come after it. A fault whose state is written into the warehouse instead of
brought about says so by `planted`.
"""

import os
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from devnet.customers import Purse, customer, open_accounts
from devnet.evm import dev_account
from devnet.keys import relay_account
from devnet.transfers import Plays
from devnet.world import remotes_of_evm
from indexer.config.networks import variable_suffix
from tests.factories.tokens import ACCOUNT
from tests.factories.webhooks import insert_events, insert_webhook
from tests.system.drill import evm, stellar
from tests.system.drill.certificates import LONG, SHORT
from tests.system.drill.clock import clock_ahead
from tests.system.drill.system import DISK_BYTES, System, wait_until
from tests.system.faults.lies import WrongChainId
from tests.system.faults.refusals import ServerError

CUSTOMER = "hana"
UNIT = 10**7


@dataclass(frozen=True)
class Drill:
    """One fault."""

    name: str
    alert: str
    inject: Callable[[System], None]
    mend: Callable[[System], None] = lambda _: None
    planted: bool = False


def execute(system: System, statement: str, **values: Any) -> None:
    """One statement as the warehouse's owner, committed."""
    with system.owner.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        conn.execute(text(statement), values)


def rpc(system: System, method: str, *params: Any) -> Any:
    """A call to the real EVM node."""
    return system.world.evm.rpc(method, *params)


def silence_nodes(system: System) -> None:
    """Every node of the EVM chain answers 503."""
    for node in system.evm_nodes:
        node.inject(ServerError())


def heal_nodes(system: System) -> None:
    """The operator's other nodes: these, without faults."""
    for node in system.evm_nodes:
        node.heal()


def lie(system: System) -> None:
    """The first node fails once, and what answers there afterwards serves another chain."""
    first, _ = system.evm_nodes
    first.inject(ServerError(), times=1)
    first.inject(WrongChainId())


def halt_chain(system: System) -> None:
    """No further ledger."""
    system.ledgers.is_closing = False


def resume_chain(system: System) -> None:
    """Ledgers again."""
    system.ledgers.is_closing = True


def fill_disk(system: System) -> None:
    """Nine tenths and more of it."""
    with (system.disk / "ballast").open("wb") as file:
        file.write(bytes(int(DISK_BYTES * 0.95)))


def let_replica_fall_behind(system: System) -> None:
    """A replication slot whose replica confirms nothing, and 320 MiB of WAL."""
    execute(system, "SELECT pg_create_physical_replication_slot('replica_1', true)")
    for _ in range(20):
        execute(system, "SELECT pg_logical_emit_message(false, 'drill', 'x')")
        execute(system, "SELECT pg_switch_wal()")


def end_circle(system: System) -> None:
    """The attestation service is gone, and a burn waits for it."""
    system.circle_doors.close()
    chain, user = system.world.evm, dev_account(1)
    chain.faucet_usdc(user.address, 10)
    chain.approve(user, chain.addresses.usdc, chain.addresses.token_messenger, 10)
    recipient = remotes_of_evm().token_messenger_minter
    chain.deposit_for_burn(user, amount=10, mint_recipient=recipient)


def set_balance(system: System, wei: int) -> None:
    """Of the relay's account."""
    rpc(system, "anvil_setBalance", relay_account(), hex(wei))


def spend_budget(system: System) -> None:
    """The delivery of a customer's transfer costs the relay's whole budget.

    The budget is what that cost: a delivery on the devnet is far cheaper than any other budget.
    """
    chains = (system.world.evm, system.world.stellar)
    open_accounts({CUSTOMER: Purse({"usdc": 5 * UNIT}, {})}, system.world.stellar, system.world.evm)
    domain = system.site.url.removeprefix("https://")
    with closing(customer(CUSTOMER, system.ports.api_url, domain=domain)) as owner:
        played = Plays(*chains, lambda _: None).withdrawal(owner, "usdc", 5 * UNIT)

        def is_delivered() -> bool:
            played.react(owner.api.transfer(played.transfer))
            return _spent_today(system) > 0

        wait_until(is_delivered, "a delivery of the relay")
    name = f"ISTHMUS_RELAY_BUDGET_{variable_suffix(system.evm)}"
    system.start("relay", **{name: str(_spent_today(system))})


def _spent_today(system: System) -> int:
    query = text("SELECT spent_today FROM relay.health WHERE chain = :chain")
    with system.owner.connect() as conn:
        return int(conn.scalar(query, {"chain": system.evm}) or 0)


def halt_account(system: System) -> None:
    """As the relay does when another signer uses its numbers.

    Planted: another signer would have to be quicker than a transaction of the relay's that is under
    way, by chance.
    """
    row = {"chain": system.evm, "account": relay_account(), "reason": "planted by the drill"}
    execute(
        system,
        "INSERT INTO relay.halts (chain, account, reason) VALUES (:chain, :account, :reason)",
        **row,
    )


def end_receiver(system: System) -> None:
    """The receiver answers 503, and an event is due."""
    system.receiver.answer = lambda _: 503
    with system.owner.begin() as conn:
        insert_webhook(conn, system.receiver.url)
        insert_events(conn, owner=ACCOUNT)


def heal_receiver(system: System) -> None:
    """It takes posts."""
    system.receiver.answer = lambda _: 204


def age_backup(system: System) -> None:
    """The last backup was two days ago."""
    past = time.time() - 2 * 86_400
    os.utime(system.backup_file, (past, past))


def advance_clock(system: System) -> None:
    """The clock of the API's machine is 30 s ahead."""
    system.start("api", **clock_ahead(system.folder, 30))


def stop_postgres(system: System) -> None:
    """A fast shutdown."""
    system.postgres.stop()


DRILLS = (
    Drill("follower dead", "FollowerDead", lambda s: s.kill(s.followers()[-1])),
    Drill("node silent", "NodeFailing", silence_nodes, heal_nodes),
    Drill("node lying", "NodeLying", lie, heal_nodes),
    Drill("node behind", "NodeBehind", evm.slow_nodes_down, heal_nodes),
    Drill("chain halted", "ChainHalted", halt_chain, resume_chain),
    Drill("deep reorg", "DeepReorg", evm.reorganise_deeply, evm.accept_reorg),
    Drill("event left out", "SequenceGap", stellar.leave_out_event),
    Drill(
        "ledger damaged",
        "LedgersInQuarantine",
        stellar.damage_ledger,
        lambda s: s.stellar_node.heal(),
    ),
    Drill(
        "protocol announced",
        "ProtocolAhead",
        stellar.announce_protocol,
        stellar.deploy_newer_build,
    ),
    Drill("Postgres gone", "DatabaseDown", stop_postgres),
    Drill(
        "disk nearly full",
        "DiskNearlyFull",
        fill_disk,
        lambda s: (s.disk / "ballast").unlink(),
    ),
    Drill("replica behind", "ReplicaBehind", let_replica_fall_behind),
    Drill(
        "attester unanswered", "AttestationServiceSilent", end_circle, lambda s: s.start_circle()
    ),
    Drill(
        "relay key empty",
        "RelayAccountEmpty",
        lambda s: set_balance(s, 10**12),
        lambda s: set_balance(s, 10**22),
    ),
    Drill("budget spent", "RelayBudgetSpent", spend_budget),
    Drill("account halted", "RelayAccountHalted", halt_account, planted=True),
    Drill("webhook receiver dead", "WebhookReceiverFailing", end_receiver, heal_receiver),
    Drill(
        "certificate near its end",
        "CertificateEnding",
        lambda s: s.site.renew(SHORT),
        lambda s: s.site.renew(LONG),
    ),
    Drill("backup too old", "BackupTooOld", age_backup),
    Drill("clock wrong", "ClockSkew", advance_clock),
)
