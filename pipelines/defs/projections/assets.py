"""The projections as assets.

Each follower folds what it commits, in the same transaction, and observes the projection's age: a
fresh projection needs no run of its own. Materializing one by hand rebuilds it from the facts, with
the same result.
"""

from collections.abc import Iterator, Sequence

import dagster as dg

from indexer.config.networks import Chain, Network
from indexer.facts.status import ChainStatus, chain_status
from indexer.ingest.rebuild import differences, rebuild
from pipelines.defs.facts.checks import verdict
from pipelines.defs.names import (
    ATTESTATIONS,
    MOVEMENTS,
    ORDER_BOOK,
    PROJECTIONS_POOL,
    events_key,
)
from pipelines.defs.resources import WarehouseResource
from pipelines.failures import failures_for_dagster
from pipelines.reports import Metadata
from pipelines.restart_sensor import asset_job

REBUILD_JOB = "rebuild_projections"


def projections(network: Network, followed: Sequence[Chain]) -> dg.Definitions:
    """The projections of a network, by the chains that are followed."""
    assets = _assets(network, followed)
    job = asset_job(
        REBUILD_JOB,
        dg.AssetSelection.assets(assets),
        "Rebuilds every projection from the facts, then checks it.",
        max_seconds=6 * 3600,
    )
    return dg.Definitions(assets=[assets], asset_checks=[_refold(network)], jobs=[job])


def _assets(network: Network, followed: Sequence[Chain]) -> dg.AssetsDefinition:
    @dg.multi_asset(
        name="refold",
        specs=[
            dg.AssetSpec(
                ORDER_BOOK,
                deps=[events_key(c.id) for c in followed if c == network.stellar],
                description="Offers, orders, providers and depth as of the last Stellar ledger: "
                "projections.book, .offers, .orders, .providers, .depth.",
                kinds={"postgres"},
            ),
            dg.AssetSpec(
                MOVEMENTS,
                deps=[
                    *(events_key(c.id) for c in followed),
                    *([] if network.iris is None else [ATTESTATIONS]),
                ],
                description="CCTP and OFT movements, both sides matched: projections.movements.",
                kinds={"postgres"},
            ),
        ],
        group_name="projections",
        pool=PROJECTIONS_POOL,
        can_subset=False,
    )
    def assets(
        context: dg.AssetExecutionContext, warehouse: WarehouseResource
    ) -> Iterator[dg.MaterializeResult[None]]:
        """Rebuild every projection from the facts, in one transaction."""
        with failures_for_dagster(context.op_execution_context), warehouse.engine() as engine:
            report = rebuild(engine, network)
            statuses = chain_status(engine, network)
        yield dg.MaterializeResult(
            asset_key=ORDER_BOOK,
            metadata=_as_of([s for s in statuses if s.chain == network.stellar.id])
            | {
                "events": report.events,
                "offers": report.offers,
                "orders": report.orders,
            },
        )
        yield dg.MaterializeResult(
            asset_key=MOVEMENTS,
            metadata=_as_of(statuses) | {"movements": report.movements},
        )

    return assets


def _as_of(statuses: Sequence[ChainStatus]) -> Metadata:
    """Heights that are folded, and the largest lag."""
    ingested = [status for status in statuses if status.height is not None]
    heights = {str(status.chain): status.height for status in ingested}
    lags = [status.lag_seconds or 0 for status in ingested]
    return {
        "as_of_heights": dg.MetadataValue.json(heights),
        "lag_seconds": max(lags, default=0),
    }


def _refold(network: Network) -> dg.AssetChecksDefinition:
    name = "refold_equals_stored"

    @dg.multi_asset_check(
        name="compare_with_a_refold",
        specs=[
            dg.AssetCheckSpec(
                name,
                asset=key,
                description="Every projection folded again from all facts gives the stored rows.",
            )
            for key in (ORDER_BOOK, MOVEMENTS)
        ],
    )
    def check(warehouse: WarehouseResource) -> Iterator[dg.AssetCheckResult]:
        with warehouse.engine() as engine:
            found = verdict(differences(engine, network))
        for key in (ORDER_BOOK, MOVEMENTS):
            yield found._replace(check_name=name, asset_key=key)

    return check
