"""Where the warehouse is, as `DATABASE_URL`, `ISTHMUS_HOME` and `ISTHMUS_NETWORK` say."""

import os
from collections.abc import Mapping
from pathlib import Path

NEEDS_DATABASE = (
    "DATABASE_URL is unset, and the embedded Postgres is for the devnet alone: set it to a "
    "Postgres of your own, postgresql://USER:PASSWORD@HOST:PORT/DATABASE. To try things out, run "
    "`python -m warehouse_schema.embedded start` and set it to what `python -m "
    "warehouse_schema.embedded url` prints"
)
"""What is wrong where no database is named for a real network, and what to do."""


def embedded_folder(environment: Mapping[str, str] | None = None) -> Path:
    """The data folder of the embedded Postgres: `postgres` under `ISTHMUS_HOME`."""
    env = os.environ if environment is None else environment
    return Path(env.get("ISTHMUS_HOME") or ".isthmus").absolute() / "postgres"


def named_database(environment: Mapping[str, str] | None = None) -> str | None:
    """`DATABASE_URL`; None where it is unset."""
    env = os.environ if environment is None else environment
    return env.get("DATABASE_URL") or None


def database_variable(environment: Mapping[str, str] | None = None) -> str | None:
    """`DATABASE_URL`; None where it is unset, which stands for the embedded Postgres.

    Raises `ValueError` when it is unset for another network than the devnet.
    """
    env = os.environ if environment is None else environment
    url = named_database(env)
    if url is None and env.get("ISTHMUS_NETWORK", "devnet") != "devnet":
        raise ValueError(NEEDS_DATABASE)
    return url
