"""`isthmus config check | show | init`."""

import json
import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from indexer.cli.base import operator_command

if TYPE_CHECKING:
    from indexer.config.networks import Network
    from warehouse_schema.configuration import Configuration

_FILE = "isthmus.toml"
_NETWORKS = ("mainnet", "testnet", "devnet")
_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group()
def config() -> None:
    """Check, show or write the configuration."""


@config.command()
@_json_option
@operator_command
def check(as_json: bool) -> int:
    """Name all problems of the settings of all processes; 2 if there are any.

    It asks no node and no database: `isthmus doctor` does. A file with a secret that this user may
    not read is named, and its content not checked.
    """
    from warehouse_schema.configuration import CONFIG_VARIABLE, load_configuration
    from warehouse_schema.variables import by_line

    configuration = load_configuration()
    configuration.not_permitted = set()
    problems = _problems(configuration)
    notes = [configuration.explain(note) for note in configuration.not_permitted]
    notes.sort(key=by_line)
    if as_json:
        click.echo(json.dumps({"problems": problems, "notes": notes}, indent=2, ensure_ascii=False))
    else:
        for line in (*problems, *(f"note: {note}" for note in notes)):
            click.echo(line)
        where = configuration.get(CONFIG_VARIABLE) or f"({CONFIG_VARIABLE} is unset)"
        counted = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
        click.echo(f"{counted} in variables and isthmus.toml {where}")
    return 2 if problems else 0


@config.command()
@_json_option
@operator_command
def show(as_json: bool) -> int:
    """Print every setting, its value and where that comes from. Secrets are not shown, nor read."""
    from indexer.cli.config_values import settings_of
    from warehouse_schema.configuration import load_configuration

    configuration = load_configuration()
    settings = list(settings_of(configuration))
    if as_json:
        rows = [each._asdict() for each in settings]
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    else:
        lines = [
            (each.key or each.variable, _printed(each.value), each.source) for each in settings
        ]
        widths = [max(len(line[column]) for line in lines) for column in (0, 1)]
        for key, value, source in lines:
            click.echo(f"{key:{widths[0]}}  {value:{widths[1]}}  {source}")
    problems = _problems(configuration)
    if problems:
        click.echo(f"{len(problems)} wrong: see `isthmus config check`", err=True)
    return 0


@config.command()
@click.option(
    "--network",
    "name",
    type=click.Choice(_NETWORKS),
    help="Ask nothing: placeholders in <…> stand for what you know.",
)
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path(_FILE),
    show_default=True,
    help="Where to write it.",
)
@operator_command
def init(name: str | None, file: Path) -> int:
    """Write a new isthmus.toml with all keys; 1 if the file is there already."""
    from indexer.cli.config_file import new_file, required_keys
    from indexer.config.networks import load_network

    if file.exists():
        # Before the questions; opened below so that none is ever overwritten.
        click.echo(f"{file} is there already: remove it, or name another --file", err=True)
        return 1
    if name is None:
        choice = click.Choice(_NETWORKS)
        network = load_network(click.prompt("Network", type=choice, default="testnet"))
        values = _ask(network)
    else:
        network = load_network(name)
        values = required_keys(network)
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
        opened.write(new_file(network, values))
    click.echo(f"wrote {file}. Fill in what is in <…>, then:")
    click.echo(f"export ISTHMUS_CONFIG={file.absolute()}\nisthmus config check")
    return 0


def _printed(value: str | None) -> str:
    return "–" if value is None else value or "(empty)"


def _problems(configuration: "Configuration") -> list[str]:
    """Problems of the models of all processes, and of the relay's variables; no key is loaded."""
    from indexer.config.sections import SECTIONS
    from indexer.config.settings import load_settings, problems_of, read_variables
    from indexer.errors import ConfigurationError
    from warehouse_schema.variables import by_line

    # By name: no other process imports what reads the relay's keys.
    check_relay: Callable[[Configuration], None]
    check_relay = import_module("relay.settings").check_relay_variables
    found: dict[str, None] = {}

    def collect(act: Callable[[], object]) -> None:
        try:
            act()
        except ConfigurationError as error:
            found.update(dict.fromkeys(problems_of(error)))

    collect(partial(load_settings, configuration))
    for section in SECTIONS:
        collect(partial(read_variables, section.model(), configuration))
    collect(partial(check_relay, configuration))
    return sorted((configuration.explain(problem) for problem in found), key=by_line)


def _ask(network: "Network") -> dict[str, str]:
    """Key → TOML of what the operator answers; an empty answer leaves a key out."""
    from indexer.cli.config_file import required_keys
    from warehouse_schema.toml_file import dotted

    def toml(value: object) -> str:
        return json.dumps(value, ensure_ascii=False)

    values = {}
    required = required_keys(network)
    if "database_url_file" in required:
        file = click.prompt("File with the database's URL, postgresql://…", default="")
        values["database_url_file"] = toml(file) if file else required["database_url_file"]
    for chain in network.chains:
        name = f"{chain.name} ({chain.id})"
        nodes = click.prompt(f"Nodes of {name}, with commas between; empty: none", default="")
        if not nodes:
            continue
        urls = [each.strip() for each in nodes.split(",") if each.strip()]
        values[dotted(("chains", chain.id, "rpc"))] = toml(urls)
        if chain.start_height is None:
            height = click.prompt(f"First block of {name} to read", type=click.IntRange(0))
            values[dotted(("chains", chain.id, "start"))] = toml(height)
    url = click.prompt("Where clients reach the API, https://…; empty: later", default="")
    return values if not url else {**values, "api.url": toml(url)}
