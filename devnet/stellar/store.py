"""The devnet's memory on disk: one SQLite transaction a ledger, so that kill -9 loses no ledger.

A ledger's meta and the state entries that it changed are written together. Transactions that wait
for a ledger are not kept, as with a real node.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS chain (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS ledgers (sequence INTEGER PRIMARY KEY, meta BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, entry BLOB NOT NULL) WITHOUT ROWID;
"""


class OtherChain(Exception):
    """The directory holds a chain that began differently."""


class Store:
    """A chain in a directory. Not thread-safe: the node's lock guards it."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(
            directory / "stellar-devnet.sqlite", check_same_thread=False, isolation_level=None
        )
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.executescript(_SCHEMA)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def claim(self, genesis: str) -> None:
        """Bind the directory to a genesis; raise `OtherChain` if it is bound to another."""
        known = self._connection.execute("SELECT value FROM chain WHERE name = 'genesis'")
        row = known.fetchone()
        if row is None:
            self._connection.execute("INSERT INTO chain VALUES ('genesis', ?)", (genesis,))
        elif row[0] != genesis:
            raise OtherChain(f"this directory holds a chain of another genesis: {row[0]}")

    def entries(self) -> dict[bytes, bytes]:
        """Every live state entry."""
        return dict(self._connection.execute("SELECT key, entry FROM entries"))

    def metas(self) -> Iterator[bytes]:
        """LedgerCloseMeta XDR of every ledger, oldest first."""
        rows = self._connection.execute("SELECT meta FROM ledgers ORDER BY sequence")
        return (meta for (meta,) in rows)

    def append(self, sequence: int, meta: bytes, writes: Mapping[bytes, bytes | None]) -> None:
        """Add one ledger and what it changed; durable when this returns."""
        gone = [(key,) for key, entry in writes.items() if entry is None]
        live = [(key, entry) for key, entry in writes.items() if entry is not None]
        run = self._connection
        run.execute("BEGIN IMMEDIATE")
        try:
            run.execute("INSERT INTO ledgers VALUES (?, ?)", (sequence, meta))
            run.executemany("DELETE FROM entries WHERE key = ?", gone)
            run.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", live)
            run.execute("COMMIT")
        except sqlite3.Error:
            run.execute("ROLLBACK")
            raise
