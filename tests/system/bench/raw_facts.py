"""Raw facts at scale: `facts.evm_logs` as it is, against native range partitions by height.

    ISTHMUS_BENCH_ROWS=50000000 ISTHMUS_BENCH_FOLDER=/srv python -m tests.system.bench raw_facts

Rows are generated: ERC-20 transfers of 20 a block, some 640 bytes each with their indexes. The
server is durable, on disk, with Debian's defaults but for `max_wal_size` and `shared_buffers`.
"""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import psycopg
from sqlalchemy.engine import make_url

from tests.system.bench.site import print_line
from warehouse_schema.embedded import EmbeddedPostgres
from warehouse_schema.migrate import migrate

CHAIN = "eip155:1"
PER_BLOCK = 20
BLOCKS_PER_DAY = 7_200
PARTITIONS = 10
BATCHES = 50
RUNS = 5
MIN_FREE = 25 * 2**30
"""Bytes of disk that the measurement leaves to others."""

_PARTITIONED = """
    CREATE SCHEMA bench;
    CREATE TABLE bench.evm_logs (
        LIKE facts.evm_logs INCLUDING DEFAULTS INCLUDING CONSTRAINTS,
        PRIMARY KEY (chain, height, position)
    ) PARTITION BY LIST (chain);
    CREATE TABLE bench.evm_logs_1 PARTITION OF bench.evm_logs FOR VALUES IN ('eip155:1')
        PARTITION BY RANGE (height);
"""
INSERT = """
    INSERT INTO {table}
        (chain, height, block_hash, tx_hash, position, block_time, address, topics, data, event)
    SELECT 'eip155:1', i / 20, '0x' || encode(sha256(int8send(i / 20)), 'hex'),
           '0x' || encode(sha256(int8send(-i)), 'hex'), i %% 20, 1600000000 + (i / 20) * 12,
           '0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48',
           ARRAY['0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef',
                 rpad('0x', 26, '0') || left(encode(sha256(int8send(i %% 9973)), 'hex'), 40),
                 rpad('0x', 26, '0') || left(encode(sha256(int8send(i %% 7919)), 'hex'), 40)],
           decode(lpad(to_hex(i), 64, '0'), 'hex'), 'TokenTransferred'
    FROM generate_series(%s::bigint, %s::bigint) AS i
"""
# What product code asks of raw tables. The api asks nothing of them.
_IN_RANGE = "chain = 'eip155:1' AND height >= %(first)s AND height < %(last)s"
STATEMENTS = {
    "reorg_of_20_blocks_ms": "DELETE FROM {table} WHERE chain = 'eip155:1' AND height >= %(reorg)s",
    "undecodable_of_day_ms": f"SELECT height, tx_hash, position FROM {{table}} WHERE {_IN_RANGE}"
    " AND undecodable IS NOT NULL",
    "export_day_ms": f"SELECT * FROM {{table}} WHERE {_IN_RANGE} ORDER BY height, position",
    "first_event_ms": "SELECT block_time FROM {table} WHERE chain = 'eip155:1'"
    " ORDER BY height LIMIT 1",
    "row_by_key_ms": "SELECT * FROM {table} WHERE chain = 'eip155:1' AND height = %(first)s"
    " AND position = 7",
}
"""`indexer/facts/store.py` (the first two), `analytics/export/tables.py`, `facts/days.py`, and a
look-up by the primary key, as each insertion makes one."""


