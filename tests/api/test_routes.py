"""`GET /v1/routes`: the registry as JSON, and the availability of each chain."""

import pytest

from indexer.config.networks import load_network
from indexer.config.routes import routes
from tests.factories.app import make_app
from tests.factories.projections import CLOSE_TIME, LEDGER, STELLAR, insert_cursor, insert_sender

PATH = "/v1/routes"
SEPOLIA, ARBITRUM = "eip155:11155111", "eip155:421614"


def availability(client):
    """Chain → whether every route says that it is available; they must agree."""
    said = {}
    for route in client.get(PATH).json["routes"]:
        for end in (*route["source_chains"], *route["dest_chains"]):
            assert said.setdefault(end["chain"], end["available"]) == end["available"]
    return said


def test_route_has_ends_limits_and_fee(client, rows):
    insert_cursor(rows, STELLAR)
    deposit, withdraw = client.get(PATH).json["routes"][:2]
    ends = {key: deposit.pop(key) for key in ("source_chains", "dest_chains")}
    assert deposit == {
        "id": "usdc-deposit",
        "direction": "deposit",
        "mechanism": "cctp",
        "enabled": True,
        "fee": {"service_fee_bps": 0, "quoted": ["cctp_fast_fee"]},
    }
    assert ends["source_chains"][0] == {
        "chain": SEPOLIA,
        "asset": f"{SEPOLIA}/erc20:0x1c7d4b196cb0c7b01d743fbc6116a902379c7238",
        "min_amount": "1000000",
        "max_amount": "20000000",
        "amount_step": "1",
        "funding_modes": ["direct"],
        "expected_seconds": 792,
        "available": False,
    }
    stellar = {
        "chain": STELLAR,
        "asset": "stellar:USDC:GBBD47IF6LWK7P7MDEVSCWR7DPUWV3NY3DTQEVFL4NAT4AQH3ZLLFLA5",
        "min_amount": "10000000",
        "max_amount": "200000000",
        "amount_step": "10",
        "funding_modes": [],
        "expected_seconds": 10,
        "available": True,
    }
    assert ends["dest_chains"] == [stellar]
    assert withdraw["source_chains"] == [stellar | {"expected_seconds": 5}]


def test_route_missing_on_network_is_disabled(client):
    by_id = {route["id"]: route for route in client.get(PATH).json["routes"]}
    usdt0 = by_id["usdt0-deposit"]
    assert (usdt0["enabled"], usdt0["source_chains"], usdt0["dest_chains"]) == (False, [], [])


def test_list_equals_the_registry(reader):
    client = make_app(reader, network=load_network("mainnet")).test_client()
    listed = client.get(PATH).json["routes"]
    assert [
        (r["id"], [end["chain"] for end in r["source_chains"]], r["enabled"]) for r in listed
    ] == [
        (r.id, [end.chain for end in r.source_chains], r.enabled)
        for r in routes(load_network("mainnet"))
    ]


@pytest.mark.parametrize(
    ("chain", "cursor", "available"),
    [
        (STELLAR, {}, True),
        (STELLAR, {"held": "retention gap"}, False),
        # Ten seconds and three blocks of 5 s, of 0.25 s, of 12 s. Well below them, for a stall:
        # the exact limits are in tests/indexer/facts/test_health.py.
        (STELLAR, {"idle_seconds": 12}, True),
        (STELLAR, {"idle_seconds": 26}, False),
        (ARBITRUM, {"idle_seconds": 1}, True),
        (ARBITRUM, {"idle_seconds": 11}, False),
        (SEPOLIA, {"idle_seconds": 30}, True),
        (SEPOLIA, {"idle_seconds": 47}, False),
        # It moves, but a minute and 20 blocks behind its head.
        (STELLAR, {"head_time": CLOSE_TIME + 160}, True),
        (STELLAR, {"head_time": CLOSE_TIME + 161, "head_height": LEDGER + 20}, False),
    ],
)
def test_chain_is_available_while_ingestion_is_healthy(client, rows, chain, cursor, available):
    insert_cursor(rows, chain, **cursor)
    said = availability(client)
    assert said.pop(chain) is available
    # Nothing was ever ingested from the others.
    assert said
    assert not any(said.values())


def ends(client, kind: str) -> dict[tuple[str, str], bool]:
    """Route and chain → whether it can begin, or end, there."""
    listed = client.get(PATH).json["routes"]
    return {(r["id"], end["chain"]): end["available"] for r in listed for end in r[kind]}


def test_relayed_ends_are_unavailable_without_relay(client, rows):
    for chain in (STELLAR, SEPOLIA):
        insert_cursor(rows, chain, relayed=False)
    begins, arrives = ends(client, "source_chains"), ends(client, "dest_chains")
    assert begins["usdc-deposit", SEPOLIA], "the payer sends it himself"
    assert not begins["usdc-withdraw", STELLAR]
    assert not begins["usdc-send", STELLAR]
    assert not arrives["usdc-deposit", STELLAR]
    assert not arrives["usdc-withdraw", SEPOLIA]
    assert arrives["usdc-send", STELLAR], "a payment is there at once"
    insert_sender(rows, STELLAR)
    begins, arrives = ends(client, "source_chains"), ends(client, "dest_chains")
    assert (begins["usdc-send", STELLAR], arrives["usdc-deposit", STELLAR]) == (False, True)
    assert not arrives["usdc-withdraw", SEPOLIA]


@pytest.mark.parametrize(
    ("sender", "available"),
    [
        ({}, True),
        ({"silent_seconds": 90}, True),
        ({"silent_seconds": 125}, False),
        ({"well": False, "reason": "3 stroops on the account"}, False),
        ({"duty": "sponsor"}, False),
    ],
)
def test_one_healthy_account_is_enough(client, rows, sender, available):
    insert_cursor(rows, STELLAR, relayed=False)
    unwell = {"well": False, "reason": "it stopped"}
    insert_sender(rows, STELLAR, account="another", **unwell)
    insert_sender(rows, STELLAR, **sender)
    assert ends(client, "dest_chains")["usdc-deposit", STELLAR] is available


@pytest.mark.parametrize(
    ("report", "available"),
    [
        ({}, True),
        ({"silent_seconds": 125}, False),
        ({"well": False, "reason": "the day's budget is used up"}, False),
    ],
)
def test_transfers_from_stellar_need_submissions(client, rows, report, available):
    insert_cursor(rows, STELLAR, relayed=False)
    insert_sender(rows, STELLAR, account="submissions", duty="submit", **report)
    assert ends(client, "source_chains")["usdc-send", STELLAR] is available
    assert not ends(client, "dest_chains")["usdc-deposit", STELLAR], "it delivers nothing"


def test_etag_changes_with_a_chain(client, rows):
    insert_cursor(rows, STELLAR)
    tag = client.get(PATH).headers["ETag"]
    assert client.get(PATH, headers={"If-None-Match": tag}).status_code == 304
    insert_cursor(rows, SEPOLIA)
    assert client.get(PATH, headers={"If-None-Match": tag}).status_code == 200


def test_list_has_no_ledger_header(client, book):
    assert "X-Ledger" not in client.get(PATH).headers
