"""The variables of all processes and their keys in isthmus.toml: variables.txt as values.

The models of other packages declare them; `make settings` writes the file, so that a process knows
what belongs to others without importing them. `<CHAIN>` stands for a chain: its id in a key, the id
in capitals with `_` in a variable.
"""

import re
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, cast

CHAIN = "<CHAIN>"
CHAIN_PATTERN = "(?P<chain>(EIP155|STELLAR)_[A-Z0-9]+)"
FILE = Path(__file__).with_name("variables.txt")

Kind: TypeAlias = Literal["text", "integer", "list", "path"]
"""What a key holds in TOML. A list is of texts. A path is relative to the file's folder, unless it
is a URL."""
Protection: TypeAlias = Literal["plain", "file", "secret"]
"""`secret`: only ever in a file that `<name>_FILE` names. `file`: may be there, and a URL with a
password must be."""


class KnownVariable(NamedTuple):
    """A variable, and its key in isthmus.toml; None for what only the environment says."""

    name: str
    key: str | None
    kind: Kind = "text"
    protection: Protection = "plain"
    keep_empty: bool = False

    @property
    def path(self) -> tuple[str, ...]:
        """Tables and key."""
        return () if self.key is None else tuple(self.key.split("."))

    def line(self) -> str:
        """Its line in variables.txt."""
        empty = ["keep_empty"] if self.keep_empty else []
        return " ".join([self.name, self.key or "-", self.kind, self.protection, *empty])


@cache
def known_variables() -> tuple[KnownVariable, ...]:
    """All variables, `…_FILE` ones too."""
    found = []
    for line in FILE.read_text().splitlines():
        name, key, kind, protection, *rest = line.split()
        found.append(
            KnownVariable(
                name,
                None if key == "-" else key,
                cast(Kind, kind),
                cast(Protection, protection),
                "keep_empty" in rest,
            )
        )
    return tuple(found)


@cache
def variable_pattern(name: str) -> re.Pattern[str]:
    """Names of a variable; the group `chain` is what `<CHAIN>` stands for."""
    return re.compile(re.escape(name).replace(re.escape(CHAIN), CHAIN_PATTERN))


@cache
def find_variable(name: str) -> KnownVariable | None:
    """The known variable that a name is of; `name` may hold `<CHAIN>`."""
    matches = (
        each
        for each in known_variables()
        if each.name == name
        # Patterns are compiled for these alone: all of them took 12 ms of each start.
        or (CHAIN in each.name and variable_pattern(each.name).fullmatch(name))
    )
    return next(matches, None)
