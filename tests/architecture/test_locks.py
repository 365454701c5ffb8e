"""Numbers of advisory locks come from `warehouse_schema.locks` and are unique."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.imports import PACKAGES, ROOT, folder_of
from warehouse_schema import locks

NAMED = (
    # They make databases, before there is a warehouse; `locks` says which names they take.
    "warehouse_schema/embedded/launcher.py",
    "warehouse_schema/migrate.py",
)

_CALL = re.compile(r"\bpg_(try_)?advisory_\w*lock\w*")
_ALL = "pg_advisory_unlock_all"


def found(source: str) -> Iterator[str]:
    """Locks that a module takes otherwise than by a number of `locks`."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr=name), args=[number, *_]) if _CALL.match(name):
                if not _is_listed(ast.unparse(number)):
                    yield f"line {node.lineno}: the number {ast.unparse(number)}"
            case ast.Constant(value=str(text)) if _CALL.search(text.replace(_ALL, "")):
                yield f"line {node.lineno}: a lock in a text"


def _is_listed(number: str) -> bool:
    module, _, name = number.partition(".")
    return module == "locks" and hasattr(locks, name)


@pytest.mark.parametrize("place", [*PACKAGES, "tests"])
def test_every_lock_number_is_in_the_list(place: str) -> None:
    exempt = {*(ROOT / name for name in NAMED), Path(__file__)}
    strange = {
        str(path.relative_to(ROOT)): problems
        for path in folder_of(place).rglob("*.py")
        if path not in exempt and (problems := list(found(path.read_text())))
    }
    assert strange == {}


@pytest.mark.parametrize(
    "source",
    [
        "conn.execute(select(func.pg_advisory_lock(7_040, key)))",
        "conn.execute(select(func.pg_try_advisory_xact_lock_shared(_MINE)))",
        "conn.execute(select(func.pg_advisory_unlock(locks.NOBODYS, key)))",
        "conn.execute(text('SELECT pg_advisory_lock(7040, 1)'))",
    ],
)
def test_other_lock_number_is_found(source: str) -> None:
    assert len(list(found(source))) == 1


def test_lock_numbers_are_unique() -> None:
    numbers = [value for value in vars(locks).values() if isinstance(value, int)]
    assert len(numbers) == len(set(numbers)) > 4
