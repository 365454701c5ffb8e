"""Draft the next revision: what the tables in Python have and the revisions do not.

    python -m warehouse_schema.migrations.draft NAME

It migrates a scratch server to head, compares, writes `versions/NNNN_NAME.py` and stops. Read what
it wrote, put right what Alembic cannot see (checks, partial indexes, data), run `ruff format`.

Until the first release there is one revision, the baseline. After a change to the tables::

    rm warehouse_schema/migrations/versions/0*.py
    python -m warehouse_schema.migrations.draft baseline
    for c in "format" "check --fix -q" "format"; do ruff $c warehouse_schema/migrations; done

and copy the last statement of the old file: the rows of `locks.rows`, which Alembic cannot see.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from alembic.autogenerate import produce_migrations, render_python_code
from alembic.autogenerate.api import AutogenContext
from alembic.operations.ops import ExecuteSQLOp, MigrateOperation, UpgradeOps
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect
from sqlalchemy.engine import make_url
from sqlalchemy.schema import CreateSchema

from warehouse_schema import (
    access,
    daily,
    events,
    facts,
    intake,
    lock_tables,
    notifications,
    projections,
    relay,
)
from warehouse_schema.columns import BaseUnitsType
from warehouse_schema.embedded import EmbeddedPostgres
from warehouse_schema.engine import make_engine
from warehouse_schema.metadata import SCHEMAS, metadata
from warehouse_schema.migrate import alembic_config, upgrade

TABLE_MODULES = (
    access,
    daily,
    events,
    facts,
    intake,
    lock_tables,
    notifications,
    projections,
    relay,
)
"""Imported for what they put into `metadata`."""


def missing(connection: Connection) -> UpgradeOps:
    """The operations that would turn the connection's database into `metadata`."""
    context = MigrationContext.configure(
        connection,
        opts={
            "include_schemas": True,
            "include_name": lambda name, kind, _: kind != "schema" or name in SCHEMAS,
            "include_object": lambda item, _, kind, *__: kind != "table" or item.schema in SCHEMAS,
            "compare_server_default": True,
            "render_item": _render_item,
        },
    )
    operations = produce_migrations(context, metadata).upgrade_ops_list[0]
    present = inspect(connection).get_schema_names()
    operations.ops[:0] = [
        operation
        for schema in SCHEMAS
        if schema not in present
        for operation in _create_schema(schema)
    ]
    return operations


def _create_schema(schema: str) -> list[MigrateOperation]:
    return [
        ExecuteSQLOp(str(CreateSchema(schema))),
        ExecuteSQLOp(f"COMMENT ON SCHEMA {schema} IS '{SCHEMAS[schema]}'"),
    ]


def _render_item(kind: str, item: Any, _: AutogenContext) -> str | Literal[False]:
    # A revision says what the database holds, whatever becomes of our Python types.
    return "sa.Numeric(78, 0)" if kind == "type" and isinstance(item, BaseUnitsType) else False


def write(connection: Connection, name: str) -> Path:
    """Write the next revision after those in `versions/`."""
    directory = ScriptDirectory.from_config(alembic_config())
    head = directory.get_current_head()
    written = directory.generate_revision(
        f"{int(head or 0) + 1:04}",
        name,
        head=head or "base",
        file_template="%(rev)s_%(slug)s",
        upgrades=_body(connection),
    )
    if written is None:
        raise RuntimeError("Alembic wrote nothing and did not say why")
    return Path(written.path)


def _body(connection: Connection) -> str:
    rendered = render_python_code(
        missing(connection),
        render_item=_render_item,
        migration_context=MigrationContext.configure(connection),
    )
    return "\n".join(line for line in rendered.splitlines() if "###" not in line).strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m warehouse_schema.migrations.draft")
    parser.add_argument("name", help="a word or two for the file's name")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="isthmus-draft-") as folder:
        # Postgres runs as `nobody` when we are root, and must reach its data.
        Path(folder).chmod(0o755)
        with EmbeddedPostgres(Path(folder) / "data", durable=False) as server:
            engine = make_engine(make_url(server.url("postgres")))
            with engine.connect() as connection:
                upgrade(connection)
                write(connection, options.name)
            engine.dispose()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
