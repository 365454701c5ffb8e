"""Analytics views: equal to their files after migration; rebuilds, locks and privileges."""

from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import OperationalError

from warehouse_schema import views
from warehouse_schema.engine import make_engine
from warehouse_schema.metadata import ANALYTICS_COMMENT
from warehouse_schema.migrate import MigrationRefused, migrate
from warehouse_schema.views import NAMES, ViewInUse, make_views

FOLDER = Path(views.__file__).parent

DEFINED = text("SELECT pg_get_viewdef('analytics.market_now'::regclass)")
HERE = text("SELECT viewname FROM pg_views WHERE schemaname = 'analytics'")
READ = text("""
    SELECT DISTINCT v.relname AS view, n.nspname AS schema,
           n.nspname || '.' || c.relname || '.' || a.attname AS column
    FROM pg_depend d
    JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
    JOIN pg_class v ON v.oid = r.ev_class
    JOIN pg_namespace o ON o.oid = v.relnamespace AND o.nspname = 'analytics'
    JOIN pg_class c ON c.oid = d.refobjid AND d.refclassid = 'pg_class'::regclass
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid
    JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname <> 'analytics'
""")
OPEN_SCHEMAS = ("facts", "projections")
SUMMED_UP = {
    "quote_funnel_daily": {
        *("intake.quotes.id", "intake.quotes.created_at", "intake.quotes.route"),
        *("intake.quotes.amount_in", "intake.quotes.source_chain"),
        *("intake.transfers.id", "intake.transfers.quote"),
    },
    "transfer_outcomes_daily": {
        *("intake.quotes.id", "intake.quotes.route", "intake.quotes.amount_in"),
        *("intake.quotes.source_chain", "intake.transfers.id", "intake.transfers.quote"),
        "intake.transfers.started_at",
    },
    "relay_costs_daily": {
        *("intake.quotes.id", "intake.quotes.route", "intake.transfers.id"),
        *("intake.transfers.quote", "relay.slots.chain", "relay.slots.purpose"),
        *("relay.slots.outcome", "relay.slots.spent", "relay.slots.closed_at"),
        "relay.slots.subject",
    },
}
"""Views over intake and relay, and the columns that they read there. Ids serve joins alone: that
none comes out is shown by test_customer_views.py."""


def test_view_files_equal_the_views_in_the_database(connection: Connection) -> None:
    assert {path.stem for path in FOLDER.glob("*.sql")} == set(NAMES)
    assert set(connection.scalars(HERE)) == set(NAMES)


def test_views_read_only_declared_columns_of_closed_schemas(connection: Connection) -> None:
    # A view reads with its owner's rights: one over intake or relay opens what it selects.
    closed: dict[str, set[str]] = {}
    for row in connection.execute(READ):
        if row.schema not in OPEN_SCHEMAS:
            closed.setdefault(row.view, set()).add(row.column)
    assert closed == SUMMED_UP
    barriers = text(
        "SELECT relname FROM pg_class WHERE relnamespace = 'analytics'::regnamespace"
        " AND 'security_barrier=true' = ANY(reloptions)"
    )
    assert set(connection.scalars(barriers)) == set(SUMMED_UP)


def test_analytics_schema_has_its_comment(connection: Connection) -> None:
    comment = connection.scalar(text("SELECT obj_description('analytics'::regnamespace)"))
    assert comment == ANALYTICS_COMMENT


def test_current_views_are_not_rebuilt(connection: Connection) -> None:
    before = connection.scalar(text("SELECT 'analytics.market_now'::regclass::oid::bigint"))
    assert make_views(connection) is False
    after = connection.scalar(text("SELECT 'analytics.market_now'::regclass::oid::bigint"))
    assert (before, connection.scalar(text("SELECT to_regnamespace('analytics_next')"))) == (
        after,
        None,
    )


@pytest.mark.parametrize(
    "change",
    [
        "DROP VIEW analytics.market_now; CREATE VIEW analytics.market_now AS SELECT 1 AS as_of",
        "DROP VIEW analytics.market_now",
        "CREATE VIEW analytics.stray AS SELECT 1 AS n",
        "ALTER VIEW analytics.market_now RENAME COLUMN as_of TO moment",
        "COMMENT ON COLUMN analytics.market_now.as_of IS 'something else'",
        "COMMENT ON VIEW analytics.market_now IS NULL",
    ],
    ids=["other columns", "missing", "too many", "renamed", "other comment", "no comment"],
)
def test_changed_view_is_rebuilt_from_its_file(connection: Connection, change: str) -> None:
    wanted = connection.scalar(DEFINED)
    connection.execute(text(change))
    assert make_views(connection) is True
    connection.execute(text("SET LOCAL search_path = public"))
    assert connection.scalar(DEFINED) == wanted
    assert set(connection.scalars(HERE)) == set(NAMES)
    assert make_views(connection) is False


def test_service_works_while_views_are_rebuilt(engine: Engine, indexer_engine: Engine) -> None:
    with engine.connect() as migrating, indexer_engine.connect() as running:
        migrating.execute(text("DROP VIEW analytics.market_now"))
        make_views(migrating)
        running.execute(text("SET LOCAL lock_timeout = '1s'"))
        running.execute(text("UPDATE facts.cursors SET held = NULL"))
        running.execute(text("DELETE FROM projections.orders"))
        running.commit()
        migrating.rollback()


