"""An empty server becomes the warehouse, whoever migrates it and however often."""

import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, NullPool, create_engine, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import OperationalError

from devnet.services import isthmus
from tests.memory import server_folder
from warehouse_schema import migrate as migrating
from warehouse_schema.embedded import EmbeddedPostgres, Server
from warehouse_schema.metadata import SCHEMAS, metadata
from warehouse_schema.migrate import (
    MigrationRefused,
    alembic_config,
    current_revision,
    head_revision,
    migrate,
)
from warehouse_schema.migrations.draft import missing

ROOT = Path(__file__).resolve().parents[2]
_NUMBERS = count(1)

CATALOG = {
    "columns": """
        SELECT n.nspname, c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod),
               a.attnotnull, a.attidentity, pg_get_expr(d.adbin, d.adrelid),
               col_description(c.oid, a.attnum)
        FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE n.nspname = ANY(:schemas) AND c.relkind = 'r'
    """,
    "constraints": """
        SELECT n.nspname, c.relname, k.conname, pg_get_constraintdef(k.oid)
        FROM pg_constraint k
        JOIN pg_class c ON c.oid = k.conrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = ANY(:schemas)
    """,
    "indexes": "SELECT indexdef FROM pg_indexes WHERE schemaname = ANY(:schemas)",
    "tables": """
        SELECT n.nspname, c.relname, obj_description(c.oid)
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = ANY(:schemas) AND c.relkind = 'r'
    """,
}


@pytest.fixture
def absent(postgres: Server, server_engine: Engine) -> Iterator[URL]:
    """URL of a database that is not there; dropped afterwards if it is by then."""
    url = make_url(postgres.url(f"isthmus_new_{next(_NUMBERS)}"))
    yield url
    with server_engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE IF EXISTS {url.database} WITH (FORCE)"))


@pytest.fixture
def empty(absent: URL, server_engine: Engine) -> URL:
    """URL of a database with nothing in it."""
    with server_engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {absent.database}"))
    return absent


@pytest.fixture
def stranger(server_engine: Engine, absent: URL) -> Iterator[URL]:
    """The URL `absent` for a user who may do nothing in particular."""
    with server_engine.connect() as connection:
        connection.execute(text("CREATE ROLE stranger LOGIN PASSWORD 'known'"))
    yield absent.set(username="stranger", password="known")
    with server_engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE IF EXISTS {absent.database} WITH (FORCE)"))
        connection.execute(text("DROP ROLE stranger"))


def plain_engine(url: URL) -> Engine:
    return create_engine(url, poolclass=NullPool)


def catalog(url: URL) -> dict[str, list[str]]:
    with plain_engine(url).connect() as connection:
        return {
            name: sorted(
                str(tuple(row))
                for row in connection.execute(text(query), {"schemas": list(SCHEMAS)})
            )
            for name, query in CATALOG.items()
        }


def revision(url: URL) -> str | None:
    with plain_engine(url).connect() as connection:
        return current_revision(connection)


# The revisions give what the tables in Python say.


def test_the_revisions_lack_nothing_that_the_tables_have(database: URL) -> None:
    with plain_engine(database).connect() as connection:
        assert missing(connection).as_diffs() == []


def test_the_revisions_and_the_tables_make_the_same_database(database: URL, empty: URL) -> None:
    # Checks, partial indexes, order of columns: what Alembic does not compare.
    with plain_engine(empty).begin() as connection:
        for schema in SCHEMAS:
            connection.execute(text(f"CREATE SCHEMA {schema}"))
        metadata.create_all(connection)
    assert catalog(database) == catalog(empty)


def test_a_draft_from_nothing_has_every_table(empty: URL) -> None:
    with plain_engine(empty).connect() as connection:
        operations = missing(connection).as_diffs()
    executed = [str(item) for kind, item in operations if kind == "execute"]
    created = {item.fullname for kind, item in operations if kind == "add_table"}
    assert executed[::2] == [f"CREATE SCHEMA {schema}" for schema in SCHEMAS]
    assert created == set(metadata.tables)


def test_a_schema_says_what_it_is_for(database: URL) -> None:
    query = "SELECT nspname, obj_description(oid) FROM pg_namespace WHERE nspname = ANY(:schemas)"
    with plain_engine(database).connect() as connection:
        rows = connection.execute(text(query), {"schemas": list(SCHEMAS)}).all()
    assert dict(map(tuple, rows)) == SCHEMAS


def test_revisions_are_numbered_in_one_line() -> None:
    walked = ScriptDirectory.from_config(alembic_config()).walk_revisions()
    scripts = sorted(walked, key=lambda script: script.revision)
    assert [script.revision for script in scripts] == [
        f"{number:04}" for number in range(1, len(scripts) + 1)
    ]
    for below, script in zip([None, *scripts], scripts, strict=False):
        assert script.down_revision == (below.revision if below else None)
        assert re.fullmatch(rf"{script.revision}_[a-z_]+\.py", Path(script.path).name)


def test_a_revision_does_not_see_the_tables_of_today() -> None:
    # Or it would create other tables tomorrow than it did yesterday.
    for path in (ROOT / "warehouse_schema/migrations/versions").glob("*.py"):
        assert "warehouse_schema" not in path.read_text(), path.name


