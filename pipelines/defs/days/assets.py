"""Daily figures and exported days as assets, a partition a day.

One run does a whole range of days (`BackfillPolicy.single_run`): a run costs seconds to start, a
day does not. A day that is not over fails its run, whoever asked for it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from indexer.config.networks import Chain, Network
from indexer.config.settings import Settings
from pipelines.defs.check_jobs import paced
from pipelines.defs.days.keeping import compute_sensor, export_sensor
from pipelines.defs.days.names import (
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
    PROVIDER_DAYS,
    ROUTE_DAYS,
    ROUTES_JOB,
)
from pipelines.defs.facts.checks import verdict
from pipelines.defs.facts.names import events_key
from pipelines.defs.projections.names import MOVEMENTS
from pipelines.defs.resources import WarehouseResource
from pipelines.failures import failures_for_dagster
from pipelines.instance import knowing_that_it_is_beta

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import (
        UnresolvedAssetJobDefinition,
    )

    from indexer.analytics.daily import Figure
    from indexer.analytics.export import ExportSet

_DAY = 86_400


def days(settings: Settings) -> dg.Definitions:
    """Everything of a network that is done by days."""
    network, folder = settings.network, settings.export_folder
    events = [events_key(chain.id) for chain in settings.followed]
    # One run for a range of days: pinned by tests/pipelines/test_days.py.
    with knowing_that_it_is_beta():
        book = _figures(network, "book", _book_specs(network, settings.followed))
        routes = _figures(network, "routes", [_route_spec()])
        facts = _files(folder, "facts", FACT_FILES, events)
        figures = _files(folder, "figures", FIGURE_FILES, [PROVIDER_DAYS, MARKET_DAYS, ROUTE_DAYS])
    checks = paced(
        CHECK_DAYS,
        dg.AssetSelection.checks_for_assets(PROVIDER_DAYS, MARKET_DAYS, ROUTE_DAYS),
        "Do daily figures say what the views say?",
    )
    own = dg.Definitions(
        assets=[book, routes, facts, figures],
        asset_checks=[_agreement(network)],
        jobs=[
            _job(BOOK_JOB, book, "Computes providers and markets of days that are over."),
            _job(ROUTES_JOB, routes, "Computes routes of days that are over."),
            _job(FACTS_JOB, facts, "Writes the facts of days that are over as Parquet files."),
            _job(FIGURES_JOB, figures, "Writes computed days as Parquet files."),
        ],
        sensors=[
            compute_sensor(BOOK_JOB, "book", PROVIDER_DAYS, network),
            compute_sensor(ROUTES_JOB, "routes", ROUTE_DAYS, network),
            export_sensor(FACTS_JOB, "facts", FACT_FILES, folder),
            export_sensor(FIGURES_JOB, "figures", FIGURE_FILES, folder),
        ],
    )
    return dg.Definitions.merge(own, checks)


def _job(name: str, assets: dg.AssetsDefinition, does: str) -> "UnresolvedAssetJobDefinition":
    return dg.define_asset_job(
        name=name,
        # The check reads all history: it has a job of its own, paced by what it costs.
        selection=dg.AssetSelection.assets(assets).without_checks(),
        description=does,
        executor_def=dg.in_process_executor,
        tags={"dagster/max_runtime": str(_DAY)},
    )


# Figures.


def _book_specs(network: Network, followed: Sequence[Chain]) -> list[dg.AssetSpec]:
    deps = [events_key(chain.id) for chain in followed if chain == network.stellar]
    return [
        dg.AssetSpec(
            PROVIDER_DAYS,
            deps=deps,
            description="Each provider on each day: orders, volume, escrow over time. "
            "projections.provider_days.",
            kinds={"postgres", "polars"},
        ),
        dg.AssetSpec(
            MARKET_DAYS,
            deps=deps,
            description="Each direction, rail and currency on each day: projections.market_days.",
            kinds={"postgres", "polars"},
        ),
    ]


def _route_spec() -> dg.AssetSpec:
    return dg.AssetSpec(
        ROUTE_DAYS,
        deps=[MOVEMENTS],
        description="Money between chains, by route and day: projections.route_days.",
        kinds={"postgres", "polars"},
    )


def _figures(network: Network, name: str, specs: Sequence[dg.AssetSpec]) -> dg.AssetsDefinition:
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
        # Here, not above: it reads columns, and every run that starts would wait for that import.
        from indexer.analytics.daily import compute

        first, last = _range(context)
        rows: Counter[str] = Counter()
        with failures_for_dagster(context.op_execution_context), warehouse.engine() as engine:
            for written in compute(engine, network, _family(name), first, last):
                rows.update(written.rows)
                context.log.info(f"{written.first} to {written.last}: {written.rows}")
        for spec in specs:
            yield dg.MaterializeResult(
                asset_key=spec.key, metadata=_metadata(first, last, rows[spec.key.path[-1]])
            )

    return assets


def _family(name: str) -> "Figure":
    from indexer.analytics.daily import FIGURES

    return next(figure for figure in FIGURES if figure.name == name)


def _range(context: dg.AssetExecutionContext) -> tuple[date, date]:
    asked = context.partition_key_range
    return date.fromisoformat(asked.start), date.fromisoformat(asked.end)


def _metadata(first: date, last: date, rows: int) -> dict[str, dg.MetadataValue]:
    """Of all the days of the run: Dagster keeps one entry for each of them."""
    return {
        "from": dg.MetadataValue.text(str(first)),
        "to": dg.MetadataValue.text(str(last)),
        "days": dg.MetadataValue.int((last - first).days + 1),
        "rows": dg.MetadataValue.int(rows),
    }


def _agreement(network: Network) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(
        name="compare_with_views",
        specs=[
            dg.AssetCheckSpec(
                AGREES,
                asset=key,
                description="The figures, folded from the facts, are what the views of analytics "
                "say of these days.",
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


# Files.


def _files(
    folder: Path, name: str, key: dg.AssetKey, deps: Sequence[dg.AssetKey]
) -> dg.AssetsDefinition:
    @dg.asset(
        key=key,
        deps=deps,
        description=f"Parquet files under {folder}, a folder a table and day (docs/analytics.md).",
        partitions_def=DAYS,
        backfill_policy=dg.BackfillPolicy.single_run(),
        group_name="export",
        pool=EXPORT_POOL,
        kinds={"parquet", "polars"},
    )
    def asset(
        context: dg.AssetExecutionContext, warehouse: WarehouseResource
    ) -> dg.MaterializeResult[None]:
        """Write a range of days."""
        from indexer.analytics.export import export
        from indexer.facts.days import days_between

        first, last = _range(context)
        rows = 0
        with failures_for_dagster(context.op_execution_context), warehouse.engine() as engine:
            for written in export(engine, _set(name), folder, list(days_between(first, last))):
                rows += sum(written.rows.values())
                context.log.info(f"{written.day}: {sum(written.rows.values())} rows")
        return dg.MaterializeResult(
            metadata=_metadata(first, last, rows) | {"folder": dg.MetadataValue.path(str(folder))}
        )

    return asset


def _set(name: str) -> "ExportSet":
    from indexer.analytics.export import SETS

    return next(each for each in SETS if each.name == name)