def measure() -> dict[str, Any]:
    """Insert rate, times, sizes, and retention of a tenth, of both designs one after the other."""
    rows = int(os.environ.get("ISTHMUS_BENCH_ROWS", 1_000_000))
    figures: dict[str, Any] = {"rows": rows}
    with durable_server() as url:
        migrate(make_url(url))
        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as conn:
            figures["plain"] = _design(conn, "facts.evm_logs", rows)
            conn.execute("TRUNCATE facts.evm_logs")
            conn.execute(_PARTITIONED)
            step = -(-rows // PER_BLOCK // PARTITIONS)
            for number in range(PARTITIONS):
                bounds = f"FROM ({number * step}) TO ({(number + 1) * step})"
                conn.execute(
                    f"CREATE TABLE bench.evm_logs_1_{number}"
                    f" PARTITION OF bench.evm_logs_1 FOR VALUES {bounds}"
                )
            figures["partitioned"] = _design(conn, "bench.evm_logs", rows)
    return figures


@contextmanager
def durable_server() -> Iterator[str]:
    """URL of an empty database; its server writes to disk, and ends with the context."""
    folder = Path(mkdtemp(prefix="isthmus-bench-", dir=os.environ.get("ISTHMUS_BENCH_FOLDER")))
    folder.chmod(0o755)
    try:
        with EmbeddedPostgres(folder / "data") as server:
            url = server.url("isthmus")
            admin = server.url("postgres").replace("+psycopg", "")
            with psycopg.connect(admin, autocommit=True) as conn:
                conn.execute("ALTER SYSTEM SET max_wal_size = '4GB'")
                conn.execute("SELECT pg_reload_conf()")
            yield url
    finally:
        shutil.rmtree(folder)


def _design(conn: psycopg.Connection[Any], table: str, rows: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    rates = [_insert(conn, table, rows, number) for number in range(BATCHES)]
    figures["rows_per_s_first"] = round(sum(rates[:5]) / 5)
    figures["rows_per_s_last"] = round(sum(rates[-5:]) / 5)
    figures["insert_s"] = round(sum(rows / BATCHES / rate for rate in rates))
    figures["analyze_s"] = round(_timed(conn, f"VACUUM ANALYZE {table}")[1], 1)
    figures |= _sizes(conn, table)
    last_block = rows // PER_BLOCK
    day = max(0, last_block // 2 - BLOCKS_PER_DAY)
    bounds = {"first": day, "last": day + BLOCKS_PER_DAY, "reorg": last_block - 20}
    for name, statement in STATEMENTS.items():
        query = statement.format(table=table)
        figures[name] = _milliseconds(conn, query, bounds)
    figures |= _retention(conn, table, last_block // PARTITIONS)
    print_line(f"{table}: {figures}")
    return figures


def _insert(conn: psycopg.Connection[Any], table: str, rows: int, number: int) -> float:
    if shutil.disk_usage(os.environ.get("ISTHMUS_BENCH_FOLDER", "/tmp")).free < MIN_FREE:
        raise RuntimeError(f"less than {MIN_FREE} bytes of disk left after {number} batches")
    size = rows // BATCHES
    _, seconds = _timed(conn, INSERT.format(table=table), [number * size, (number + 1) * size - 1])
    print_line(f"{table}: batch {number + 1} of {BATCHES}, {size / seconds:.0f} rows/s")
    return size / seconds


def _timed(conn: psycopg.Connection[Any], query: str, args: Any = None) -> tuple[Any, float]:
    began = time.monotonic()
    cursor = conn.execute(query, args)
    rows = cursor.fetchall() if cursor.description else cursor.rowcount
    return rows, time.monotonic() - began


def _milliseconds(conn: psycopg.Connection[Any], query: str, args: Any) -> float:
    """The median of some runs, each rolled back."""
    times = []
    for _ in range(RUNS):
        with conn.transaction(force_rollback=True):
            times.append(_timed(conn, query, args)[1])
    return round(1000 * sorted(times)[RUNS // 2], 2)


def _sizes(conn: psycopg.Connection[Any], table: str) -> dict[str, int]:
    query = """
        SELECT coalesce(sum(pg_table_size(relid)), 0)::bigint,
               coalesce(sum(pg_indexes_size(relid)), 0)::bigint
        FROM pg_partition_tree(%s)
    """
    row = conn.execute(query, [table]).fetchone()
    if row is None or row[0] == 0:
        row = conn.execute("SELECT pg_table_size(%s), pg_indexes_size(%s)", [table] * 2).fetchone()
    assert row is not None
    return {"table_mb": row[0] >> 20, "indexes_mb": row[1] >> 20}


def _retention(conn: psycopg.Connection[Any], table: str, below: int) -> dict[str, Any]:
    """Removes the oldest tenth: as rows, or as a partition."""
    if table == "bench.evm_logs":
        _, detach = _timed(conn, "ALTER TABLE bench.evm_logs_1 DETACH PARTITION bench.evm_logs_1_0")
        _, drop = _timed(conn, "DROP TABLE bench.evm_logs_1_0")
        return {"detach_s": round(detach, 3), "drop_s": round(drop, 3)}
    _, removed = _timed(
        conn, f"DELETE FROM {table} WHERE chain = 'eip155:1' AND height < %s", [below]
    )
    before = conn.execute("SELECT pg_total_relation_size(%s)", [table]).fetchone()
    _, vacuum = _timed(conn, f"VACUUM {table}")
    after = conn.execute("SELECT pg_total_relation_size(%s)", [table]).fetchone()
    assert before is not None
    assert after is not None
    freed = (before[0] - after[0]) >> 20
    return {"delete_s": round(removed, 1), "vacuum_s": round(vacuum, 1), "freed_mb": freed}
