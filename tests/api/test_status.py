"""`GET /v1/status`: verdict, flows, findings and reasons, without names of nodes or transfers."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, delete, insert, update

from api.recent import Recent
from api.replica import Replica, WalPosition
from api.status.recent import Answer, is_as_of
from indexer.analytics.reconciliation import MAX_WAIT_SECONDS, reconcile
from indexer.transfers.store import refold_transfers
from tests.factories.app import make_app
from tests.factories.intake import ask
from tests.factories.projections import (
    CLOSE_TIME,
    LEDGER,
    STELLAR,
    insert_cursor,
    insert_reconciliation,
    insert_sender,
)
from tests.factories.stage_facts import DIRECT, bring_in, burn, mint
from tests.factories.stage_history import EXPIRY, make_terms
from tests.factories.transfers import NETWORK
from warehouse_schema.events import cctp_burns
from warehouse_schema.facts import alarms
from warehouse_schema.projections import reconciliation

PATH = "/v1/status"
NOT_INGESTED = "stellar:testnet has not been ingested yet"
EACH = str(DIRECT.amount_in * 10)
STATUS_MEMBERS = ("as_of", "verdict", "sentence", "problems", "chains", "routes", "incidents")
SEPOLIA = "eip155:11155111"
SECRET = "https://node.example/v2/SECRET"


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
    assert shown.pop("as_of").endswith("Z")
    [chain] = shown.pop("chains")
    assert (chain["height"], chain["reason"]) == (None, "NOT_STARTED")
    assert shown == {
        "verdict": "unknown",
        "sentence": f"It is not known whether transfers are moving: {NOT_INGESTED}; "
        "no relay has reported yet.",
        "problems": [{"kind": "chain", "text": NOT_INGESTED}],
        "routes": [],
        "incidents": [],
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
    for member in STATUS_MEMBERS:
        shown.pop(member)
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


def test_status_shows_chains_routes_and_incidents(client, rows):
    insert_cursor(rows, STELLAR)
    insert_cursor(rows, SEPOLIA, final_height=LEDGER - 64, block_time=CLOSE_TIME - 9)
    insert_reconciliation(rows)
    shown = client.get(PATH).json
    assert (shown["verdict"], shown["sentence"]) == ("moving", "Transfers are moving.")
    stellar, sepolia = shown["chains"]
    assert stellar["final_height"] is None
    assert sepolia.pop("age_seconds") < 60
    assert sepolia == {
        "chain": SEPOLIA,
        "name": "Sepolia",
        "height": LEDGER,
        "head_height": LEDGER,
        "final_height": LEDGER - 64,
        "lag_seconds": 9,
        "reason": None,
    }
    [deposit] = [each for each in shown["routes"] if each["route"] == "usdc-deposit"]
    assert deposit.pop("expected_seconds") > 0
    assert deposit == {
        "route": "usdc-deposit",
        "source_chain": SEPOLIA,
        "dest_chain": STELLAR,
        "available": True,
        "median_seconds": None,
        "p90_seconds": None,
    }


def test_status_routes_are_available_as_in_routes(client, rows):
    insert_cursor(rows, STELLAR)
    insert_cursor(rows, SEPOLIA, held="x")
    lanes = client.get(PATH).json["routes"]
    ends = {
        (route["id"], side, end["chain"]): end["available"]
        for route in client.get("/v1/routes").json["routes"]
        for side in ("source_chains", "dest_chains")
        for end in route[side]
    }
    assert {lane["available"] for lane in lanes} == {True, False}
    for lane in lanes:
        source = ends[lane["route"], "source_chains", lane["source_chain"]]
        dest = ends[lane["route"], "dest_chains", lane["dest_chain"]]
        assert lane["available"] == (source and dest)


def test_status_tells_strangers_no_reason_of_nodes_accounts_or_alarms(engine, api_engine):
    with engine.begin() as conn:
        insert_cursor(conn, STELLAR, idle_seconds=99, failure=SECRET, relayed=False)
        insert_cursor(conn, SEPOLIA, held=SECRET, relayed=False)
        insert_sender(conn, SEPOLIA, account="SECRET-ACCOUNT", reason=SECRET, well=False)
        insert_sender(conn, STELLAR, account="SECRET-ACCOUNT", silent_seconds=999, balance=77_123)
        insert_reconciliation(conn)
        finding = {"check": "transfers_move_on", "detail": "transfer SECRET waits"}
        conn.execute(update(reconciliation).values(findings=[finding]))
        for kind, subject in (
            ("undecodable", "SECRET"),
            ("rescan", "1-2"),
            ("WrongChain", SEPOLIA),
        ):
            alarm = {"chain": SEPOLIA, "kind": kind, "subject": subject, "detail": SECRET}
            conn.execute(insert(alarms).values(alarm))
    shown = make_app(api_engine).test_client().get(PATH)
    assert shown.json["verdict"] == "stopped"
    assert {each["kind"] for each in shown.json["problems"]} == {"chain", "relay", "late"}
    assert [(each["kind"], each["ended_at"]) for each in shown.json["incidents"]] == [
        ("EVENTS_UNREADABLE", None),
        ("INGESTION_STOPPED", None),
    ]
    for secret in ("SECRET", "node.example", "77123", "rescan", "WrongChain"):
        assert secret not in shown.text


def test_recent_status_is_served_without_a_read(reader, rows):
    """A stranger who asks again and again costs one read in these seconds."""
    # Not a standby: the primary is read, and its position named.
    replica = Replica(reader, reader)
    client = make_app(reader, status_seconds=60, replica=replica).test_client()
    before = client.get(PATH)
    insert_cursor(rows, STELLAR)
    again = client.get(PATH)
    assert again.json == before.json
    assert again.headers["X-Position"] == before.headers["X-Position"]
    assert client.get(PATH, headers={"X-Position": "x"}).status_code == 400
    later = client.get("/v1/routes").headers["X-Position"]
    assert client.get(PATH, headers={"X-Position": later}).json["as_of"] > before.json["as_of"]


def test_without_replica_no_position_is_named_and_one_that_is_sent_causes_a_read(reader, rows):
    client = make_app(reader, status_seconds=60).test_client()
    before = client.get(PATH)
    assert "X-Position" not in before.headers
    assert client.get(PATH).json == before.json
    elsewhere = client.get(PATH, headers={"X-Position": "1:0/1"})
    assert elsewhere.json["as_of"] > before.json["as_of"]
    assert client.get(PATH, headers={"X-Position": "x"}).status_code == 400


def make_answer(lsn: int) -> Answer:
    body: Any = {}
    return Answer(body, WalPosition(1, lsn))


def test_recent_status_is_read_by_one_thread_at_a_time():
    now = [0.0]
    recent = Recent[Answer](2, monotonic=lambda: now[0])
    reads = []

    def read() -> Answer:
        reads.append(now[0])
        time.sleep(0.05)
        return make_answer(len(reads))

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: recent.get(read), range(8)))
    assert {answer.position.lsn for answer in answers} == {1}
    now[0] = 1.9
    recent.get(read)
    assert reads == [0.0]
    now[0] = 2.0
    recent.get(read)
    for needed, lsn in ((WalPosition(1, 2), 2), (WalPosition(2, 1), 3)):
        answer = recent.get(read, lambda answer, needed=needed: is_as_of(answer, needed))
        assert answer.position.lsn == lsn
    assert reads == [0.0, 2.0, 2.0]


def test_failed_read_is_not_served_again():
    recent = Recent[Answer](60)

    def fail() -> Answer:
        raise RuntimeError("down")

    for _ in range(2):
        with pytest.raises(RuntimeError):
            recent.get(fail)
    answer = make_answer(1)
    assert recent.get(lambda: answer) is answer


def test_unchanged_status_returns_304(seen, api_engine: Engine):
    seen()
    client = make_app(api_engine, status_seconds=60).test_client()
    tag = client.get(PATH).headers["ETag"]
    assert client.get(PATH, headers={"If-None-Match": tag}).status_code == 304
