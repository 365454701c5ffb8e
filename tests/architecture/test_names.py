"""Public type names are unique, and no name is one that the glossary replaced."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import pytest

from tests.architecture.imports import ROOT, modules

APART = ("isthmus_client", "devnet")
"""Parts that are not the product: a distribution of its own, and stand-ins."""


def test_public_type_names_are_unique() -> None:
    sources = [(name, path.read_text()) for name, path in modules()]
    assert repeated(each for each in sources if not each[0].startswith(APART)) == {}


@pytest.mark.parametrize(
    "again",
    [
        "class Block: ...",
        "Block: TypeAlias = int | None",
        'Block = NewType("Block", int)',
    ],
)
def test_planted_second_name_is_found(again: str) -> None:
    found = repeated([("indexer.chains.raw", "class Block: ..."), ("relay.store", again)])
    assert found == {"Block": ["indexer.chains.raw", "relay.store"]}


def test_private_name_may_be_repeated() -> None:
    assert repeated([("a", "class _Row: ..."), ("b", "class _Row: ...")]) == {}


def repeated(sources: Iterable[tuple[str, str]]) -> Mapping[str, list[str]]:
    """Public type name → the modules that define it, where there are several."""
    found = defaultdict[str, list[str]](list)
    for module, source in sources:
        for name in _types(ast.parse(source)):
            found[name].append(module)
    return {name: places for name, places in found.items() if len(places) > 1}


def _types(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
                pass
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="NewType"))
            ):
                pass
            case _:
                continue
        if not name.startswith("_"):
            yield name


def test_glossary_terms_replaced_the_old_names() -> None:
    sources = [(name, path.read_text()) for name, path in modules()]
    product = [each for each in sources if not each[0].startswith(APART)]
    assert outdated(product, replaced_names()) == []


@pytest.mark.parametrize(
    "source",
    ["class Wire: ...", "def heal(): ...", "Wire = 1", "class A:\n    def heal(self): ..."],
)
def test_planted_old_name_is_found(source: str) -> None:
    assert outdated([("relay.run", source)], {"Wire", "heal"}) != []


def replaced_names() -> set[str]:
    """Names in the last column of docs/glossary.md."""
    rows = re.findall(r"^\|.*\|([^|]*)\|$", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert len(names) > 10, "the table of docs/glossary.md was not found"
    return names


def outdated(sources: Iterable[tuple[str, str]], names: set[str]) -> list[str]:
    """Where one of these names is given to a class, a function, a module or a constant."""
    return [
        f"{module}: {name}"
        for module, source in sources
        for name in (module.rpartition(".")[2], *_given(ast.parse(source)))
        if name in names
    ]


def _given(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
    for node in tree.body:
        if isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
