"""A chunk as a file, for a writer in another process to read.

One JSON line that describes it, then the text of its rows, one after another; all of it compressed.
A file appears whole or not at all: a fetcher that is killed leaves a name that nobody reads.
"""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
import zstandard

from indexer.backfill.chunks import Chunk, Movements
from indexer.errors import ConfigurationError
from indexer.facts.columns_copy import CopyText

_LEVEL = 1
"""Hex halves at any level; a higher one costs more than the disk does."""


def write_chunk(chunk: Chunk, folder: Path) -> Path:
    """Write a chunk into a folder, under a name that its range decides."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{chunk.first:012}-{chunk.last:012}.chunk"
    partial = path.with_suffix(f".{os.getpid()}.part")
    with partial.open("wb") as file:
        with zstandard.ZstdCompressor(level=_LEVEL).stream_writer(file, closefd=False) as packed:
            packed.write(orjson.dumps(_described(chunk)) + b"\n")
            for copied in chunk.copies:
                packed.write(copied.text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    return path


def read_chunk(path: Path) -> Chunk:
    """Read a chunk. Raises `ConfigurationError` that names a file that is gone or damaged."""
    try:
        with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as packed:
            head, _, texts = packed.read().partition(b"\n")
        return _restored(orjson.loads(head), texts)
    except (OSError, zstandard.ZstdError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{path} is not a whole chunk, fetch it again: {error!r}"
        ) from error


def _described(chunk: Chunk) -> dict[str, Any]:
    described = {name: getattr(chunk, name) for name in _PLAIN}
    movements = chunk.movements
    return {
        **described,
        "movements": None
        if movements is None
        else {"burn_keys": sorted(movements.burn_keys), "guids": sorted(movements.guids)},
        "copies": [
            {**{k: v for k, v in asdict(copied).items() if k != "text"}, "size": len(copied.text)}
            for copied in chunk.copies
        ],
    }


_PLAIN = ("chain", "first", "last", "parent_hash", "hash", "events", "undecodable")


def _restored(described: dict[str, Any], texts: bytes) -> Chunk:
    movements = described["movements"]
    copies, at = [], 0
    for copied in described["copies"]:
        end = at + copied["size"]
        copies.append(
            CopyText(copied["table"], tuple(copied["columns"]), copied["rows"], texts[at:end])
        )
        at = end
    if at != len(texts):
        raise ValueError(f"it has {len(texts)} bytes of rows, not {at}")
    return Chunk(
        **{
            **{name: described[name] for name in _PLAIN},
            "undecodable": tuple((what, why) for what, why in described["undecodable"]),
        },
        movements=None
        if movements is None
        else Movements(frozenset(movements["burn_keys"]), frozenset(movements["guids"])),
        copies=tuple(copies),
    )
