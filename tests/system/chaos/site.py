"""What outlives a run: two Postgres servers with a migrated template each, and the nursery.

One server is durable and gets killed. The other one is not and holds the straight runs.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy.engine import make_url

from tests.system.chaos.processes import KillableServer, Nursery, Postgres
from warehouse_schema.migrate import migrate

TEMPLATE = "chaos_template"
DAGSTER_TEMPLATE = "chaos_dagster_template"


@dataclass(frozen=True)
class Site:
    """Where runs take place."""

    folder: Path
    postgres: Postgres
    straight: Postgres
    nursery: Nursery


@contextmanager
def site() -> Iterator[Site]:
    """A site in a folder of its own, gone afterwards."""
    # Run as root, Postgres is user `nobody`, who must be able to enter the folder.
    folder = Path(tempfile.mkdtemp(prefix="isthmus-chaos-"))
    folder.chmod(0o755)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        nursery = Nursery(folder / "nursery.log")
        stack.callback(nursery.close)
        postgres = Postgres(folder / "postgres")
        stack.callback(postgres.stop)
        straight = Postgres(folder / "straight", durable=False)
        stack.callback(straight.stop)
        for server in (postgres, straight):
            migrate(make_url(server.server.url(TEMPLATE)))
        yield Site(folder, postgres, straight, nursery)


@contextmanager
def database(server: KillableServer, name: str, template: str = TEMPLATE) -> Iterator[str]:
    """A fresh clone of a template, by its libpq URL; dropped afterwards, sessions and all."""
    create_database(server, name, template)
    try:
        yield server.url(name)
    finally:
        server.execute("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)


def create_database(server: KillableServer, name: str, template: str) -> None:
    """A clone of a template that nobody is connected to."""
    server.execute("CREATE DATABASE {} TEMPLATE {}", name, template)
