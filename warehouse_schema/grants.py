"""The privileges that `grants.sql` declares, and those that a database has.

`grants.sql` is the one declaration. It is read here, not run: the statements are applied in their
order to a set, so that a comparison changes nothing and needs no right to change anything.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from sqlalchemy import Connection, text

from warehouse_schema.engine import ROLES
from warehouse_schema.metadata import ANALYTICS, SCHEMAS

_FILE = Path(__file__).with_name("grants.sql")
_SCHEMAS = ("isthmus", *SCHEMAS, ANALYTICS)
_PUBLIC = "PUBLIC"
_GRANTEES = (_PUBLIC, *ROLES.values())
"""All others are the operator's own."""

_STATEMENT = re.compile(
    r"(?:ALTER DEFAULT PRIVILEGES IN SCHEMA (?P<default>\w+) )?"
    r"(?P<verb>GRANT|REVOKE) (?P<privileges>[A-Z, ]+?) ?(?:\((?P<columns>[\w, ]+)\) )?"
    r"ON (?:(?P<kind>ALL TABLES IN SCHEMA|SCHEMA|DATABASE|TABLES)\b ?)?(?P<names>[\w., ]*?) ?"
    r"(?:TO|FROM) (?P<grantees>[\w, ]+)"
)


class Grant(NamedTuple):
    """One privilege of one role on one object."""

    object: str
    """`schema.table`, `schema.table.column`, `schema facts`, `new tables of facts`, `database`."""
    role: str
    """Name in Postgres, or `PUBLIC`."""
    privilege: str


TableNames: TypeAlias = Mapping[str, Collection[str]]
"""Schema → its tables and views."""


def declared_grants(tables: TableNames) -> frozenset[Grant]:
    """What `grants.sql` leaves of a database with these tables.

    Raises `ValueError` for a statement of the file that is not understood.
    """
    held: set[Grant] = set()
    for statement in _statements(_FILE.read_text()):
        match = _STATEMENT.fullmatch(statement)
        if match is None:
            raise ValueError(f"grants.sql: not understood: {statement}")
        objects = list(_objects(match, tables))
        grantees = _words(match["grantees"])
        privileges = _words(match["privileges"])
        if match["verb"] == "GRANT":
            held.update(Grant(o, g, p) for o in objects for g in grantees for p in privileges)
            continue
        held = {
            each
            for each in held
            if each.object not in objects
            or each.role not in grantees
            or not {"ALL", each.privilege} & {*privileges}
        }
    return frozenset(held)


def _statements(file: str) -> Iterator[str]:
    """Statements on one line each, also those of the DO block, which fills in the database."""
    source = re.sub(r"--.*", "", file)
    source = re.sub(r"DO \$\$\s+BEGIN|END\s+\$\$;", "", source)
    source = re.sub(r"EXECUTE format\('(.*?) %I (.*?)', current_database\(\)\);", r"\1 \2;", source)
    for statement in source.split(";"):
        if statement.strip():
            yield " ".join(statement.split())


def _objects(match: re.Match[str], tables: TableNames) -> Iterator[str]:
    names = _words(match["names"])
    if match["default"]:
        yield f"new tables of {match['default']}"
    elif match["kind"] == "DATABASE":
        yield "database"
    elif match["kind"] == "SCHEMA":
        yield from (f"schema {name}" for name in names)
    elif match["kind"] == "ALL TABLES IN SCHEMA":
        yield from (f"{schema}.{table}" for schema in names for table in tables.get(schema, ()))
    else:
        existing = {f"{schema}.{table}" for schema in tables for table in tables[schema]}
        columns = _words(match["columns"] or "")
        for name in existing.intersection(names):
            yield from (f"{name}.{column}" for column in columns) if columns else (name,)


def _words(listed: str) -> list[str]:
    return [word.strip() for word in listed.split(",") if word.strip()]


_TABLES = text("""
    SELECT n.nspname AS schema, c.relname AS name
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = ANY(:schemas) AND c.relkind IN ('r', 'p', 'v', 'm')
""")
_HELD = text("""
    WITH schemas AS (SELECT oid, nspname, nspacl FROM pg_namespace WHERE nspname = ANY(:schemas)),
    tables AS (
        SELECT c.oid, s.nspname || '.' || c.relname AS name, c.relacl
          FROM pg_class c JOIN schemas s ON s.oid = c.relnamespace
         WHERE c.relkind IN ('r', 'p', 'v', 'm')
    ),
    lists AS (
        SELECT name AS object, relacl AS acl FROM tables
        UNION ALL
        SELECT t.name || '.' || a.attname, a.attacl
          FROM tables t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0
        UNION ALL
        SELECT 'schema ' || nspname, nspacl FROM schemas
        UNION ALL
        SELECT 'new tables of ' || s.nspname, d.defaclacl
          FROM pg_default_acl d JOIN schemas s ON s.oid = d.defaclnamespace
         WHERE d.defaclobjtype = 'r'
        UNION ALL
        SELECT 'database', coalesce(datacl, acldefault('d', datdba))
          FROM pg_database WHERE datname = current_database()
    )
    SELECT DISTINCT l.object, coalesce(r.rolname, 'PUBLIC') AS role, e.privilege_type AS privilege
      FROM lists l, aclexplode(l.acl) e LEFT JOIN pg_roles r ON r.oid = e.grantee
     WHERE (e.grantee = 0 OR r.rolname = ANY(:grantees))
       AND (l.object <> 'database' OR e.privilege_type = 'TEMPORARY')
""")


def held_grants(conn: Connection) -> frozenset[Grant]:
    """What the processes' roles and `PUBLIC` hold now, each by a grant of its own."""
    rows = conn.execute(_HELD, {"schemas": list(_SCHEMAS), "grantees": list(_GRANTEES)})
    return frozenset(Grant(row.object, row.role, row.privilege) for row in rows)


def table_names(conn: Connection) -> TableNames:
    """Tables and views of the warehouse's schemas that exist."""
    found = defaultdict[str, list[str]](list)
    for row in conn.execute(_TABLES, {"schemas": list(_SCHEMAS)}):
        found[row.schema].append(row.name)
    return found


def grant_differences(conn: Connection) -> list[str]:
    """A sentence for each privilege that is missing or too much, in a fixed order."""
    declared, held = declared_grants(table_names(conn)), held_grants(conn)
    missing = [f"{each.role} lacks {each.privilege} on {each.object}" for each in declared - held]
    extra = [f"{each.role} has {each.privilege} on {each.object}" for each in held - declared]
    return [*sorted(extra), *sorted(missing)]
