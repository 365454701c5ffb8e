"""Three forms of raw logs: rows of their own, columns of the decoded rows, compressed batches.

The same generated transfers of a token are stored as chunks of a backfill, one transaction each:

- `two_tables`: raw and decoded rows, as the product does;
- `one_table`: decoded rows with the columns `topics` and `data`;
- `batches`: decoded rows, and the chunk's raw logs as one Arrow file in zstd.

For each form: processor time of the connection's Postgres process, the median of the rounds, which
take turns; and size on disk with indexes after the last. `text_s` and `compress_s` are this side's
processor time for the raw logs alone: their COPY text, and the batches.
"""

import hashlib
import io
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import polars as pl
import psycopg
from sqlalchemy.engine import make_url

from indexer.chains.evm.abi import TRANSFER_TOPIC
from indexer.chains.evm.history import LOG_COLUMNS
from indexer.config.networks import load_network
from indexer.facts.columns_copy import CopyText, text_of_frame
from indexer.facts.columns_decode import decode_frame
from tests.system.bench.processor import processor_seconds
from tests.system.bench.raw_facts import durable_server
from tests.system.bench.site import print_line
from warehouse_schema.facts import evm_logs
from warehouse_schema.migrate import migrate

LOGS = 100_800
PER_BLOCK = 252
PER_CHUNK = 24 * PER_BLOCK
ROUNDS = 5
_TABLES = """
    CREATE SCHEMA bench;
    CREATE TABLE bench.raw (LIKE facts.evm_logs INCLUDING ALL);
    CREATE TABLE bench.decoded (LIKE facts.erc20_transfers INCLUDING ALL);
    CREATE TABLE bench.both (LIKE facts.erc20_transfers INCLUDING ALL);
    ALTER TABLE bench.both ADD topics text[] NOT NULL, ADD data bytea NOT NULL;
    CREATE TABLE bench.batches (first bigint PRIMARY KEY, logs bytea NOT NULL);
    -- A batch is compressed already.
    ALTER TABLE bench.batches ALTER logs SET STORAGE external;
"""
_NAMES = ("raw", "decoded", "both", "batches")


@dataclass(frozen=True, slots=True)
class _Chunk:
    first: int
    raw: CopyText
    decoded: CopyText
    both: CopyText
    batch: bytes
    text_seconds: float
    compress_seconds: float


def measure() -> dict[str, Any]:
    """What the module's docstring says."""
    chunks = [_chunk(first) for first in range(0, LOGS, PER_CHUNK)]
    forms: Mapping[str, Callable[[psycopg.Connection[Any], _Chunk], None]] = {
        "two_tables": lambda conn, chunk: _copy(conn, chunk.raw, chunk.decoded),
        "one_table": lambda conn, chunk: _copy(conn, chunk.both),
        "batches": _copy_with_batch,
    }
    seconds: dict[str, list[float]] = {name: [] for name in forms}
    sizes: dict[str, int] = {}
    with durable_server() as url:
        migrate(make_url(url))
        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as conn:
            conn.execute(_TABLES)
            for number in range(ROUNDS):
                for name, store in forms.items():
                    conn.execute(f"TRUNCATE {', '.join(f'bench.{each}' for each in _NAMES)}")
                    seconds[name].append(_backend_seconds(conn, store, chunks))
                    sizes[name] = _size(conn)
                print_line(f"round {number + 1} of {ROUNDS}: {seconds}")
    return {
        "logs": LOGS,
        **{
            name: {"postgres_cpu_s": round(median(seconds[name]), 2), "mb": sizes[name] >> 20}
            for name in forms
        },
        "text_s": round(sum(chunk.text_seconds for chunk in chunks), 2),
        "compress_s": round(sum(chunk.compress_seconds for chunk in chunks), 2),
        "rounds": ROUNDS,
    }


def _chunk(first: int) -> _Chunk:
    (chain,) = load_network("devnet").evm
    logs = _logs(first, str(chain.usdc))
    found = decode_frame(logs, chain)
    raw, decoded = found.copies
    batch = io.BytesIO()
    began = time.process_time()
    text_of_frame(evm_logs, logs)
    written = time.process_time()
    logs.write_ipc(batch, compression="zstd")
    compressed = time.process_time()
    both = _joined(raw, decoded)
    return _Chunk(
        first, raw, decoded, both, batch.getvalue(), written - began, compressed - written
    )


def _logs(first: int, token: str) -> pl.DataFrame:
    """Transfers of random amounts and hashes, as columns of a range of blocks."""
    rows = [
        {
            "height": number // PER_BLOCK,
            "block_hash": _word("block", number // PER_BLOCK),
            "tx_hash": _word("transaction", number),
            "position": number % PER_BLOCK,
            "block_time": 1_700_000_000 + number // PER_BLOCK,
            "address": token,
            "topics": [TRANSFER_TOPIC, _party("sender", number), _party("recipient", number)],
            "data": f"0x{int(_word('amount', number)[-8:], 16):064x}",
        }
        for number in range(first, min(first + PER_CHUNK, LOGS))
    ]
    return pl.DataFrame(rows, schema=LOG_COLUMNS)


def _word(kind: str, number: int) -> str:
    return "0x" + hashlib.sha256(f"{kind} {number}".encode()).hexdigest()


def _party(kind: str, number: int) -> str:
    """A topic of one of ten thousand accounts."""
    return "0x" + "0" * 24 + _word(kind, number * 7919 % 10_000)[-40:]


def _joined(raw: CopyText, decoded: CopyText) -> CopyText:
    """The decoded rows with topics and data of their raw logs."""
    places = [raw.columns.index(name) for name in ("topics", "data")]
    lines = []
    for raw_line, line in zip(raw.text.splitlines(), decoded.text.splitlines(), strict=True):
        fields = raw_line.split(b"\t")
        lines.append(b"\t".join([line, *(fields[place] for place in places)]))
    columns = (*decoded.columns, "topics", "data")
    return CopyText("both", columns, decoded.rows, b"\n".join(lines) + b"\n")


def _copy(conn: psycopg.Connection[Any], *copies: CopyText) -> None:
    tables = {"evm_logs": "raw", "erc20_transfers": "decoded", "both": "both"}
    for each in copies:
        statement = f"COPY bench.{tables[each.table]} ({', '.join(each.columns)}) FROM STDIN"
        with conn.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(each.text)


def _copy_with_batch(conn: psycopg.Connection[Any], chunk: _Chunk) -> None:
    _copy(conn, chunk.decoded)
    conn.execute("INSERT INTO bench.batches VALUES (%s, %s)", [chunk.first, chunk.batch])


def _backend_seconds(
    conn: psycopg.Connection[Any],
    store: Callable[[psycopg.Connection[Any], _Chunk], None],
    chunks: list[_Chunk],
) -> float:
    before = processor_seconds(conn.info.backend_pid)
    for chunk in chunks:
        with conn.transaction():
            store(conn, chunk)
    return processor_seconds(conn.info.backend_pid) - before


def _size(conn: psycopg.Connection[Any]) -> int:
    """Bytes of the tables with their indexes."""
    query = "SELECT sum(pg_total_relation_size('bench.' || name)) FROM unnest(%s::text[]) AS name"
    row = conn.execute(query, [list(_NAMES)]).fetchone()
    assert row is not None
    return int(row[0])
