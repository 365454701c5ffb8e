"""Backfill: ranges behind the follower, read for the first time or again.

A range is read in chunks, some ahead of the writer: each is read, decoded, and made into COPY text.
Each chunk is committed in a transaction that replaces what was stored there and saves the progress.
A killed backfill continues after the last commit; running it again writes the same rows. A backfill
stays below what a reorg can still reach, so it never meets the follower.

`backfill` runs in one process. `plan_spans`, `ingest_span` and `finish_backfill` do the same for an
orchestrator with several processes. A span is a part of the range with a progress of its own
(`facts.backfills`); its chunks are committed in order, and spans beside each other, so no process
waits for another, and no disk is shared. Why: docs/decisions/backfill-spans.md.

| module | what |
|---|---|
| `chunks.py` | a chunk, made from a reader's range |
| `fetch.py` | chunks from nodes: range size, retries, several at once |
| `commit.py` | chunks into the warehouse, then their movements |
| `progress.py` | progress, rates, time left |
| `run.py` | entry points |
"""

from indexer.ingest.backfill.progress import BackfillProgress as BackfillProgress
from indexer.ingest.backfill.run import Span as Span
from indexer.ingest.backfill.run import backfill as backfill
from indexer.ingest.backfill.run import finish_backfill as finish_backfill
from indexer.ingest.backfill.run import ingest_span as ingest_span
from indexer.ingest.backfill.run import plan_spans as plan_spans
