"""Checks of sessions at the API's start and by `isthmus doctor`, with one fault after the other."""

from collections.abc import Mapping

import pytest
from sqlalchemy.engine import URL

from api.sessions import GROUP, check_sessions, require_sound_sessions
from api.settings import load_api_settings
from indexer.config.settings import WrongSettings, load_settings
from tests.factories.machines import LOGIN, PooledLogin, Standby, pgbouncer, sql
from warehouse_schema.engine import make_engine, make_pooled_engine


def text_of(url: URL | None) -> str | None:
    return None if url is None else url.render_as_string(hide_password=False)


def faults(
    warehouse: URL, pooler: URL | None = None, replica: URL | None = None
) -> Mapping[str, str]:
    found = check_sessions(warehouse, text_of(pooler), text_of(replica))
    return {each.check: each.problem for each in found if each.is_finding}


def test_pooler_and_replica_as_documented_have_no_finding(
    api_database: URL, pooler: URL, replica: Standby, login: URL
) -> None:
    assert faults(api_database, pooler, replica.url(login)) == {}


def test_each_session_is_checked(api_database: URL, pooler: URL, replica: Standby, login: URL):
    urls = (api_database, text_of(pooler), text_of(replica.url(login)))
    found = list(check_sessions(*urls))
    assert {each.check for each in found} == {check.id for check in GROUP.checks}
    assert not any(str(login.password) in repr(each) for each in found)


def test_replica_through_a_pooler_has_no_finding(
    api_database: URL, pooled: PooledLogin, replica: Standby
) -> None:
    there = PooledLogin(replica.url(pooled.url), pooled.secret)
    with pgbouncer(there) as url:
        assert faults(api_database, replica=url) == {}


def test_pooler_as_database_url_is_found(pooler: URL) -> None:
    assert faults(pooler) == {
        "sessions.listen": "DATABASE_URL is a pooler, and LISTEN needs a session of Postgres"
    }


def test_owner_as_pooled_login_is_found(api_database: URL) -> None:
    found = faults(api_database, pooler=api_database)
    assert list(found) == ["sessions.pooler"]
    assert "role is none, it must be isthmus_api" in found["sessions.pooler"]
    assert "statement_timeout is 0, it must be 5s" in found["sessions.pooler"]


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("role", "DEFAULT", "role is none, it must be isthmus_api"),
        ("timezone", "'Europe/Berlin'", "timezone is Europe/Berlin, it must be UTC"),
        ("lock_timeout", "'1min'", "lock_timeout is 1min, it must be 10s"),
        ("statement_timeout", "0", "statement_timeout is 0, it must be 5s"),
    ],
)
def test_login_with_another_setting_is_found(
    api_database: URL, login: URL, replica: Standby, setting: str, value: str, words: str
) -> None:
    alter = f"ALTER ROLE {LOGIN} IN DATABASE {login.database} SET {setting}"
    good = {"role": "isthmus_api", "timezone": "UTC", "lock_timeout": "10s"}
    sql(api_database, f"{alter} = {value}")
    try:
        found = faults(api_database, pooler=login)
    finally:
        sql(api_database, f"{alter} = '{good.get(setting, '5s')}'")
        replica.catch_up()
    assert found == {"sessions.pooler": f"ISTHMUS_POOLER_URL: {words}"}


def test_primary_as_replica_is_found(api_database: URL, login: URL) -> None:
    assert faults(api_database, replica=login) == {
        "sessions.replica": "ISTHMUS_REPLICA_URL: it is no standby"
    }


def test_replica_as_pooler_is_found(api_database: URL, login: URL, replica: Standby) -> None:
    assert faults(api_database, pooler=replica.url(login)) == {
        "sessions.pooler": "ISTHMUS_POOLER_URL: it is a standby"
    }


def test_replica_of_another_database_is_found(database: URL, login: URL, replica: Standby) -> None:
    found = faults(database, replica=replica.url(login))
    assert list(found) == ["sessions.replica"]
    assert "another server or database than DATABASE_URL" in found["sessions.replica"]


def test_unreachable_sessions_do_not_stop_the_start(
    api_database: URL, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    env = {"DATABASE_URL": str(text_of(api_database)), "ISTHMUS_POOLER_URL": nowhere}
    require_sound_sessions(load_settings(env), load_api_settings(env))
    [line] = caplog.messages
    assert "ISTHMUS_POOLER_URL: connection" in line


def test_unsound_sessions_are_named_together(api_database: URL, login: URL) -> None:
    env = {
        "DATABASE_URL": str(text_of(api_database)),
        "ISTHMUS_POOLER_URL": str(text_of(api_database)),
        "ISTHMUS_REPLICA_URL": str(text_of(login)),
    }
    with pytest.raises(WrongSettings) as refused:
        require_sound_sessions(load_settings(env), load_api_settings(env))
    assert [each.partition(":")[0] for each in refused.value.problems] == [
        "ISTHMUS_POOLER_URL",
        "ISTHMUS_REPLICA_URL",
    ]


def test_pooler_refuses_sessions_with_options(pooler: URL) -> None:
    with pytest.raises(Exception, match="unsupported startup parameter: options"):
        make_engine(pooler, role="api").connect()


def test_pooled_sessions_prepare_no_statement(pooler: URL) -> None:
    engine = make_pooled_engine(pooler, "api", pool_size=1)
    with engine.connect() as conn:
        assert conn.connection.driver_connection.prepare_threshold is None
    engine.dispose()