def test_migration_without_view_change_waits_for_no_query(engine: Engine) -> None:
    analysts = make_engine(engine.url, role="analyst", pool_size=1)
    with analysts.connect() as reading:
        reading.execute(text("SELECT * FROM analytics.utilisation_daily"))
        migrate(engine.url)
    analysts.dispose()


def test_view_change_times_out_behind_a_long_query(engine: Engine) -> None:
    with engine.begin() as owner:
        owner.execute(text("COMMENT ON VIEW analytics.market_now IS 'of last year'"))
    analysts = make_engine(engine.url, role="analyst", pool_size=1)
    with analysts.connect() as reading, engine.connect() as owner:
        reading.execute(text("SELECT * FROM analytics.market_now"))
        owner.execute(text("SET lock_timeout = '100ms'"))
        with pytest.raises(OperationalError, match="lock timeout"):
            make_views(owner)
        owner.rollback()
        reading.execute(text("SELECT * FROM analytics.market_now"))
    analysts.dispose()
    migrate(engine.url)


def test_analysts_can_read_rebuilt_views(engine: Engine) -> None:
    with engine.begin() as owner:
        owner.execute(text("DROP VIEW analytics.market_now"))
    migrate(engine.url)
    analysts = make_engine(engine.url, role="analyst", pool_size=1)
    with analysts.connect() as reading:
        reading.execute(text("SELECT * FROM analytics.market_now"))
    analysts.dispose()


def test_view_with_dependents_is_not_dropped(engine: Engine) -> None:
    with engine.begin() as owner:
        owner.execute(text("CREATE SCHEMA board"))
        owner.execute(text("CREATE VIEW board.now AS SELECT as_of FROM analytics.market_now"))
    migrate(engine.url)
    with engine.begin() as owner:
        owner.execute(text("COMMENT ON VIEW analytics.market_now IS 'of last year'"))
    with pytest.raises(MigrationRefused, match=r"view board\.now depends on view"):
        migrate(engine.url)
    with engine.connect() as owner:
        with pytest.raises(ViewInUse):
            make_views(owner)
        owner.rollback()
        owner.execute(text("SELECT * FROM board.now"))


def test_analytics_schema_of_another_owner_is_refused(
    engine: Engine, server_engine: Engine
) -> None:
    with engine.begin() as owner:
        owner.execute(text("DROP SCHEMA analytics CASCADE"))
        owner.execute(text("CREATE ROLE plain LOGIN PASSWORD 'known'"))
        owner.execute(text("CREATE SCHEMA analytics"))
        owner.execute(text("GRANT CREATE ON DATABASE " + str(engine.url.database) + " TO plain"))
        owner.execute(text("GRANT isthmus_indexer, isthmus_api TO plain"))
        owner.execute(text("GRANT isthmus_relay, isthmus_analyst TO plain"))
        owner.execute(text("GRANT ALL ON SCHEMA isthmus TO plain"))
        owner.execute(text("GRANT ALL ON ALL TABLES IN SCHEMA isthmus TO plain"))
        owner.execute(text("GRANT USAGE ON SCHEMA facts, projections TO plain"))
        owner.execute(text("GRANT SELECT ON ALL TABLES IN SCHEMA facts, projections TO plain"))
        owner.execute(text("ALTER SCHEMA isthmus OWNER TO plain"))
    try:
        with pytest.raises(MigrationRefused, match="may not make the schema analytics"):
            migrate(engine.url.set(username="plain", password="known"))
    finally:
        with engine.begin() as owner:
            owner.execute(text("ALTER SCHEMA isthmus OWNER TO CURRENT_USER"))
            owner.execute(text("DROP OWNED BY plain"))
            owner.execute(text("DROP ROLE plain"))


def test_day_queries_use_the_index(connection: Connection) -> None:
    connection.execute(text("SET LOCAL enable_seqscan = off"))
    for view, index in (
        ("fill_rate_daily", "ix_orders_created_day"),
        ("volume_daily", "ix_orders_created_day"),
        ("volume_daily", "ix_orders_ended_day"),
        ("effective_rate_daily", "ix_orders_ended_day"),
        ("route_volume_daily", "ix_movements_sent_day"),
        ("route_volume_daily", "ix_movements_delivered_day"),
    ):
        explain = text(f"EXPLAIN SELECT * FROM analytics.{view} WHERE day = '2026-11-21'")
        assert index in "\n".join(connection.scalars(explain)), view


def test_session_time_zone_does_not_move_a_day(connection: Connection) -> None:
    connection.execute(text("SET LOCAL timezone = 'Pacific/Kiritimati'"))
    connection.execute(
        text(
            "INSERT INTO projections.movements"
            " (id, mechanism, group_key, stage, source_tx, amount_in, sent_at)"
            " VALUES ('oft:1', 'oft', '1', 'IN_FLIGHT', '0x1', 5000000, 1795305599),"
            "        ('oft:2', 'oft', '2', 'IN_FLIGHT', '0x2', 7000000, 1795305600)"
        )
    )
    rows = connection.execute(
        text("SELECT day::text, sent_tokens::text FROM analytics.route_volume_daily ORDER BY 1")
    )
    assert [tuple(row) for row in rows] == [
        ("2026-11-21", "5.000000"),
        ("2026-11-22", "7.000000"),
    ]
