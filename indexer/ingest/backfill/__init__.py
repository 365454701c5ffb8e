"""Reading ranges that lie behind the follower: history before its start, or a range read anew.

A range is read in chunks, some ahead of the writer: a chunk is read, decoded, and made into the
text that Postgres takes. They are committed in order, each in a transaction of its own that
replaces whatever was stored there and says how far the backfill is. Killed anywhere, it goes on
after the last commit; run again once it is finished, it writes the same rows.

`backfill` does it in one process. `plan_spans`, `ingest_span` and `finish_backfill` do the same for
an orchestrator with several processes: each reads and decodes a span beside the others, and commits
it when the warehouse says that all spans below are in.

A backfill never meets the live follower: it stays below what a chain can still take back.

| module | what |
|---|---|
| `chunks.py` | a chunk, and how it is made from what a reader gives |
| `fetch.py` | chunks from nodes: how wide, how often tried, several at once |
| `spool.py` | chunks that wait on disk for their turn |
| `turns.py` | whose turn it is |
| `commit.py` | chunks into the warehouse, and movements after them |
| `progress.py` | how far, how fast, how long still |
| `run.py` | the ways in |
"""

from indexer.ingest.backfill.progress import BackfillProgress as BackfillProgress
from indexer.ingest.backfill.run import Span as Span
from indexer.ingest.backfill.run import backfill as backfill
from indexer.ingest.backfill.run import finish_backfill as finish_backfill
from indexer.ingest.backfill.run import ingest_span as ingest_span
from indexer.ingest.backfill.run import plan_spans as plan_spans
