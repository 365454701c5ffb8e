"""A TOML file with the line of each key, for messages."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

KeyPath: TypeAlias = tuple[str, ...]
"""Tables and key."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class TomlFile:
    """A file that is TOML."""

    path: Path
    text: str = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> "TomlFile":
        """Raises `OSError`, `UnicodeDecodeError` and `tomllib.TOMLDecodeError`."""
        text = path.read_text()
        tomllib.loads(text)
        return cls(path, text)

    @property
    def keys(self) -> dict[str, object]:
        """What it says."""
        return tomllib.loads(self.text)

    @cached_property
    def lines(self) -> Mapping[KeyPath, int]:
        """The line of each key."""
        return lines_of(self.text)

    def place(self, path: KeyPath) -> str:
        """Such as `isthmus.toml:12 chains."eip155:1".rpc`."""
        return f"{self.path.name}:{self.lines.get(path, 1)} {dotted(path)}"


def dotted(path: KeyPath) -> str:
    """A key with its tables, as TOML writes it."""
    return ".".join(part if _BARE_KEY.fullmatch(part) else f'"{part}"' for part in path)


def leaves(table: Mapping[str, object], above: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    """Keys with their values; an empty table is a value."""
    for key, value in table.items():
        path = (*above, key)
        if isinstance(value, dict) and value:
            yield from leaves(value, path)
        else:
            yield path, value


def lines_of(text: str) -> dict[KeyPath, int]:
    """The line at which each key of a TOML text stands, from 1.

    tomllib does not say it, but a text up to the end of any value is TOML too: a key stands in the
    first line after the longest such text without it.
    """
    found: dict[KeyPath, int] = {}
    lines = text.splitlines(keepends=True)
    start = 0
    for end, line in enumerate(lines, 1):
        if start == end - 1 and (not line.strip() or line.lstrip().startswith("#")):
            start = end
            continue
        try:
            keys = tomllib.loads("".join(lines[:end]))
        except tomllib.TOMLDecodeError:
            continue
        for path, _ in leaves(keys):
            found.setdefault(path, start + 1)
        start = end
    return found
