"""The relay's code location: a process of its own whose environment alone holds the relay's keys.

isthmus code-server --relay
"""

import dagster as dg

from pipelines.defs.facts.checks import verdict
from pipelines.defs.names import TRANSFER_STATES
from pipelines.defs.resources import WarehouseResource
from pipelines.long_run import LongRunConfig, long_run
from pipelines.reports import AssetReporter, LaterReports, counts_metadata
from pipelines.restart_sensor import long_run_definitions, scheduled_checks, state_by_asset
from pipelines.webhooks import webhook_definitions
from relay.account import TurnReport
from relay.leases import account_processes
from relay.run import POOL_SIZE, run_relay
from relay.settings import check_relay_variables, load_relay
from relay.status import relay_problems

RELAY_JOB = "relay"
RELAY_POOL = "relays"
"""Of one run: everything that sends transactions."""
CHECK_JOB = "check_relay"
TRANSACTIONS = dg.AssetKey(["relay", "transactions"])

STEP = "send_transactions"


class RelayWarehouse(WarehouseResource):
    """The warehouse, as the relay's role."""

    role = "relay"
    pool_size = POOL_SIZE


@dg.multi_asset(
    name=STEP,
    specs=[
        dg.AssetSpec(
            TRANSACTIONS,
            deps=[TRANSFER_STATES],
            description="Transactions that the service signed and sent: relay.slots, "
            "relay.attempts. Materialized when a run has taken its first turn, observed with "
            "figures since.",
            group_name="relay",
            kinds={"postgres"},
        )
    ],
    pool=RELAY_POOL,
)
def transactions(
    context: dg.AssetExecutionContext, config: LongRunConfig, warehouse: RelayWarehouse
) -> None:
    """Send transactions until the time is over or a stop is requested."""
    reporter: AssetReporter[TurnReport] = AssetReporter(
        TRANSACTIONS, counts_metadata, LaterReports.OBSERVE
    )
    with long_run(context.op_execution_context, warehouse, [reporter], config) as run:
        is_first = True

        def report(_: object, turn: TurnReport) -> None:
            nonlocal is_first
            if is_first or turn != TurnReport():
                run.report(turn)
            is_first = False

        settings, accounts = load_relay()
        run_relay(run.engine, settings, accounts, should_stop=run.is_over, on_turn=report)


@dg.asset_check(
    asset=TRANSACTIONS,
    name="accounts_are_well",
    description="Every relay account reported lately that it can send: nodes answer, its balance "
    "and daily budget suffice, it is not halted. No transaction waits for too long.",
)
def accounts_are_well(warehouse: RelayWarehouse) -> dg.AssetCheckResult:
    """Read the relay's own reports, and look for accounts without one."""
    with warehouse.engine() as engine, engine.connect() as conn:
        found, processes = relay_problems(conn), account_processes(conn)
    return verdict(found, processes=processes)


def definitions() -> dg.Definitions:
    """The relay's job, restart sensor and checks; the same of webhooks."""
    relaying = long_run_definitions(
        RELAY_JOB,
        transactions,
        TRANSACTIONS,
        state_by_asset("first turn", never="no turn has been taken yet"),
        "Sends the service's transactions",
        checks=[accounts_are_well],
    )
    question = "Can every account of the relay send?"
    checks = scheduled_checks(CHECK_JOB, TRANSACTIONS, question, "*/2 * * * *")
    shared = dg.Definitions(
        resources={"warehouse": RelayWarehouse()}, executor=dg.in_process_executor
    )
    return dg.Definitions.merge(relaying, checks, webhook_definitions(), shared)


# Wrong settings end the code server, all of them named at once. Keys are loaded in the run, which a
# malformed key ends: a key service that does not answer is retried there.
check_relay_variables()
defs = definitions()
