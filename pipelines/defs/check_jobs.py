"""Jobs and schedules of the checks, independent of other runs."""

import time
from collections.abc import Sequence

import dagster as dg

from indexer.config.networks import Chain
from pipelines.defs.facts.checks import has_quarantine
from pipelines.defs.names import (
    ALL_DECODED,
    BLOCKS_JOIN,
    HISTORY_JOINS,
    KEEPS_UP,
    MOVEMENTS,
    NO_OPEN_ALARMS,
    ORDER_BOOK,
    blocks_key,
    events_key,
)
from pipelines.restart_sensor import asset_job
from pipelines.supervision import IN_FLIGHT

CHECK_FACTS = "check_facts"
CHECK_HISTORY = "check_history"
CHECK_PROJECTIONS = "check_projections"

SHARE = 0.02
"""Maximum share of the time that a check of all history may run."""
_DAY = 86_400.0
"""Seconds. However long such a check takes, it runs once a day."""


def check_jobs(followed: Sequence[Chain]) -> dg.Definitions:
    """Bounded checks every two minutes; those that read all history as often as is cheap."""
    facts = []
    for chain in followed:
        blocks, events = blocks_key(chain.id), events_key(chain.id)
        facts += [
            dg.AssetCheckKey(blocks, BLOCKS_JOIN),
            dg.AssetCheckKey(blocks, KEEPS_UP),
            dg.AssetCheckKey(events, NO_OPEN_ALARMS),
        ]
        if has_quarantine(chain):
            facts.append(dg.AssetCheckKey(events, ALL_DECODED))
    history = [dg.AssetCheckKey(blocks_key(chain.id), HISTORY_JOINS) for chain in followed]
    question = "Do recent blocks join, do chains keep up?"
    recent = asset_job(CHECK_FACTS, dg.AssetSelection.checks(*facts), question, max_seconds=900)
    every_two_minutes = dg.ScheduleDefinition(
        job=recent,
        cron_schedule="*/2 * * * *",
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
    return dg.Definitions.merge(
        dg.Definitions(jobs=[recent], schedules=[every_two_minutes]),
        paced(CHECK_HISTORY, dg.AssetSelection.checks(*history), "Do all stored blocks join?"),
        paced(
            CHECK_PROJECTIONS,
            dg.AssetSelection.checks_for_assets(ORDER_BOOK, MOVEMENTS),
            "Does a refold of all facts equal the rows?",
        ),
    )


def paced(
    name: str,
    selection: dg.AssetSelection,
    question: str,
    max_interval: float = _DAY,
) -> dg.Definitions:
    """A job whose schedule starts it less often the longer it takes.

    `max_interval` in seconds: it starts at least that often.
    """

    @dg.schedule(
        name=f"{name}_schedule",
        job_name=name,
        cron_schedule="*/5 * * * *",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Every five minutes while that takes {SHARE:.0%} of the time, less often "
        f"when it would take more, every {max_interval / 3600:g} hours in any case.",
    )
    def schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        return next_check(context.instance, name, time.time(), max_interval)

    job = asset_job(name, selection, question, max_seconds=_DAY)
    return dg.Definitions(jobs=[job], schedules=[schedule])


def next_check(
    instance: dg.DagsterInstance, job: str, now: float, max_interval: float = _DAY
) -> dg.RunRequest | dg.SkipReason:
    """Start a check of all history, or say when it is due; `now` is in unix seconds."""
    records = instance.get_run_records(dg.RunsFilter(job_name=job), limit=1)
    if records and records[0].dagster_run.status in IN_FLIGHT:
        return dg.SkipReason("the last one is still under way")
    pause = seconds_until_due(records[0], now, max_interval) if records else 0.0
    return dg.SkipReason(f"again in {pause:.0f} s") if pause > 0 else dg.RunRequest()


def seconds_until_due(last: dg.RunRecord, now: float, max_interval: float = _DAY) -> float:
    """By how long the last check took; `now` is in unix seconds."""
    if last.start_time is None or last.end_time is None:
        return 0.0
    pause = min(max_interval, (last.end_time - last.start_time) / SHARE)
    return last.start_time + pause - now
