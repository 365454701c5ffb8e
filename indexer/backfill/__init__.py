"""Reading ranges that lie behind the follower: history before its start, or a range read anew.

A range is read in chunks. Any thread, process or machine fetches one: reads it, decodes it, and
makes the text that Postgres takes. One writer commits them in order, each in a transaction of its
own that replaces whatever was stored there and says how far the backfill is. Killed anywhere, it
goes on after the last commit; run again once it is finished, it writes the same rows.

`backfill` does both in one process, some chunks ahead. `plan_chunks`, `fetch_chunk` and
`commit_chunks` are the same steps for an orchestrator that hands them out, with files between.

A backfill never meets the live follower: it stays below what a chain can still take back.

| module | what |
|---|---|
| `chunks.py` | a chunk, and how it is made from what a reader gives |
| `fetch.py` | chunks from nodes: how wide, how often tried, several at once |
| `spool.py` | a chunk as a file |
| `commit.py` | chunks into the warehouse, and movements after them |
| `progress.py` | how far, how fast, how long still |
| `run.py` | the ways in |
"""

from indexer.backfill.progress import BackfillProgress as BackfillProgress
from indexer.backfill.run import backfill as backfill
from indexer.backfill.run import commit_chunks as commit_chunks
from indexer.backfill.run import fetch_chunk as fetch_chunk
from indexer.backfill.run import plan_chunks as plan_chunks
from indexer.backfill.run import watched_on as watched_on
