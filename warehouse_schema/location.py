"""Where the warehouse is: `DATABASE_URL`, `ISTHMUS_HOME` and `ISTHMUS_NETWORK`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, TypeVar, get_args

from pydantic import BeforeValidator

from warehouse_schema.configuration import CONFIG_VARIABLE, load_configuration
from warehouse_schema.engine import warehouse_url
from warehouse_schema.variables import Variables, variable

V = TypeVar("V", bound=Variables)
NetworkName: TypeAlias = Literal["mainnet", "testnet", "devnet"]

NEEDS_DATABASE = (
    "DATABASE_URL is unset, and the embedded Postgres is for the devnet alone: set it to a "
    "Postgres of your own, postgresql://USER:PASSWORD@HOST:PORT/DATABASE. To try things out, run "
    "`isthmus database start` and set it to what `isthmus "
    "database url` prints"
)


def _network(text: str) -> str:
    if text not in get_args(NetworkName):
        raise ValueError(f"must be one of {', '.join(get_args(NetworkName))}")
    return text


def postgres_url(text: str) -> str:
    """The text, if it is a Postgres URL. Raises `ValueError` that does not repeat it."""
    try:
        warehouse_url(text, source="")
    except ValueError as error:
        raise ValueError(str(error).strip()) from None
    return text


class LocationVariables(Variables):
    """Where the warehouse is; needs no database."""

    config: Path | None = variable(
        CONFIG_VARIABLE,
        None,
        "path of `isthmus.toml`; unset: the variables alone",
    )
    network_name: Annotated[NetworkName, BeforeValidator(_network)] = variable(
        "ISTHMUS_NETWORK",
        "network",
        "`devnet`, `testnet` or `mainnet`: the file of `indexer/config/networks/` that is used",
        "devnet",
        keep_empty=True,
    )
    home: Path = variable("ISTHMUS_HOME", "home", "folder of local state", Path(".isthmus"))
    database_url: Annotated[str | None, BeforeValidator(postgres_url)] = variable(
        "DATABASE_URL",
        "database_url",
        "a Postgres ≥ 14, `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`; unset on the devnet: "
        "the embedded one under `ISTHMUS_HOME`. Required on `testnet` and `mainnet`. With a "
        "standby: `…@HOST:PORT,HOST:PORT/DATABASE?target_session_attrs=read-write`",
        has_file=True,
        hidden=True,
    )


class WarehouseVariables(LocationVariables):
    """Where the warehouse is. A network of real money needs a database of its own."""

    @classmethod
    def contradictions(cls, given: Mapping[str, str]) -> Iterator[str]:
        """An unset `DATABASE_URL` outside of the devnet."""
        yield from super().contradictions(given)
        if "DATABASE_URL" not in given and given.get("ISTHMUS_NETWORK") in ("testnet", "mainnet"):
            yield NEEDS_DATABASE


def from_environment(model: type[V]) -> V:
    """The model of this process's configuration. Raises `SettingsError`."""
    return model.read(load_configuration())


def embedded_folder() -> Path:
    """Data folder of the embedded Postgres: under `ISTHMUS_HOME`. Raises `SettingsError`."""
    return from_environment(LocationVariables).home.absolute() / "postgres"
