"""Writes docs/settings.md and the list of known variables from the settings models.

python -m tests.architecture.settings_document
"""

from pathlib import Path

from pydantic.fields import FieldInfo

from indexer.config.sections import SECTIONS
from tests.architecture.imports import ROOT
from warehouse_schema.variables import declared_variables, default_text, option_of, ordered_fields

HEAD = """\
<!-- Written by `make settings` from the settings models. -->

# Settings

```toml
# isthmus.toml; ISTHMUS_CONFIG is its path
network = "testnet"
database_url_file = "secrets/database-url"

[chains."eip155:84532"]
rpc = ["https://your-base-sepolia-node", "wss://your-base-sepolia-node"]
start = 20000000

[api]
url = "https://api.example.com"
```

Every process reads `isthmus.toml` and environment variables once, at its start. A variable wins
over its key in the file. Wrong settings stop the process, and it names all of them at once, with
the line. A key or variable `ISTHMUS_…` that is not on this page is an error too. An empty variable
is an unset one, except that an empty `ISTHMUS_RPC_<CHAIN>` gives the chain no node.

`<CHAIN>` in a key is the chain id in quotes, `chains."eip155:1".rpc`; in a variable it is in
capitals with `_`, `ISTHMUS_RPC_EIP155_1`. Lists are TOML lists of texts, in variables with commas
between. A relative path in the file is relative to the file's folder.

A secret is in a file that its key or variable names. On testnet and mainnet a process refuses a
file with a secret that every user of the machine may read. What is marked (`_file`) may be in a
file: its key with `_file`, or its variable with `_FILE` at the end, names it. In isthmus.toml a URL
with a password must be there.
"""


def document() -> str:
    """docs/settings.md."""
    parts = [HEAD]
    for section in SECTIONS:
        parts.append(
            f"\n## {section.title}\n\n{section.about}\n\n| key | variable | default | meaning |\n"
            "|---|---|---|---|\n"
        )
        parts += [_row(field) for field in ordered_fields(section.model())]
    return "".join(parts)


def known_variables() -> str:
    """warehouse_schema/variables.txt: a variable a line."""
    lines = {each.line() for section in SECTIONS for each in declared_variables(section.model())}
    return "".join(f"{line}\n" for line in sorted(lines))


def files() -> dict[Path, str]:
    """What is generated, by path."""
    return {
        ROOT / "docs" / "settings.md": document(),
        ROOT / "warehouse_schema" / "variables.txt": known_variables(),
    }


def _row(field: FieldInfo) -> str:
    key, variable = option_of(field, "key"), field.alias
    if option_of(field, "secret"):
        key, variable = f"{key}_file", f"{variable}_FILE"
    named = "" if key is None else f"`{key}`"
    has_choice = option_of(field, "has_file") and not option_of(field, "secret")
    file = " (`_file`)" if has_choice else ""
    text = default_text(field.default)
    default = "unset" if text is None else f"`{text}`"
    return f"| {named}{file} | `{variable}` | {default} | {field.description} |\n"


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text)
