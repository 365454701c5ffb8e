"""`GET /v1/status`: flows, findings and reasons, without transfer ids."""

from typing import Any

import pytest
from sqlalchemy import Connection, Engine, delete

from indexer.analytics.reconciliation import MAX_WAIT_SECONDS, reconcile
from indexer.transfers.store import refold_transfers
from tests.factories.app import make_app
from tests.factories.intake import ask
from tests.factories.projections import insert_cursor, insert_reconciliation
from tests.factories.stage_facts import DIRECT, bring_in, burn, mint
from tests.factories.stage_history import EXPIRY, make_terms
from tests.factories.transfers import NETWORK
from warehouse_schema.events import cctp_burns

PATH = "/v1/status"
NOT_INGESTED = "stellar:testnet has not been ingested yet"
EACH = str(DIRECT.amount_in * 10)


@pytest.fixture
def seen(engine: Engine, indexer_engine: Engine, api_engine: Engine):
    """Call it with what to do to the warehouse before somebody looks; gives what is shown then."""

    def show(*changes) -> Any:
        with engine.begin() as conn:
            for change in changes:
                change(conn)
        reconcile(indexer_engine, NETWORK)
        answer = make_app(api_engine).test_client().get(PATH)
        assert answer.status_code == 200
        return answer.json

    return show


def test_status_before_the_first_reconciliation_is_null(api_engine: Engine):
    shown = make_app(api_engine).test_client().get(PATH).json
    assert shown == {
        "at": None,
        "adds_up": None,
        "reasons": [NOT_INGESTED],
        "flows": [],
        "under_way": {},
        "findings": {},
    }


def test_status_names_unhealthy_chains_as_readyz(engine: Engine, api_engine: Engine):
    with engine.begin() as conn:
        insert_cursor(conn, "stellar:testnet", held="https://node.example/SECRET")
        insert_reconciliation(conn, age_seconds=3_700)
    client = make_app(api_engine).test_client()
    reasons = client.get(PATH).json["reasons"]
    assert reasons == [
        "stellar:testnet is on hold",
        "the last reconciliation is over 60 minutes old",
    ]
    assert client.get("/readyz").json["reasons"] == reasons


def test_status_shows_flows(seen):
    shown = seen(
        lambda conn: bring_in(conn, *burn(DIRECT, 100, "a")),
        lambda conn: bring_in(conn, *mint(DIRECT, 200)),
    )
    assert shown.pop("at").endswith("Z")
    assert shown == {
        "adds_up": True,
        "reasons": [NOT_INGESTED],
        "flows": [
            {
                "mechanism": "cctp",
                "source_chain": "eip155:1",
                "dest_chain": "stellar:pubnet",
                "sent": {"count": 1, "amount": EACH},
                "delivered": {"count": 1, "amount": EACH},
                "fees": "0",
                "on_the_way": {"count": 0, "amount": "0"},
                "unexplained": {"count": 0, "amount": "0"},
            }
        ],
        "under_way": {},
        "findings": {},
    }


def test_status_counts_findings_without_names(seen):
    def waits(conn: Connection) -> None:
        ask(conn, DIRECT)
        refold_transfers(conn, NETWORK, [DIRECT.id])

    shown = seen(
        lambda conn: bring_in(conn, *burn(make_terms(id="c3" * 16), 100, "a")),
        lambda conn: conn.execute(delete(cctp_burns)),
        waits,
    )
    # It is of long ago, and nobody let it expire.
    assert EXPIRY + MAX_WAIT_SECONDS["user"] < 1_800_000_000
    assert shown["adds_up"] is False
    assert shown["under_way"] == {"AWAITING_SIGNATURE": 1}
    assert shown["findings"] == {"movements_hold_all_facts": 1, "transfers_move_on": 1}
    assert DIRECT.id not in str(shown)
    assert DIRECT.owner not in str(shown)


def test_unchanged_status_returns_304(seen, api_engine: Engine):
    seen()
    client = make_app(api_engine).test_client()
    tag = client.get(PATH).headers["ETag"]
    assert client.get(PATH, headers={"If-None-Match": tag}).status_code == 304
