"""One JSON line a figure on standard output; everything else goes to standard error.

    python -m tests.system.bench [NAME …]

Figures are measured on the machine as it is: whatever else runs on it is in them.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.system.bench import (
    api_visible,
    auth_request,
    backfill_workers,
    beside_peers,
    book_rebuild,
    deposit_gas,
    evm_backfill,
    evm_head_latency,
    follower_idle,
    follower_recovery,
    notify,
    orderbook,
    page_paint,
    raw_facts,
    raw_forms,
    redecode,
    sep10_login,
    start_up,
    stellar_lake,
    stellar_ledgers,
    stream_fanout,
    submission_verify,
    synchronous_commit,
    takeover,
    transfer_create,
    transfer_progress,
    transfers_sustained,
    watched_accounts,
)
from tests.system.bench.site import print_line

FIGURES: dict[str, Callable[[], dict[str, Any]]] = {
    "evm_head_latency": evm_head_latency.measure,
    "evm_backfill": evm_backfill.measure,
    "evm_backfill_4x": evm_backfill.measure_4x,
    "backfill_workers": backfill_workers.measure,
    "api_visible": api_visible.measure,
    "follower_idle": follower_idle.measure,
    "orderbook_get": orderbook.measure_get,
    "orderbook_get_gzip": orderbook.measure_get_gzip,
    "orderbook_304": orderbook.measure_304,
    "summary_get": orderbook.measure_summary,
    "provider_get": orderbook.measure_provider,
    "intent_get": orderbook.measure_intent,
    "page_paint": page_paint.measure,
    "auth_request": auth_request.measure,
    "sep10_login": sep10_login.measure,
    "stream_fanout": stream_fanout.measure,
    "notify": notify.measure,
    "transfer_create": transfer_create.measure,
    "transfer_progress": transfer_progress.measure,
    "transfers_sustained": transfers_sustained.measure,
    "follower_recovery_s": follower_recovery.measure,
    "takeover": takeover.measure,
    "start_up": start_up.measure,
    "stellar_lake_miss": stellar_lake.measure_miss,
    "stellar_lake_hit": stellar_lake.measure_hit,
    "stellar_ledgers": stellar_ledgers.measure,
    "stellar_ledgers_behind": stellar_ledgers.measure_behind,
    "stellar_ledgers_beside_gets": stellar_ledgers.measure_beside_gets,
    "book_rebuild": book_rebuild.measure,
    "deposit_gas": deposit_gas.measure,
    "submission_verify": submission_verify.measure,
    "synchronous_commit": synchronous_commit.measure,
    "raw_facts": raw_facts.measure,
    "raw_forms": raw_forms.measure,
    "redecode": redecode.measure,
    "watched_accounts": watched_accounts.measure,
    "beside_subsquid": beside_peers.measure_subsquid,
    "beside_subsquid_with_projections": beside_peers.measure_projections,
    "beside_ponder": beside_peers.measure_ponder,
}


def main(names: Sequence[str]) -> int:
    """Measure the named figures, all when none is named; 2 for a name that is none."""
    unknown = sorted(set(names) - set(FIGURES))
    if unknown:
        print_line(f"no figure {', '.join(unknown)}; there are {', '.join(FIGURES)}")
        return 2
    for name in names or FIGURES:
        print_line(f"measuring {name}")
        began = time.monotonic()
        figure = FIGURES[name]()
        print_line(f"{name} took {time.monotonic() - began:.0f} s")
        print(json.dumps({"name": name, **figure}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
