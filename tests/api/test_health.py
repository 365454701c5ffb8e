"""`/healthz` and `/readyz`."""

import pytest
from sqlalchemy import text

from tests.factories.app import make_app
from tests.factories.projections import LEDGER, STELLAR, insert_cursor

SEPOLIA = "eip155:11155111"


def test_a_process_lives_without_a_database(cut_off):
    response = cut_off.get("/healthz")
    assert (response.status_code, response.json) == (200, {"status": "alive"})


def test_without_a_database_it_is_not_ready(cut_off):
    response = cut_off.get("/readyz")
    assert response.status_code == 503
    assert response.json["code"] == "NOT_READY"
    assert response.json["reasons"] == ["the database cannot be reached"]


def test_it_is_ready_when_every_followed_chain_is_well(client, rows):
    insert_cursor(rows, STELLAR)
    response = client.get("/readyz")
    assert response.status_code == 200
    age = response.json["chains"][0].pop("age_seconds")
    assert 0 <= age < 60
    assert response.json["status"] == "ready"


def test_how_each_followed_chain_stands_is_said(client, rows):
    insert_cursor(rows, STELLAR, idle_seconds=30)
    (chain,) = client.get("/readyz").json["chains"]
    assert chain.pop("age_seconds") in range(30, 60)
    assert chain == {"chain": STELLAR, "height": LEDGER, "lag_seconds": 0, "reason": None}


def test_a_chain_that_is_not_followed_does_not_matter(client, rows):
    insert_cursor(rows, STELLAR)
    insert_cursor(rows, SEPOLIA, held="wrong chain")
    assert client.get("/readyz").status_code == 200


@pytest.mark.parametrize(
    ("cursor", "reason"),
    [
        ({"held": "retention gap"}, f"{SEPOLIA} is on hold: retention gap"),
        ({"idle_seconds": 900}, f"{SEPOLIA} has stood still for 900 s"),
        ({"block_time": 1, "head_time": 5001}, f"{SEPOLIA} is 5000 s behind its head"),
    ],
)
def test_it_is_not_ready_while_a_followed_chain_is_unwell(reader, rows, cursor, reason):
    insert_cursor(rows, STELLAR)
    insert_cursor(rows, SEPOLIA, **cursor)
    client = make_app(reader, followed=(STELLAR, SEPOLIA)).test_client()
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json["reasons"] == [reason]
    assert response.json["message"] == reason
    assert [chain["reason"] for chain in response.json["chains"]] == [None, reason]


def test_every_reason_is_named(reader, rows):
    client = make_app(reader, followed=(STELLAR, SEPOLIA)).test_client()
    reasons = client.get("/readyz").json["reasons"]
    assert reasons == [
        f"{STELLAR} has not been ingested yet",
        f"{SEPOLIA} has not been ingested yet",
    ]


def test_it_is_not_ready_on_tables_of_another_revision(engine, api_engine):
    with engine.begin() as connection:
        insert_cursor(connection, STELLAR)
        connection.execute(text("UPDATE isthmus.alembic_version SET version_num = '0000'"))
    response = make_app(api_engine).test_client().get("/readyz")
    assert response.status_code == 503
    assert "the database is at revision 0000, this build at" in response.json["message"]
