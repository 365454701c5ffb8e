"""`/healthz` and `/readyz`."""

import pytest
from limits import parse
from sqlalchemy import text

from api.rate_limits import READS, RateBudgets, RateLimiter
from api.shutdown import GracefulShutdown
from tests.factories.app import make_app
from tests.factories.intake import ask
from tests.factories.projections import LEDGER, STELLAR, insert_cursor, insert_reconciliation
from tests.factories.stage_facts import DIRECT

SEPOLIA = "eip155:11155111"


def test_healthz_without_database_returns_200(cut_off):
    response = cut_off.get("/healthz")
    assert (response.status_code, response.json) == (200, {"status": "alive"})


def test_readyz_without_database_returns_503(cut_off):
    response = cut_off.get("/readyz")
    assert response.status_code == 503
    assert response.json["code"] == "NOT_READY"
    assert response.json["reasons"] == ["the database cannot be reached"]


def test_readyz_with_healthy_chains_returns_200(client, rows):
    insert_cursor(rows, STELLAR)
    response = client.get("/readyz")
    assert response.status_code == 200
    age = response.json["chains"][0].pop("age_seconds")
    assert 0 <= age < 60
    assert response.json["status"] == "ready"


def test_readyz_lists_each_followed_chain(client, rows):
    insert_cursor(rows, STELLAR, idle_seconds=10)
    (chain,) = client.get("/readyz").json["chains"]
    assert chain.pop("age_seconds") in range(10, 25)
    assert chain == {"chain": STELLAR, "height": LEDGER, "lag_seconds": 0, "reason": None}


def test_readyz_ignores_chains_never_ingested(client, rows):
    insert_cursor(rows, STELLAR)
    response = client.get("/readyz")
    assert response.status_code == 200
    assert [chain["chain"] for chain in response.json["chains"]] == [STELLAR]


def test_readyz_without_stellar_ledger_returns_503(client):
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json["reasons"] == [f"{STELLAR} has not been ingested yet"]
    (chain,) = response.json["chains"]
    assert chain == {
        "chain": STELLAR,
        "height": None,
        "lag_seconds": None,
        "age_seconds": None,
        "reason": "NOT_STARTED",
    }


@pytest.mark.parametrize(
    ("cursor", "code", "sentence"),
    [
        ({"held": "retention gap"}, "ON_HOLD", "is on hold"),
        ({"idle_seconds": 47}, "STOPPED", "stands still"),
        (
            {"idle_seconds": 47, "failure": "https://node.example/v2/SECRET"},
            "NODE_FAILING",
            "cannot be read from its node",
        ),
        (
            {"idle_seconds": 47, "reported_at": text("now() - interval '47 seconds'")},
            "NOT_FOLLOWED",
            "is not being followed",
        ),
        ({"block_time": 1, "head_time": 5001}, "LATE", "is behind its head"),
    ],
)
def test_readyz_with_unhealthy_chain_returns_503(client, rows, cursor, code, sentence):
    insert_cursor(rows, STELLAR)
    insert_cursor(rows, SEPOLIA, **cursor)
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json["reasons"] == [f"{SEPOLIA} {sentence}"]
    assert response.json["message"] == f"{SEPOLIA} {sentence}"
    assert b"node.example" not in response.data
    reasons = {chain["chain"]: chain["reason"] for chain in response.json["chains"]}
    assert reasons == {STELLAR: None, SEPOLIA: code}


def test_readyz_names_every_reason(client, rows):
    insert_cursor(rows, SEPOLIA, held="wrong chain")
    assert sorted(client.get("/readyz").json["reasons"]) == [
        f"{SEPOLIA} is on hold",
        f"{STELLAR} has not been ingested yet",
    ]


def test_readyz_hides_node_errors(client, rows):
    insert_cursor(rows, STELLAR, held="https://node.example/v2/SECRET answered 403")
    assert b"node.example" not in client.get("/readyz").data


@pytest.mark.parametrize(("age", "status"), [(3_500, 200), (3_700, 503)])
def test_readyz_requires_a_recent_reconciliation(client, rows, age, status):
    insert_cursor(rows, STELLAR)
    insert_reconciliation(rows, age_seconds=age)
    response = client.get("/readyz")
    assert response.status_code == status
    old = ["the last reconciliation is over 60 minutes old"]
    assert response.json.get("reasons", []) == (old if status == 503 else [])


def test_readyz_with_transfers_requires_a_reconciliation(engine, api_engine):
    client = make_app(api_engine).test_client()
    with engine.begin() as connection:
        insert_cursor(connection, STELLAR)
    assert client.get("/readyz").status_code == 200
    with engine.begin() as connection:
        ask(connection, DIRECT)
    assert client.get("/readyz").json["reasons"] == [
        "the last reconciliation is over 60 minutes old"
    ]


def test_readyz_at_later_revision_returns_200(engine, api_engine):
    with engine.begin() as connection:
        insert_cursor(connection, STELLAR)
        connection.execute(text("UPDATE isthmus.alembic_version SET version_num = '9999'"))
    assert make_app(api_engine).test_client().get("/readyz").status_code == 200


def test_readyz_at_earlier_revision_returns_503(engine, api_engine):
    with engine.begin() as connection:
        insert_cursor(connection, STELLAR)
        connection.execute(text("UPDATE isthmus.alembic_version SET version_num = '0000'"))
    response = make_app(api_engine).test_client().get("/readyz")
    assert response.status_code == 503
    assert "the database is at revision 0000, this build at" in response.json["message"]


def test_readyz_says_when_the_process_shuts_down(reader, rows):
    insert_cursor(rows, STELLAR)
    shutdown = GracefulShutdown(10)
    client = make_app(reader, shutdown=shutdown, readiness_seconds=60).test_client()
    assert client.get("/readyz/process").json == {"status": "ready"}
    shutdown.has_begun = True
    for path in ("/readyz", "/readyz/process"):
        response = client.get(path)
        assert (response.status_code, response.json["code"]) == (503, "NOT_READY")
        assert response.json["reasons"] == ["the process is shutting down"]
    assert client.get("/healthz").status_code == 200


def test_process_is_ready_while_a_chain_lags(client):
    assert client.get("/readyz").status_code == 503
    assert client.get("/readyz/process").status_code == 200


def test_process_without_database_is_not_ready(cut_off):
    response = cut_off.get("/readyz/process")
    assert response.status_code == 503
    assert response.json["reasons"] == ["the database cannot be reached"]


def test_process_readiness_is_not_limited_and_read_once_in_a_while(engine, api_engine):
    limits = RateLimiter(RateBudgets({READS: parse("1/minute")}))
    client = make_app(api_engine, limiter=limits, readiness_seconds=60).test_client()
    assert client.get("/readyz").status_code == 503
    assert client.get("/readyz").status_code == 429
    assert client.get("/readyz/process").status_code == 200
    # No further answer comes from the database.
    with engine.begin() as connection:
        connection.execute(text("UPDATE isthmus.alembic_version SET version_num = '0000'"))
    assert [client.get("/readyz/process").status_code for _ in range(3)] == [200] * 3
