"""The text of a new isthmus.toml, from the descriptions in the settings models."""

import json
import re
from collections.abc import Iterator, Mapping
from textwrap import wrap

from pydantic.fields import FieldInfo

from indexer.config.networks import Network
from indexer.config.sections import SECTIONS
from warehouse_schema.configuration import key_of
from warehouse_schema.known_variables import CHAIN, Kind
from warehouse_schema.toml_file import KeyPath, dotted
from warehouse_schema.variables import default_text, kind_of, option_of, ordered_fields

_HEAD = """\
# Settings of Isthmus. ISTHMUS_CONFIG is the path of this file; docs/settings.md lists all keys.
#
# Replace what is in <…>. A key behind # has its default. Secrets are in files of their
# own, which only the process may read: chmod 600. Relative paths begin at this file's folder.
# Then: isthmus config check"""
_PLACEHOLDERS: Mapping[Kind, str] = {
    "text": '"<text>"',
    "integer": '"<integer>"',
    "list": '["<text>"]',
    "path": '"<path>"',
}


def required_keys(network: Network) -> dict[str, str]:
    """Key → placeholder of what the operator alone knows."""
    if network.name == "devnet":
        return {}
    found = {"database_url_file": '"<file with postgresql://USER:PASSWORD@HOST:PORT/DATABASE>"'}
    for chain in network.chains:
        found[dotted(("chains", chain.id, "rpc"))] = '["<URL of a node>"]'
        if chain.start_height is None:
            found[dotted(("chains", chain.id, "start"))] = '"<first block to read>"'
    return found


def new_file(network: Network, values: Mapping[str, str]) -> str:
    """isthmus.toml of a network; `values` is key → TOML of what is not a comment."""
    tables: dict[KeyPath, list[str]] = {(): []}
    given = {"network": json.dumps(network.name), **values}
    described: set[str] = set()
    for section in SECTIONS:
        for field in ordered_fields(section.model()):
            for path in _paths(field, network):
                lines = tables.setdefault(path[:-1], [])
                if field.alias not in described:
                    lines += _comment(field.description or "")
                    described.add(str(field.alias))
                lines += _assignments(field, path, given)
    parts = [_HEAD]
    for path, lines in tables.items():
        parts += ["", *([_header(path, network)] if path else []), *lines]
    return "\n".join(parts) + "\n"


def _header(path: KeyPath, network: Network) -> str:
    names = [f"  # {chain.name}" for chain in network.chains if chain.id in path]
    return f"[{dotted(path)}]{''.join(names)}"


def _comment(description: str) -> list[str]:
    """Lines of a description, with keys where it names variables."""
    text = re.sub(r"ISTHMUS_[A-Z0-9_]+", lambda match: key_of(match[0]) or match[0], description)
    return [f"# {line}" for line in wrap(text, 96, break_on_hyphens=False)]


def _paths(field: FieldInfo, network: Network) -> Iterator[KeyPath]:
    """Tables and key of a field, for each chain where it is by chain."""
    key = option_of(field, "key")
    if key is None or (str(key).startswith("devnet.") and network.name != "devnet"):
        return
    path = tuple(str(key).split("."))
    if CHAIN not in path:
        yield path
        return
    kinds = {"all": network.chains, "evm": network.evm, "stellar": (network.stellar,)}
    for chain in kinds[str(option_of(field, "chains"))]:
        yield tuple(chain.id if part == CHAIN else part for part in path)


def _assignments(field: FieldInfo, path: KeyPath, given: Mapping[str, str]) -> Iterator[str]:
    """Lines of a key and of its `…_file`: set where it is given, else comments."""
    file_path = (*path[:-1], f"{path[-1]}_file")
    choices = [] if option_of(field, "secret") else [(path, _default(field))]
    if option_of(field, "has_file"):
        choices.append((file_path, _PLACEHOLDERS["path"]))
    for each, default in choices:
        text = given.get(dotted(each))
        key = dotted(each[-1:])
        yield f"#{key} = {default}" if text is None else f"{key} = {text}"


def _default(field: FieldInfo) -> str:
    """The default as TOML, or what would stand there."""
    kind, text = kind_of(field), default_text(field.default)
    if text is None:
        return _PLACEHOLDERS[kind]
    if kind == "integer":
        return text
    return json.dumps(text.split(",") if kind == "list" else text, ensure_ascii=False)
