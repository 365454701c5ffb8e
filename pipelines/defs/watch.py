"""The jobs and schedules that run the checks, whether or not anything else runs."""

from collections.abc import Sequence

import dagster as dg

from indexer.networks import Chain
from pipelines.defs.facts.names import blocks_key, events_key
from pipelines.defs.projections.names import ORDER_BOOK, TRANSFER_PROGRESS

CHECK_FACTS = "check_facts"
CHECK_PROJECTIONS = "check_projections"


def watch(followed: Sequence[Chain]) -> dg.Definitions:
    """Facts are checked every two minutes; projections, which costs a refold, every five."""
    facts = [key for c in followed for key in (blocks_key(c.id), events_key(c.id))]
    projections = [ORDER_BOOK, TRANSFER_PROGRESS]
    return dg.Definitions.merge(
        _checked(CHECK_FACTS, facts, "*/2 * * * *", "Do blocks join, do chains keep up?"),
        _checked(CHECK_PROJECTIONS, projections, "*/5 * * * *", "Does a refold equal the rows?"),
    )


def _checked(name: str, assets: Sequence[dg.AssetKey], cron: str, asks: str) -> dg.Definitions:
    job = dg.define_asset_job(
        name=name,
        selection=dg.AssetSelection.checks_for_assets(*assets),
        description=asks,
        executor_def=dg.in_process_executor,
        tags={"dagster/max_runtime": "900"},
    )
    schedule = dg.ScheduleDefinition(
        job=job, cron_schedule=cron, default_status=dg.DefaultScheduleStatus.RUNNING
    )
    return dg.Definitions(jobs=[job], schedules=[schedule])
