"""Chunks that wait on disk for their turn, in the order in which they came.

The file has no name: it is gone with the process that wrote it, however that ends, and nobody ever
reads what an older build left behind. Each chunk is one JSON line that describes it, then the text
of its rows, compressed together.
"""

import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import orjson
import zstandard

from indexer.errors import ConfigurationError
from indexer.facts.columns_copy import CopyText
from indexer.ingest.backfill.chunks import Chunk, MovementKeys

MAX_BYTES = 1024 * 1024 * 1024
"""Of chunks that wait, beyond which nothing more is fetched until the turn has come."""

_LEVEL = 1
"""Hex halves at any level; a higher one costs more than the disk does."""
_PLAIN = ("chain", "first", "last", "parent_hash", "hash", "events", "read", "undecodable")


class ChunkQueue:
    """First in, first out. For one thread."""

    def __init__(self, file: IO[bytes], folder: Path) -> None:
        self._file = file
        self._folder = folder
        self._sizes: deque[int] = deque()
        self._end = 0

    @property
    def is_full(self) -> bool:
        """Whether no more should be put in."""
        return self._end >= MAX_BYTES

    def put(self, chunk: Chunk) -> None:
        """Keep a chunk. Raises `ConfigurationError` when the disk does not take it."""
        packed = zstandard.compress(_text_of(chunk), level=_LEVEL)
        try:
            self._file.seek(self._end)
            self._file.write(packed)
            self._file.flush()
        except OSError as error:
            raise ConfigurationError(
                f"chunks that wait for their turn cannot be kept in {self._folder}: {error}"
            ) from error
        self._sizes.append(len(packed))
        self._end += len(packed)

    def taken(self) -> Iterator[Chunk]:
        """All that was put in, oldest first; then the disk is free again."""
        at = 0
        while self._sizes:
            size = self._sizes.popleft()
            self._file.seek(at)
            yield _chunk_of(zstandard.decompress(self._file.read(size)))
            at += size
        self._file.truncate(0)
        self._end = 0


@contextmanager
def open_queue(folder: Path) -> Iterator[ChunkQueue]:
    """A spool in a folder, which is made if it is absent. Raises `ConfigurationError`."""
    with ExitStack() as kept:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = kept.enter_context(tempfile.TemporaryFile(dir=folder))
        except OSError as error:
            raise ConfigurationError(f"chunks cannot be kept in {folder}: {error}") from error
        yield ChunkQueue(file, folder)


def _text_of(chunk: Chunk) -> bytes:
    movements = chunk.movements
    described = {
        **{name: getattr(chunk, name) for name in _PLAIN},
        "movements": None
        if movements is None
        else {"burn_keys": sorted(movements.burn_keys), "guids": sorted(movements.guids)},
        "copies": [
            {"table": c.table, "columns": c.columns, "rows": c.rows, "size": len(c.text)}
            for c in chunk.copies
        ],
    }
    return b"".join([orjson.dumps(described), b"\n", *(copied.text for copied in chunk.copies)])


def _chunk_of(text: bytes) -> Chunk:
    head, _, rows = text.partition(b"\n")
    described: dict[str, Any] = orjson.loads(head)
    movements = described["movements"]
    copies, at = [], 0
    for copied in described["copies"]:
        end = at + copied["size"]
        copies.append(
            CopyText(copied["table"], tuple(copied["columns"]), copied["rows"], rows[at:end])
        )
        at = end
    return Chunk(
        **{
            **{name: described[name] for name in _PLAIN},
            "undecodable": tuple((what, why) for what, why in described["undecodable"]),
        },
        movements=None
        if movements is None
        else MovementKeys(frozenset(movements["burn_keys"]), frozenset(movements["guids"])),
        copies=tuple(copies),
    )
