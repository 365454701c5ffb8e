"""Daily figures and exported days as assets, with a partition for each day.

One run does a whole range of days (`BackfillPolicy.single_run`): a run costs seconds to start, a
day does not. A run for a day that is not over fails.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

import dagster as dg

from indexer.config.networks import Network
from indexer.config.settings import Settings
from pipelines.defs.check_jobs import paced
from pipelines.defs.days.sensors import compute_sensor, export_sensor
from pipelines.defs.facts.checks import verdict
from pipelines.defs.names import (
    AGREES,
    BOOK_JOB,
    CHECK_DAYS,
    DAYS,
    EXPORT_POOL,
    FACT_FILES,
    FACTS_JOB,
    FIGURE_FILES,
    FIGURES_JOB,
    MARKET_DAYS,
    MOVEMENTS,
    PROVIDER_DAYS,
    ROUTE_DAYS,
    ROUTES_JOB,
    events_key,
)
from pipelines.defs.resources import WarehouseResource
from pipelines.executors import EXPORT_QUEUE, executor_of_days, executor_of_exports
from pipelines.failures import failures_for_dagster, retry_in_process
from pipelines.instance import disable_dagster_warnings
from pipelines.reports import Metadata
from pipelines.restart_sensor import asset_job

_DAY = 86_400
_LEASE_SECONDS = 60.0
"""For the session of a killed process, which lives until its statement ends."""


def days(settings: Settings) -> dg.Definitions:
    """All definitions by days of a network."""
    network, folder = settings.network, settings.export_folder
    events = [events_key(chain.id) for chain in settings.followed]
    market = [events_key(chain.id) for chain in settings.followed if chain == network.stellar]
    # One run for a range of days: pinned by tests/pipelines/test_days.py.
    with disable_dagster_warnings():
        book = _figures(
            network,
            "book",
            dg.AssetSpec(
                PROVIDER_DAYS,
                deps=market,
                description="Each provider on each day: orders, volume, escrow over time. "
                "projections.provider_days.",
                kinds={"postgres", "polars"},
            ),
            dg.AssetSpec(
                MARKET_DAYS,
                deps=market,
                description="Each direction, rail and currency on each day: "
                "projections.market_days.",
                kinds={"postgres", "polars"},
            ),
        )
        routes = _figures(
            network,
            "routes",
            dg.AssetSpec(
                ROUTE_DAYS,
                deps=[MOVEMENTS],
                description="Money between chains, by route and day: projections.route_days.",
                kinds={"postgres", "polars"},
            ),
        )
        facts = _files(folder, "facts", FACT_FILES, events)
        figures = _files(folder, "figures", FIGURE_FILES, [PROVIDER_DAYS, MARKET_DAYS, ROUTE_DAYS])
    checks = paced(
        CHECK_DAYS,
        dg.AssetSelection.checks_for_assets(PROVIDER_DAYS, MARKET_DAYS, ROUTE_DAYS),
        "Do daily figures equal the views?",
    )
    on_days, on_exports = executor_of_days(settings), executor_of_exports(settings)
    jobs = [
        asset_job(
            name,
            # The check reads all history: it has a job of its own, paced by its cost.
            dg.AssetSelection.assets(assets).without_checks(),
            description,
            max_seconds=_DAY,
            executor=executor,
        )
        for name, assets, description, executor in (
            (BOOK_JOB, book, "Computes providers and markets of days that are over.", on_days),
            (ROUTES_JOB, routes, "Computes routes of days that are over.", on_days),
            (FACTS_JOB, facts, "Writes facts of days that are over as Parquet files.", on_exports),
            (FIGURES_JOB, figures, "Writes computed days as Parquet files.", on_exports),
        )
    ]
    own = dg.Definitions(
        assets=[book, routes, facts, figures],
        asset_checks=[_agreement(network)],
        jobs=jobs,
        sensors=[
            compute_sensor(BOOK_JOB, "book", PROVIDER_DAYS, network),
            compute_sensor(ROUTES_JOB, "routes", ROUTE_DAYS, network),
            export_sensor(FACTS_JOB, "facts", FACT_FILES, folder),
            export_sensor(FIGURES_JOB, "figures", FIGURE_FILES, folder),
        ],
    )
    return dg.Definitions.merge(own, checks)


def _figures(network: Network, name: str, *specs: dg.AssetSpec) -> dg.AssetsDefinition:
    @dg.multi_asset(
        name=f"fold_{name}_days",
        specs=specs,
        partitions_def=DAYS,
        backfill_policy=dg.BackfillPolicy.single_run(),
        group_name="days",
        pool=f"writes_{name}_days",
        can_subset=False,
    )
    def assets(
        context: dg.AssetExecutionContext, warehouse: WarehouseResource
    ) -> Iterator[dg.MaterializeResult[None]]:
        """Compute a range of days, some at a time, each in one transaction."""
        # Imported here: it imports polars, and every run would wait for that.
        from indexer.analytics.daily import FIGURES, compute

        first, last = _range(context)
        figure = next(figure for figure in FIGURES if figure.name == name)
        op = context.op_execution_context

        def work() -> Counter[str]:
            rows: Counter[str] = Counter()
            for written in compute(
                engine, network, figure, first, last, lease_timeout=_LEASE_SECONDS
            ):
                rows.update(written.rows)
                context.log.info(f"{written.first} to {written.last}: {written.rows}")
            return rows

        with failures_for_dagster(op), warehouse.engine() as engine:
            rows = retry_in_process(op, work)
        for spec in specs:
            yield dg.MaterializeResult(
                asset_key=spec.key, metadata=_metadata(first, last, rows[spec.key.path[-1]])
            )

    return assets


def _range(context: dg.AssetExecutionContext) -> tuple[date, date]:
    keys = context.partition_key_range
    return date.fromisoformat(keys.start), date.fromisoformat(keys.end)


def _metadata(first: date, last: date, rows: int) -> Metadata:
    """Of all days of the run: Dagster stores one entry for each of them."""
    return {
        "from": str(first),
        "to": str(last),
        "days": (last - first).days + 1,
        "rows": rows,
    }


def _agreement(network: Network) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(
        name="compare_with_views",
        specs=[
            dg.AssetCheckSpec(
                AGREES,
                asset=key,
                description="The figures, folded from the facts, equal the views of analytics.",
            )
            for key in (PROVIDER_DAYS, MARKET_DAYS, ROUTE_DAYS)
        ],
    )
    def check(warehouse: WarehouseResource) -> Iterator[dg.AssetCheckResult]:
        from indexer.analytics.agreement import differences

        with warehouse.engine() as engine:
            found = differences(engine, network)
        for key in (PROVIDER_DAYS, MARKET_DAYS, ROUTE_DAYS):
            own = [sentence for sentence in found if sentence.startswith(f"{key.path[-1]} ")]
            yield verdict(own)._replace(check_name=AGREES, asset_key=key)

    return check


def _files(
    folder: Path, name: str, key: dg.AssetKey, deps: Sequence[dg.AssetKey]
) -> dg.AssetsDefinition:
    @dg.asset(
        key=key,
        deps=deps,
        description=f"Parquet files under {folder}, by table and day (docs/analytics.md).",
        partitions_def=DAYS,
        backfill_policy=dg.BackfillPolicy.single_run(),
        group_name="export",
        pool=EXPORT_POOL,
        op_tags={"dagster-celery/queue": EXPORT_QUEUE},
        kinds={"parquet", "polars"},
    )
    def asset(
        context: dg.AssetExecutionContext, warehouse: WarehouseResource
    ) -> dg.MaterializeResult[None]:
        """Write a range of days."""
        from indexer.analytics.export import SETS, export
        from indexer.facts.days import days_between

        first, last = _range(context)
        export_set = next(each for each in SETS if each.name == name)
        op = context.op_execution_context

        def work() -> int:
            rows = 0
            for written in export(engine, export_set, folder, list(days_between(first, last))):
                rows += sum(written.rows.values())
                context.log.info(f"{written.day}: {sum(written.rows.values())} rows")
            return rows

        with failures_for_dagster(op), warehouse.engine() as engine:
            rows = retry_in_process(op, work)
        return dg.MaterializeResult(
            metadata=_metadata(first, last, rows) | {"folder": dg.MetadataValue.path(folder)}
        )

    return asset
