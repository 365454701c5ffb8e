"""What Alembic runs: the revisions, on the connection that `warehouse_schema.migrate` opened.

Each revision is a transaction of its own, and gives up rather than stand in the way of the running
service: a lock that is not granted soon, or a statement that takes long, fails the migration, which
can be run again.
"""

from alembic import context
from sqlalchemy import Connection, text

VERSION_SCHEMA = "isthmus"
"""Of our own: Dagster keeps an `alembic_version` in `public`, perhaps of the same database."""


def run(connection: Connection) -> None:
    """Upgrade; a revision that was committed stays if a later one fails."""
    connection.execute(text("SET lock_timeout = '5s'"))
    connection.execute(text("SET statement_timeout = '5min'"))
    connection.execute(text("CREATE SCHEMA IF NOT EXISTS isthmus"))
    connection.execute(text("COMMENT ON SCHEMA isthmus IS 'Which migrations were run.'"))
    connection.commit()
    context.configure(
        connection=connection,
        version_table_schema=VERSION_SCHEMA,
        transaction_per_migration=True,
    )
    with context.begin_transaction():
        context.run_migrations()


run(context.config.attributes["connection"])
