"""What Dagster's libraries read from the environment, set here from the settings.

To be called before Dagster or gRPC is imported.
"""

import os
from pathlib import Path
from typing import NamedTuple

from sqlalchemy.engine import URL

from indexer.config.settings import SharedVariables, load_settings, read_variables
from indexer.config.warehouse import dagster_storage_url
from pipelines.processes import RELAY_SERVER, is_needed
from warehouse_schema.configuration import load_configuration, set_variables
from warehouse_schema.engine import warehouse_url
from warehouse_schema.migrate import ensure_database

_ROOT = Path(__file__).resolve().parents[1]
_FIXED = {
    "DAGSTER_DISABLE_TELEMETRY": "1",
    # gRPC's own handling of forks can abort a program that the code server starts.
    "GRPC_ENABLE_FORK_SUPPORT": "0",
    # A server that is gone breaks the connection; one that is slow is waited for.
    "DAGSTER_GRPC_TIMEOUT_SECONDS": "600",
    "DAGSTER_GRPC_SHUTDOWN_GRACE_PERIOD": "2",
}


class CodeLocation(NamedTuple):
    """Where page and daemon find a code server, and the module of its definitions."""

    name: str
    module: str
    host: str
    port: int


def prepare_dagster() -> None:
    """Set what Dagster reads, and create its database unless it is there.

    Where `DAGSTER_HOME` is set, that folder's dagster.yaml says where Dagster's records are.
    Raises `ConfigurationError`, `MigrationRefused` when the database is missing and may not be
    created, and SQLAlchemy's `OperationalError` when the server does not answer.
    """
    given = load_configuration()
    values = read_variables(SharedVariables, given)
    chosen = {name: text for name, text in _FIXED.items() if not given.get(name)}
    # Python's fork server knows nothing of our sys.path, and passes over what it cannot import.
    paths = [str(_ROOT), *given.get("PYTHONPATH", "").split(os.pathsep)]
    chosen["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, paths)))
    if not given.get("DAGSTER_HOME"):
        url = storage_url(values)
        ensure_dagster_database()
        chosen |= {
            "DAGSTER_HOME": str(_ROOT / "pipelines"),
            "ISTHMUS_HOME": str(values.home.absolute()),
            "ISTHMUS_DAGSTER_URL": url.render_as_string(hide_password=False),
        }
    set_variables(chosen)


def ensure_dagster_database() -> None:
    """Create Dagster's database unless it is there, or the operator's `DAGSTER_HOME` names one.

    Raises as `prepare_dagster` does.
    """
    given = load_configuration()
    if not given.get("DAGSTER_HOME"):
        url = storage_url(read_variables(SharedVariables, given))
        ensure_database(url.set(drivername="postgresql+psycopg"))


def storage_url(values: SharedVariables) -> URL:
    """Dagster's own database: the one that is named, or one beside the warehouse.

    The driver is psycopg2 whatever the text says (`dagster_storage_url`).
    """
    named = values.dagster_url or dagster_storage_url(load_settings())
    return warehouse_url(named, "ISTHMUS_DAGSTER_URL").set(drivername="postgresql+psycopg2")


def code_locations() -> tuple[CodeLocation, ...]:
    """The code servers that page and daemon ask. Raises `ConfigurationError`."""
    with_relay = is_needed(RELAY_SERVER, load_configuration())
    return (code_location(), code_location(relay=True)) if with_relay else (code_location(),)


def code_location(*, relay: bool = False) -> CodeLocation:
    """One code server. Raises `ConfigurationError`."""
    values = read_variables(SharedVariables, load_configuration())
    if relay:
        return CodeLocation(
            "relay", "pipelines.relay", values.relay_server_host, values.relay_server_port
        )
    return CodeLocation(
        "isthmus", "pipelines.definitions", values.code_server_host, values.code_server_port
    )
