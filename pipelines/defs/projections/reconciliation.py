"""The reconciliation of money as an asset, and its findings as checks."""

from collections.abc import Iterator

import dagster as dg

from indexer.analytics.reconciliation import (
    CHECKS,
    MAX_AGE_SECONDS,
    ChainFlow,
    ReconciliationCheck,
    reconcile,
)
from indexer.config.networks import Network
from pipelines.defs.check_jobs import paced
from pipelines.defs.facts.checks import verdict
from pipelines.defs.names import MOVEMENTS, RECONCILIATION, TRANSFER_STATES
from pipelines.defs.resources import WarehouseResource
from pipelines.failures import failures_for_dagster

RECONCILE_JOB = "reconcile"

_DESCRIPTIONS: dict[ReconciliationCheck, str] = {
    "movements_hold_all_facts": "What the chains burned, minted, sent and credited equals the "
    "movements.",
    "movements_keep_their_amount": "Amounts sent equal amounts delivered plus fees.",
    "deposit_addresses_are_empty": "No deposit address of a transfer that is over holds money.",
    "transfers_move_on": "No transfer waits longer than its next step may take.",
}


def reconciliations(network: Network) -> dg.Definitions:
    """The asset, and its paced job."""
    asset = _asset(network)
    return dg.Definitions.merge(
        dg.Definitions(assets=[asset]),
        paced(
            RECONCILE_JOB,
            dg.AssetSelection.assets(asset),
            "Does the money add up?",
            max_interval=MAX_AGE_SECONDS / 2,
        ),
    )


def _asset(network: Network) -> dg.AssetsDefinition:
    @dg.asset(
        key=RECONCILIATION,
        deps=[MOVEMENTS, TRANSFER_STATES],
        group_name="projections",
        kinds={"postgres"},
        description="Flows between chains and stages of transfers, as of the last run: "
        "projections.reconciliation.",
        check_specs=[
            dg.AssetCheckSpec(check, asset=RECONCILIATION, description=_DESCRIPTIONS[check])
            for check in CHECKS
        ],
    )
    def reconciliation(
        context: dg.AssetExecutionContext, warehouse: WarehouseResource
    ) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
        with failures_for_dagster(context.op_execution_context), warehouse.engine() as engine:
            seen = reconcile(engine, network)
        yield dg.MaterializeResult(
            metadata={
                "flows": dg.MetadataValue.md(_as_table(seen.flows)),
                "under_way": {**seen.stages},
                "findings": len(seen.findings),
            }
        )
        for check in CHECKS:
            found = verdict([each.detail for each in seen.findings if each.check == check])
            yield found._replace(check_name=check, asset_key=RECONCILIATION)

    return reconciliation


def _as_table(flows: tuple[ChainFlow, ...]) -> str:
    lines = [
        "| | from | to | sent | delivered | fees | on the way | unexplained |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for flow in flows:
        cells = [
            flow.mechanism,
            flow.source_chain or "elsewhere",
            flow.dest_chain or "elsewhere",
            *(f"{each.amount} ({each.count})" for each in (flow.sent, flow.delivered)),
            str(flow.fees),
            *(f"{each.amount} ({each.count})" for each in (flow.on_the_way, flow.unexplained)),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
