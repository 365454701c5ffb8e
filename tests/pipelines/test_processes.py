"""The list of processes agrees with the commands and with the settings models."""

import os
from pathlib import Path

import click
import pytest
from sqlalchemy import Engine, make_url

from api.settings import ApiSettings
from indexer.cli.main import isthmus
from indexer.config.settings import DatabaseVariables
from pipelines.environment import CodeLocation, code_locations, prepare_dagster
from pipelines.page.settings import PageVariables
from pipelines.processes import MIGRATE, PROCESSES, RELAY_SERVER, is_needed, needed_processes
from relay.settings import RelayVariables
from warehouse_schema.configuration import load_configuration
from warehouse_schema.embedded import Server
from warehouse_schema.variables import Variables, option_of

SHARED = {"DATABASE_URL", "ISTHMUS_BROKER_URL", "ISTHMUS_DAGSTER_URL", "ISTHMUS_RPC_<CHAIN>"}
POOLED = {"ISTHMUS_POOLER_URL", "ISTHMUS_REPLICA_URL"}
"""URLs with a password that the API alone reads."""


def test_commands_and_options_exist() -> None:
    for process in (MIGRATE, *PROCESSES):
        command = isthmus.get_command(click.Context(isthmus), process.command[0])
        assert command is not None, process.name
        command.make_context(process.name, list(process.command[1:]))


def test_own_secrets_are_those_of_the_settings_models() -> None:
    models: dict[str, type[Variables]] = {
        "api": ApiSettings,
        "relay-server": RelayVariables,
        "page": PageVariables,
    }
    own = {each.name: set(each.secrets) - SHARED for each in (MIGRATE, *PROCESSES)}
    assert own["api"] >= POOLED
    assert {field.alias for _, field in ApiSettings.names()} >= POOLED
    own["api"] -= POOLED
    assert own == {name: secrets(models[name]) if name in models else set() for name in own}
    assert {field.alias for _, field in DatabaseVariables.names()} >= SHARED


def secrets(model: type[Variables]) -> set[str]:
    return {field.alias or "" for _, field in model.names() if option_of(field, "secret")}


@pytest.mark.parametrize(
    "name",
    [
        "ISTHMUS_RELAY_KEY_EIP155_1_FILE",
        "ISTHMUS_RELAY_KMS_STELLAR_PUBNET",
        "ISTHMUS_RELAY_SPONSOR_STELLAR_PUBNET",
        "ISTHMUS_WEBHOOK_KEY_FILE",
        "ISTHMUS_RELAY_SERVER_HOST",
    ],
)
def test_key_or_address_of_relay_needs_its_server(name: str) -> None:
    assert is_needed(RELAY_SERVER, {name: "x"})
    assert not is_needed(RELAY_SERVER, {name: ""})


def test_installation_without_keys_has_no_relay_server() -> None:
    names = [each.name for each in needed_processes({"ISTHMUS_RELAY_BUDGET_EIP155_1": "1"})]
    assert names == ["code-server", "daemon", "page", "api"]


def test_dagster_database_is_created_and_environment_set(
    postgres: Server, server_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "dagster_of_processes"
    # As an operator writes it, without the driver that Dagster needs.
    url = make_url(postgres.url(name)).set(drivername="postgresql")
    (tmp_path / "url").write_text(url.render_as_string(hide_password=False))
    file = tmp_path / "isthmus.toml"
    file.write_text('[dagster]\nurl_file = "url"\nrelay_server_host = "relay.example"\n')
    given = {"ISTHMUS_CONFIG": str(file), "ISTHMUS_HOME": "state", "PYTHONPATH": "/mine"}
    monkeypatch.setattr(os, "environ", dict(given))
    prepare_dagster()
    with server_engine.connect() as conn:
        # Fails where there is none.
        conn.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    variables = os.environ
    assert variables["ISTHMUS_DAGSTER_URL"].startswith("postgresql+psycopg2://")
    assert load_configuration().place("ISTHMUS_DAGSTER_URL_FILE") is None
    assert variables["ISTHMUS_HOME"] == str(Path("state").absolute())
    assert (Path(variables["DAGSTER_HOME"]) / "dagster.yaml").is_file()
    assert variables["PYTHONPATH"] == f"{Path(variables['DAGSTER_HOME']).parent}:/mine"
    assert variables["GRPC_ENABLE_FORK_SUPPORT"] == "0"
    assert code_locations() == (
        CodeLocation("isthmus", "pipelines.definitions", "127.0.0.1", 4000),
        CodeLocation("relay", "pipelines.relay", "relay.example", 4100),
    )
