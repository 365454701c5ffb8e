"""What a warehouse holds, in one canonical form of bytes, and how two of them differ.

Postgres itself writes each row as JSON, so that nothing of the code under test stands between the
rows and the comparison. Rows are sorted; the outbox keeps its order, which is what its readers see.

Left out, because a crash may change them and nothing else may:

- columns that Postgres fills from its own clock or counter (`updated_at`, identities): a
  transaction that was lost has used up numbers;
- `facts.orphans` and `facts.alarms`: they tell the story of the run. Orphans are checked in their
  own right (`orphan_problems`);
- `facts.changed_days`: how often a reorganisation reached a day is the run's story too;
- `projections.transfer_events`: through which stages a transfer was seen to come is the run's too;
- the daily figures: only Dagster computes them, if the run lasts over a midnight;
- `projections.reconciliation`: only Dagster looks, every five minutes, if the run lasts over one;
- `facts.message_polls`: when services are asked again, by the machine's clock;
- why a cursor's node could not be read last, and what it is ready for: the run's story too;
- a cursor's safe and final heights: `drain_once` does not record them. They are held against the
  chain itself (`finality_problems`).
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import psycopg
from psycopg import sql
from sqlalchemy import DateTime, Table

import warehouse_schema.facts
import warehouse_schema.intake
import warehouse_schema.projections
import warehouse_schema.relay  # noqa: F401
from warehouse_schema.metadata import LOCKS, NOTIFICATIONS, metadata

_LEFT_OUT = {
    *("facts.orphans", "facts.alarms", "facts.changed_days", "facts.message_polls"),
    "projections.reconciliation",
    *(
        f"projections.{name}"
        for name in (
            "transfer_events",
            "provider_days",
            "market_days",
            "route_days",
            "days_done",
            "day_blocks",
        )
    ),
}
_LEFT_OUT_COLUMNS = {"facts.cursors": {"safe_height", "final_height", "failure", "protocol_ahead"}}
_IN_ORDER = {"projections.stream_events": "id"}
"""Tables whose order counts, and the column that gives it."""

SHOWN = 20
"""Differences that are told of one run."""


@dataclass(frozen=True)
class Contents:
    """Rows by table, each row the JSON text that Postgres made of it."""

    rows: Mapping[str, tuple[str, ...]]

    def as_bytes(self) -> bytes:
        """The whole of it, in its one canonical form."""
        return json.dumps(self.rows, sort_keys=True, indent=0).encode()

    def __len__(self) -> int:
        return sum(map(len, self.rows.values()))


def read_contents(url: str) -> Contents:
    """Everything that has to be the same, in one snapshot. `url` is libpq's."""
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        tables = {each.fullname: each for each in metadata.sorted_tables}
        return Contents(
            {
                name: _rows(connection, table)
                for name, table in sorted(tables.items())
                if name not in _LEFT_OUT and table.schema not in (LOCKS, NOTIFICATIONS)
            }
        )


def _rows(connection: psycopg.Connection, table: Table) -> tuple[str, ...]:
    dropped = sorted(_of_the_database(table) | _LEFT_OUT_COLUMNS.get(table.fullname, set()))
    order = _IN_ORDER.get(table.fullname)
    query = sql.SQL("SELECT (to_jsonb(t) - %s::text[])::text FROM {} AS t {}").format(
        sql.Identifier(str(table.schema), table.name),
        sql.SQL("") if order is None else sql.SQL("ORDER BY {}").format(sql.Identifier(order)),
    )
    rows = tuple(row[0] for row in connection.execute(query, (dropped,)))
    return rows if order is not None else tuple(sorted(rows))


def _of_the_database(table: Table) -> set[str]:
    """Columns that Postgres fills from a clock or a counter of its own."""
    return {
        column.name
        for column in table.columns
        if isinstance(column.type, DateTime) or column.identity is not None
    }


def differences(found: Contents, straight: Contents) -> list[str]:
    """Where `found` is not `straight`, a sentence for each row; empty when the bytes are equal."""
    told = [
        sentence
        for table in sorted({*found.rows, *straight.rows})
        for sentence in _differences(table, found.rows.get(table, ()), straight.rows.get(table, ()))
    ]
    if bool(told) != (found.as_bytes() != straight.as_bytes()):
        raise AssertionError("rows and bytes disagree on whether there is a difference")
    return told


def _differences(table: str, found: tuple[str, ...], straight: tuple[str, ...]) -> Iterator[str]:
    lost = Counter(straight) - Counter(found)
    extra = Counter(found) - Counter(straight)
    for row in sorted(lost.elements()):
        yield f"{table}: lost {row}"
    for row in sorted(extra.elements()):
        yield f"{table}: not in the straight run {row}"
    if not lost and not extra and found != straight:
        first = next(
            n for n, pair in enumerate(zip(found, straight, strict=True)) if len({*pair}) > 1
        )
        yield f"{table}: row {first} is out of order: {found[first]}"


# What is not compared row by row


@dataclass(frozen=True)
class Tip:
    """A chain's last block, and the heights up to which it calls blocks safe and final."""

    chain: str
    height: int
    block_hash: str
    safe: int
    final: int


def finality_problems(url: str, tips: tuple[Tip, ...]) -> list[str]:
    """Cursors that do not say what their chain does, in sentences."""
    with psycopg.connect(url) as connection:
        found = {
            row[0]: Tip(*row)
            for row in connection.execute(
                "SELECT chain, height, block_hash, safe_height, final_height FROM facts.cursors"
            )
        }
    return [
        f"facts.cursors: {found.get(tip.chain)}, the chain says {tip}"
        for tip in tips
        if found.get(tip.chain) != tip
    ]


def read_orphans(url: str) -> list[tuple[str, int, str, str]]:
    """Chain, height, block hash and transaction of every raw event that was taken back."""
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT chain, height, block_hash, tx_hash FROM facts.orphans ORDER BY 1, 2, 3, 4"
        ).fetchall()


def orphan_problems(
    orphans: list[tuple[str, int, str, str]], hashes: Mapping[str, Mapping[int, str]]
) -> list[str]:
    """Orphans that lie on the final chain after all. `hashes`: chain → height → block hash."""
    return [
        f"facts.orphans: {tx} at {height} of {chain} is an orphan, and its block {block} stands"
        for chain, height, block, tx in orphans
        if hashes.get(chain, {}).get(height) == block
    ]