# Migrating.


def test_a_database_that_is_not_there_is_created(absent: URL) -> None:
    migrate(absent)
    assert revision(absent) == head_revision()


def test_migrating_again_changes_nothing(database: URL) -> None:
    before = catalog(database)
    migrate(database)
    assert (catalog(database), revision(database)) == (before, head_revision())


def test_two_that_migrate_at_once_wait_for_each_other(absent: URL) -> None:
    with ThreadPoolExecutor(2) as both:
        assert list(both.map(migrate, [absent, absent])) == [None, None]
    assert revision(absent) == head_revision()


def test_a_revision_gives_up_rather_than_stand_in_the_way(empty: URL) -> None:
    with plain_engine(empty).connect() as connection:
        migrating.upgrade(connection)
        shown = [
            connection.scalar(text(f"SHOW {name}"))
            for name in ("lock_timeout", "statement_timeout")
        ]
    assert shown == ["5s", "5min"]


def test_another_alembic_in_the_database_is_left_alone(empty: URL) -> None:
    with plain_engine(empty).begin() as connection:
        connection.execute(text("CREATE TABLE public.alembic_version (version_num text)"))
        connection.execute(text("INSERT INTO public.alembic_version VALUES ('of dagster')"))
    migrate(empty)
    with plain_engine(empty).connect() as connection:
        assert connection.scalar(text("TABLE public.alembic_version")) == "of dagster"
    assert revision(empty) == head_revision()


# Refusing.


def test_a_server_too_old_is_refused(empty: URL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrating, "OLDEST_SERVER", 999)
    with pytest.raises(MigrationRefused, match=r"the server is Postgres \d+; .* needs 999"):
        migrate(empty)
    assert catalog(empty)["tables"] == []


def test_a_url_without_a_database_is_refused(postgres: Server) -> None:
    with pytest.raises(MigrationRefused, match="names no database"):
        migrate(make_url(postgres.url("")).set(database=None))


def test_a_server_that_does_not_answer_is_told_by_the_database_asked_for(absent: URL) -> None:
    with pytest.raises(OperationalError, match="port 1 failed"):
        migrate(absent.set(port=1))


def test_a_wrong_password_is_told_as_such(absent: URL) -> None:
    with pytest.raises(OperationalError, match="password authentication failed"):
        migrate(absent.set(password="wrong"))


def test_who_may_not_create_a_database_is_told_what_to_ask_for(stranger: URL) -> None:
    with pytest.raises(MigrationRefused, match=f'CREATE DATABASE "{stranger.database}" OWNER'):
        migrate(stranger)


def test_an_owner_without_power_migrates_once_the_roles_are_granted(
    stranger: URL, server_engine: Engine, migrated: str
) -> None:
    with server_engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {stranger.database} OWNER stranger"))
        with pytest.raises(MigrationRefused, match=r"roles\.sql as a superuser"):
            migrate(stranger)
        connection.execute(
            text("GRANT isthmus_indexer, isthmus_api, isthmus_relay, isthmus_analyst TO stranger")
        )
    migrate(stranger)
    migrate(stranger)
    assert revision(stranger) == head_revision()


# The command.


def test_the_command_says_what_it_did_and_hides_the_password(absent: URL) -> None:
    url = absent.render_as_string(hide_password=False).replace("+psycopg", "")
    done = run("--url", url)
    assert done.returncode == 0, done.stderr
    assert f"created database {absent.database}" in done.stdout
    assert f"tables went from revision none to {head_revision()}" in done.stdout
    assert str(absent.password) not in done.stdout
    assert f"tables are at revision {head_revision()} already" in run("--url", url).stdout


def test_the_command_refuses_in_one_sentence(stranger: URL) -> None:
    done = run("--url", stranger.render_as_string(hide_password=False))
    assert done.returncode == 1
    assert done.stderr.startswith("MigrationRefused: there is no database")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "url", ["", "nonsense", "mysql://u:secret@127.0.0.1/db", "postgresql://[::1"]
)
def test_a_url_that_is_none_is_told_by_its_argument(url: str) -> None:
    done = run("--url", url)
    assert done.returncode == 2
    assert "Error: --url" in done.stderr
    assert "postgresql://" in done.stderr
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"port": 1}, "port 1 failed"), ({"password": "wrong"}, "password authentication failed")],
)
def test_a_server_that_cannot_be_reached_is_told_in_one_sentence(
    absent: URL, changes: dict[str, Any], reason: str
) -> None:
    done = run("--url", absent.set(**changes).render_as_string(hide_password=False))
    assert done.returncode == 1
    assert done.stderr.startswith("not migrated: ")
    assert reason in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_a_url_the_command_migrates_the_embedded_server() -> None:
    with server_folder("migrate") as folder:
        postgres = EmbeddedPostgres(folder / "data")
        try:
            done = run("--data", str(folder / "data"))
            assert done.returncode == 0, done.stderr
            assert revision(make_url(postgres.url())) == head_revision()
        finally:
            postgres.stop()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        isthmus("migrate", *arguments),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
