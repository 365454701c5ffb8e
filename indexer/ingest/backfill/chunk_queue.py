"""Queue on disk for chunks that wait until earlier spans are committed.

The file is anonymous: it disappears with its process, so no build reads what an older one left.
Each chunk is one JSON line that describes it, then the text of its rows, compressed together.
Reasons and measurements: docs/decisions/backfill-chunk-queue.md.
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
from indexer.ingest.backfill.chunks import Chunk

MAX_BYTES = 1024 * 1024 * 1024
"""Size beyond which nothing more is fetched."""

_LEVEL = 1
"""Hex halves at any level; a higher one costs more than the disk does."""
_PLAIN_FIELDS = ("chain", "first", "last", "parent_hash", "hash", "events", "read", "undecodable")


class ChunkQueue:
    """First in, first out. For one thread."""

    def __init__(self, file: IO[bytes], folder: Path) -> None:
        self._file = file
        self._folder = folder
        self._sizes: deque[int] = deque()
        self._end = 0

    @property
    def is_full(self) -> bool:
        """True when no more chunks should be fetched."""
        return self._end >= MAX_BYTES

    def put(self, chunk: Chunk) -> None:
        """Append a chunk. Raises `ConfigurationError` when the disk refuses it."""
        packed = zstandard.compress(_serialize(chunk), level=_LEVEL)
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

    def drain(self) -> Iterator[Chunk]:
        """All chunks, oldest first; then frees the disk."""
        at = 0
        while self._sizes:
            size = self._sizes.popleft()
            self._file.seek(at)
            yield _deserialize(zstandard.decompress(self._file.read(size)))
            at += size
        self._file.truncate(0)
        self._end = 0


@contextmanager
def open_queue(folder: Path) -> Iterator[ChunkQueue]:
    """A queue in a folder, which is created if absent. Raises `ConfigurationError`."""
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(tempfile.TemporaryFile(dir=folder))
        except OSError as error:
            raise ConfigurationError(f"chunks cannot be kept in {folder}: {error}") from error
        yield ChunkQueue(file, folder)


def _serialize(chunk: Chunk) -> bytes:
    header = {
        **{name: getattr(chunk, name) for name in _PLAIN_FIELDS},
        "movements": None if chunk.movements is None else sorted(chunk.movements),
        "copies": [
            {"table": c.table, "columns": c.columns, "rows": c.rows, "size": len(c.text)}
            for c in chunk.copies
        ],
    }
    return b"".join([orjson.dumps(header), b"\n", *(copied.text for copied in chunk.copies)])


def _deserialize(content: bytes) -> Chunk:
    line, _, rows = content.partition(b"\n")
    header: dict[str, Any] = orjson.loads(line)
    movements = header["movements"]
    copies, at = [], 0
    for copied in header["copies"]:
        text = rows[at : at + copied["size"]]
        copies.append(CopyText(copied["table"], tuple(copied["columns"]), copied["rows"], text))
        at += copied["size"]
    return Chunk(
        **{
            **{name: header[name] for name in _PLAIN_FIELDS},
            "undecodable": tuple((subject, reason) for subject, reason in header["undecodable"]),
        },
        movements=None if movements is None else frozenset(map(tuple, movements)),
        copies=tuple(copies),
    )
