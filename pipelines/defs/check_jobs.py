"""The jobs and schedules that run the checks, whether or not anything else runs."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import dagster as dg

from indexer.config.networks import Chain
from pipelines.defs.facts.checks import (
    ALL_DECODED,
    BLOCKS_JOIN,
    HISTORY_JOINS,
    KEEPS_UP,
    NO_OPEN_ALARMS,
    has_quarantine,
)
from pipelines.defs.facts.names import blocks_key, events_key
from pipelines.defs.projections.names import MOVEMENTS, ORDER_BOOK
from pipelines.supervision import IN_FLIGHT

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import (
        UnresolvedAssetJobDefinition,
    )

CHECK_FACTS = "check_facts"
CHECK_HISTORY = "check_history"
CHECK_PROJECTIONS = "check_projections"

SHARE = 0.02
"""Most of the time that a check which reads all history may take up."""
_AT_LEAST_EVERY = 86_400.0
"""Seconds. However long it takes, it is done once a day."""
_LOOK = "*/5 * * * *"


def watch(followed: Sequence[Chain]) -> dg.Definitions:
    """Bounded checks every two minutes; those that read all history as often as is cheap."""
    facts = [
        dg.AssetCheckKey(key(chain.id), name)
        for chain in followed
        for key, name in (
            (blocks_key, BLOCKS_JOIN),
            (blocks_key, KEEPS_UP),
            (events_key, NO_OPEN_ALARMS),
        )
    ]
    facts += [
        dg.AssetCheckKey(events_key(chain.id), ALL_DECODED)
        for chain in followed
        if has_quarantine(chain)
    ]
    history = [dg.AssetCheckKey(blocks_key(chain.id), HISTORY_JOINS) for chain in followed]
    recent = _job(CHECK_FACTS, _checks(facts), "Do recent blocks join, do chains keep up?", 900)
    every_two_minutes = dg.ScheduleDefinition(
        job=recent,
        cron_schedule="*/2 * * * *",
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
    return dg.Definitions.merge(
        dg.Definitions(jobs=[recent], schedules=[every_two_minutes]),
        paced(CHECK_HISTORY, _checks(history), "Do all stored blocks join?"),
        paced(
            CHECK_PROJECTIONS,
            dg.AssetSelection.checks_for_assets(ORDER_BOOK, MOVEMENTS),
            "Does a refold of all facts equal the rows?",
        ),
    )


def _checks(keys: Sequence[dg.AssetCheckKey]) -> dg.AssetSelection:
    return dg.AssetSelection.checks(*keys)


def _job(
    name: str, selection: dg.AssetSelection, asks: str, seconds: int
) -> "UnresolvedAssetJobDefinition":
    return dg.define_asset_job(
        name=name,
        selection=selection,
        description=asks,
        executor_def=dg.in_process_executor,
        tags={"dagster/max_runtime": str(seconds)},
    )


def paced(
    name: str,
    selection: dg.AssetSelection,
    asks: str,
    at_least_every: float = _AT_LEAST_EVERY,
) -> dg.Definitions:
    """A job whose schedule starts it the less often, the longer it takes.

    `at_least_every` is seconds: it never rests longer.
    """

    @dg.schedule(
        name=f"{name}_schedule",
        job_name=name,
        cron_schedule=_LOOK,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Every five minutes while that takes {SHARE:.0%} of the time, less often "
        f"when it would take more, every {at_least_every / 3600:g} hours in any case.",
    )
    def schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        return next_check(context.instance, name, time.time(), at_least_every)

    job = _job(name, selection, asks, int(_AT_LEAST_EVERY))
    return dg.Definitions(jobs=[job], schedules=[schedule])


def next_check(
    instance: dg.DagsterInstance, job: str, now: float, at_least_every: float = _AT_LEAST_EVERY
) -> dg.RunRequest | dg.SkipReason:
    """Start a check of all history, or say how long it still rests; `now` is in unix seconds."""
    records = instance.get_run_records(dg.RunsFilter(job_name=job), limit=1)
    if records and records[0].dagster_run.status in IN_FLIGHT:
        return dg.SkipReason("the last one is still under way")
    left = rest(records[0], now, at_least_every) if records else 0.0
    return dg.SkipReason(f"again in {left:.0f} s") if left > 0 else dg.RunRequest()


def rest(last: dg.RunRecord, now: float, at_least_every: float = _AT_LEAST_EVERY) -> float:
    """Seconds until a check is due again, by how long it took last; `now` is in unix seconds."""
    if last.start_time is None or last.end_time is None:
        return 0.0
    pause = min(at_least_every, (last.end_time - last.start_time) / SHARE)
    return last.start_time + pause - now
