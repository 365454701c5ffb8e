"""The primary is killed under load and the standby promoted as docs/operations/failover.md says.

API, followers, attester, keeper, relay and webhook sender on local chains; played transfers of all
kinds, owners that start transfers all the time, streams and webhooks. One JSON line of figures.
`ISTHMUS_FAILOVER_TRANSFERS` plays more transfers.
"""

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.system.chaos.bare import await_head
from tests.system.chaos.processes import Nursery
from tests.system.chaos.site import TEMPLATE
from tests.system.chaos.transfers.outcome import Run
from tests.system.chaos.transfers.run import Stage, staged
from tests.system.failover.findings import (
    Broadcasts,
    lost_acknowledgements,
    numbers_sent_twice,
    unknown_broadcasts,
    wrong_facts,
)
from tests.system.failover.load import OWNERS, Load, Streams
from tests.system.failover.nodes import Pair, running_pair
from warehouse_schema.engine import warehouse_url
from warehouse_schema.migrate import migrate

TRANSFERS = int(os.environ.get("ISTHMUS_FAILOVER_TRANSFERS", 16))
SEED = 15
STALL_SECONDS = 120.0
"""Timeout without progress."""
_POLL_SECONDS = 0.05


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="isthmus-failover-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def await_progress(what: str, is_done, progress) -> None:
    """Until it is done; the deadline moves as long as `progress` changes."""
    deadline, last = time.monotonic() + STALL_SECONDS, progress()
    while not is_done():
        if (now := progress()) != last:
            deadline, last = time.monotonic() + STALL_SECONDS, now
        assert time.monotonic() < deadline, f"{what}: no progress from {last}"
        time.sleep(_POLL_SECONDS)


def is_ready(api_url: str) -> bool:
    """Whether the API answers."""
    try:
        return httpx.get(f"{api_url}/healthz", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def fail_over(
    pair: Pair,
    stage: Stage,
    load: Load,
    broadcasts: Broadcasts,
    beside: Sequence[Future[None]],
) -> dict[str, float]:
    """Kill and promote in mid-load; seconds until each was done and writes went on."""

    def acknowledged() -> tuple[int, int, int]:
        for each in beside:
            if each.done():
                each.result()
        return len(load.acknowledged), len(stage.played), len(stage.mischief.submitted)

    def is_loaded() -> bool:
        """Transfers are begun, money is under way, and the relay has signed."""
        begun = len(stage.played) >= len(stage.casts) // 4 and len(stage.mischief.submitted) > 1
        return begun and len(broadcasts.signed) > 2 and len(load.acknowledged) > 2 * OWNERS

    await_progress("load", is_loaded, acknowledged)
    before = acknowledged()[0]
    sent = len({*broadcasts.signed})
    killed = time.monotonic()
    processes = pair.kill_all()
    pair.promote()
    promoted = time.monotonic() - killed
    await_progress(
        "writes", lambda: any(each.at > killed for each in load.acknowledged[before:]), acknowledged
    )
    first = min(each.at for each in load.acknowledged[before:] if each.at > killed)
    pair.make_standby()
    return {
        "processes_killed": processes,
        "acknowledged_before": before,
        "broadcasts_before": sent,
        "promoted_s": round(promoted, 1),
        "writes_again_s": round(first - killed, 1),
        "standby_again_s": round(time.monotonic() - killed, 1),
    }


def forget_one_of_each(url: str, load: Load) -> None:
    """What a primary without a synchronous standby would lose: the comparisons must see it."""
    with psycopg.connect(url) as conn:
        conn.execute(
            "DELETE FROM intake.transfers WHERE id = %s", (load.acknowledged[-1].transfer,)
        )
        conn.execute("DELETE FROM relay.attempts WHERE id = (SELECT max(id) FROM relay.attempts)")


@pytest.mark.timeout(900)
def test_failover_under_load_loses_and_doubles_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, load, streams, broadcasts = Run(SEED), Load(), Streams(), Broadcasts()
    over = threading.Event()
    with running_pair(folder) as pair, closing(Nursery(folder / "nursery.log")) as nursery:
        migrate(warehouse_url(pair.url(TEMPLATE)))
        with staged(folder, pair, nursery, SEED, TRANSFERS, run) as stage:
            opened = stage.chains.stellar.latest.sequence
            stage.nodes.evm.watch = stage.nodes.stellar.watch = broadcasts.watch
            with ThreadPoolExecutor(OWNERS + TRANSFERS + 1) as pool:
                playing = pool.submit(stage.play, in_peace=True)
                await_progress("start", lambda: is_ready(stage.api_url), playing.done)
                beside = [
                    pool.submit(load.start_transfers, stage, f"load {number}", over)
                    for number in range(OWNERS)
                ]
                followed = [each.name for each in stage.casts[1::4]]
                beside += [pool.submit(streams.follow, stage, name, over) for name in followed]
                try:
                    figures = fail_over(pair, stage, load, broadcasts, beside)
                    await_progress(
                        "transfers", playing.done, lambda: (len(stage.shown), len(stage.played))
                    )
                finally:
                    over.set()
                playing.result()
                for each in beside:
                    each.result()
            stage.judge()
            ends = stage.ends()
            assert await_head(stage.warehouse, stage.chains, lambda: None) is None
            for process in stage.crew.processes.values():
                process.kill()
            rows, facts = wrong_facts(pair, stage.warehouse, stage, opened)
            lost = [*lost_acknowledgements(stage.warehouse, load, stage)]
            unknown = unknown_broadcasts(stage.warehouse, broadcasts)
            twice = numbers_sent_twice(stage.warehouse, broadcasts)
            of_streams = [*streams.problems(ends)]
            forget_one_of_each(stage.warehouse, load)
            assert len([*lost_acknowledgements(stage.warehouse, load, stage)]) == len(lost) + 1
            assert len(unknown_broadcasts(stage.warehouse, broadcasts)) > len(unknown)
            places = stage.hooks.places.values()
            posts = [len(place.taken) for place in places]
            once = [len(place.first_taken) for place in places]
    figures |= {
        "transfers": run.transfers,
        "transfers_acknowledged": len(load.acknowledged) + len(stage.played),
        "submissions_acknowledged": len(stage.mischief.submitted),
        "acknowledged_lost": len(lost),
        "broadcasts": len({*broadcasts.signed}),
        "broadcasts_unknown": len(unknown),
        "numbers_sent_twice": len(twice),
        "paid_too_little": len(run.lost),
        "paid_twice": len(run.double),
        "facts_compared": rows,
        "facts_different": len(facts),
        "stream_events": sum(map(len, streams.sent.values())),
        "stream_problems": len(of_streams),
        "webhook_events": sum(once),
        "webhook_repeats": sum(posts) - sum(once),
    }
    with capsys.disabled():
        sys.stdout.write(f"\n{json.dumps({'name': 'failover', **figures})}\n")
    found = [*run.problems, *lost, *unknown, *twice, *facts, *of_streams]
    assert not found, "\n".join(found)
    assert len(load.acknowledged) > figures["acknowledged_before"] > 0
    assert broadcasts.signed
    assert sum(once) > 0
