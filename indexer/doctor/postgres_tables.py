"""Roles, revision and privileges of the warehouse, as this build declares them."""

from collections.abc import Sequence

from sqlalchemy import Connection, text

from indexer.doctor.checks import Check, CheckResult
from warehouse_schema.engine import ROLES
from warehouse_schema.grants import grant_differences, table_names
from warehouse_schema.migrate import current_revision, head_revision

_MIGRATE = "Run `isthmus migrate` as the owner of the tables."
_MAX_SENTENCES = 5

ROLES_CHECK = Check(
    "postgres.roles",
    "The processes' roles exist, have no attribute and are in no other role; the user of "
    "DATABASE_URL may take one of them.",
    "As a superuser: `ALTER ROLE … NOLOGIN NOSUPERUSER NOCREATEROLE NOCREATEDB NOREPLICATION "
    "NOBYPASSRLS`, and `REVOKE …` each membership.",
)
MIGRATIONS = Check("postgres.migrations", "The tables are at this build's revision.", _MIGRATE)
GRANTS = Check(
    "postgres.grants",
    "Each role, and PUBLIC, has exactly the privileges of `warehouse_schema/grants.sql`.",
    f"{_MIGRATE} It grants what is missing and revokes the rest.",
)

_ROLES = text("""
    SELECT r.rolname AS name,
           array_remove(ARRAY[
               CASE WHEN r.rolcanlogin THEN 'may log in' END,
               CASE WHEN r.rolsuper THEN 'is a superuser' END,
               CASE WHEN r.rolcreaterole THEN 'may create roles' END,
               CASE WHEN r.rolcreatedb THEN 'may create databases' END,
               CASE WHEN r.rolreplication THEN 'may replicate' END,
               CASE WHEN r.rolbypassrls THEN 'bypasses row security' END
           ], NULL) || ARRAY(
               SELECT 'is a member of ' || g.rolname
                 FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid
                WHERE m.member = r.oid ORDER BY g.rolname
           ) AS attributes,
           pg_has_role(current_user, r.oid, CASE
               WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER'
           END) AS may_take
      FROM pg_roles r WHERE r.rolname = ANY(:names) ORDER BY r.rolname
""")


def check_roles(conn: Connection, subject: str) -> CheckResult:
    """The processes' roles: there, without a right that `grants.sql` does not give."""
    rows = conn.execute(_ROLES, {"names": list(ROLES.values())}).all()
    missing = sorted({*ROLES.values()} - {row.name for row in rows})
    if missing:
        return ROLES_CHECK.failed(subject, f"there is no role {', '.join(missing)}", _MIGRATE)
    wrong = [f"{row.name} {each}" for row in rows for each in row.attributes]
    if wrong:
        return ROLES_CHECK.failed(subject, joined(wrong))
    taken = [row.name for row in rows if row.may_take]
    if not taken:
        return ROLES_CHECK.failed(
            subject,
            "the user of DATABASE_URL may take none of the processes' roles",
            "GRANT that user the role of its process.",
        )
    return ROLES_CHECK.ok(subject, f"the user may take {', '.join(taken)}")


def check_migrations(conn: Connection, subject: str) -> CheckResult:
    """Revision of the tables."""
    if conn.scalar(text("SELECT to_regclass('isthmus.alembic_version')")) is None:
        return MIGRATIONS.failed(subject, "the database has no tables of the warehouse")
    current, head = current_revision(conn), head_revision()
    if current != head:
        problem = f"the tables are at revision {current}, this build needs {head}"
        return MIGRATIONS.failed(subject, problem)
    return MIGRATIONS.ok(subject, f"revision {current}")


def check_grants(conn: Connection, subject: str) -> CheckResult | None:
    """Privileges of the roles; None in a database without tables."""
    if not table_names(conn):
        return None
    wrong = grant_differences(conn)
    return GRANTS.failed(subject, joined(wrong)) if wrong else GRANTS.ok(subject, "as declared")


def joined(sentences: Sequence[str]) -> str:
    """The first sentences, and how many more there are."""
    more = len(sentences) - _MAX_SENTENCES
    shown = "; ".join(sentences[:_MAX_SENTENCES])
    return f"{shown}; and {more} more" if more > 0 else shown
