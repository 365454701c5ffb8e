"""Every module is imported, directly or not, by an entry point or by a helper of the tests."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from indexer.bridges import BRIDGE_FOLDERS
from tests.architecture.imports import PACKAGES, ROOT, modules, uses

LOADED = ("pipelines.defs", "isthmus_client", "warehouse_schema.migrations")
"""Packages read by folder (Dagster, Alembic), and the client, which other programs import."""
_CONFIGURATION = ("Makefile", "pyproject.toml", "pipelines/*.yaml", ".ci/run")
"""Files that name modules for other programs to load."""
_DOTTED = re.compile(rf"\b(?:{'|'.join(PACKAGES)})(?:\.\w+)+")
_AS_PATH = re.compile(rf"\b(?:{'|'.join(PACKAGES)})(?:/\w+)+(?=\.py\b)")


def test_every_module_is_reachable() -> None:
    sources = {
        **dict(modules()),
        **{
            ".".join(path.relative_to(ROOT).with_suffix("").parts): path
            for path in (ROOT / "tests").rglob("*.py")
            if not path.name.startswith("test_")
        },
    }
    graph = {
        name: set(_names(name, path.read_text(), is_package=path.name == "__init__.py"))
        for name, path in sources.items()
    }
    configured = [path.read_text() for glob in _CONFIGURATION for path in ROOT.glob(glob)]
    entries = {
        *(name for name, path in sources.items() if _is_command(name, path)),
        *(name for name in sources if name.startswith(("tests.", *LOADED))),
        *(name for text in configured for name in _DOTTED.findall(text)),
        *(name.replace("/", ".") for text in configured for name in _AS_PATH.findall(text)),
    }
    assert unreachable(graph, entries) == []


def test_planted_unreachable_module_is_found() -> None:
    graph = {"a.__main__": {"a.run"}, "a.run": {"a.store.save"}, "a.store": set(), "a.old": set()}
    assert unreachable(graph, {"a.__main__"}) == ["a.old"]


def _is_command(name: str, path: Path) -> bool:
    return name.endswith(".__main__") or "\nif __name__ ==" in path.read_text()


def _names(module: str, source: str, *, is_package: bool) -> Iterator[str]:
    """Names that a module imports, by `bridge_modules` too, or hands to a program in a string."""
    tree = ast.parse(source)
    yield from (use.name for use in uses(module, tree, is_package=is_package))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _DOTTED.findall(node.value)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "bridge_modules":
            yield from (
                f"indexer.bridges.{each}.{ast.literal_eval(node.args[0])}"
                for each in BRIDGE_FOLDERS
            )


def unreachable(graph: Mapping[str, set[str]], entries: set[str]) -> list[str]:
    """Modules, packages apart, that no chain of imports from an entry leads to."""
    waiting, reached = [*entries], set[str]()
    while waiting:
        # `a.b.c` may be a name in module `a.b`; packages above are imported with a module.
        parts = waiting.pop().split(".")
        for count in range(len(parts), 0, -1):
            name = ".".join(parts[:count])
            if name in graph and name not in reached:
                reached.add(name)
                waiting.extend(graph[name])
    packages = {name.rpartition(".")[0] for name in graph}
    return sorted(set(graph) - reached - packages)
