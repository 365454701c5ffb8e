"""Stellar RPC of the stand-in, called by the clients of stellar-sdk."""

import asyncio
import json
import time

import pytest
from stellar_sdk import Asset, Keypair, scval
from stellar_sdk.exceptions import AccountNotFoundException, SorobanRpcErrorResponse
from stellar_sdk.operation import BumpSequence
from stellar_sdk.soroban_rpc import EventFilter, EventFilterType
from stellar_sdk.soroban_server_async import SorobanServerAsync

from devnet.stellar.accounts import PASSPHRASE, USDC, address, keypair
from devnet.stellar.asset_events import token_contract
from devnet.stellar.client import DevnetClient, Rejected
from devnet.stellar.ledger import PROTOCOL
from devnet.stellar.rpc import Rpc
from devnet.stellar.server import answer, friendbot
from tests.devnet.stellar.chain import UNIT, Chain
from tests.factories.stellar_process import StellarProcess

TRANSFER = scval.to_symbol("transfer").to_xdr()


@pytest.fixture(scope="module")
def process():
    with StellarProcess.start(interval=0, clock="fixed") as process:
        yield process


@pytest.fixture(scope="module")
def client(process):
    with DevnetClient(process.url) as client:
        yield client


@pytest.fixture(scope="module")
def alice(client):
    return client.open_account("rpc alice", usdc=100 * UNIT)


@pytest.fixture(scope="module")
def history(alice, client):
    """Six payments of alice, one a ledger: their transactions."""
    return [client.pay(alice, address("admin"), Asset.native(), n) for n in range(1, 7)]


def test_network_passphrase_is_a_local_one(client):
    network = client.server.get_network()
    assert network.passphrase == PASSPHRASE == "Standalone Network ; February 2017"
    version = client.server.get_version_info()
    assert network.protocol_version == version.protocol_version == PROTOCOL
    assert version.version.startswith("30.")
    assert "not a Stellar node" in version.captive_core_version


def test_next_ledger_follows_one_that_another_client_closed_meanwhile(process, client):
    seen = []

    def next_close(last):
        seen.append(last)
        if len(seen) == 1:
            with DevnetClient(process.url) as other:
                other.close_ledger()
        return last + 1

    before = client.server.get_latest_ledger().sequence
    assert client.close_next_ledger(next_close) == before + 2
    assert seen[0] < seen[1] == client.close_time_ms() - 1
    with pytest.raises(ValueError, match="the last ledger closed at"):
        client.close_next_ledger(lambda last: last)


def test_missing_account_is_not_found(client):
    with pytest.raises(AccountNotFoundException):
        client.server.load_account(keypair("rpc nobody").public_key)


def test_friendbot_funds_an_account_once(client):
    holder = Keypair.random()
    client.fund(holder.public_key)
    assert client.server.load_account(holder.public_key).sequence > 0
    with pytest.raises(ValueError, match="exists already"):
        client.fund(holder.public_key)


def test_transaction_is_found_by_hash_with_meta_and_events(client, history):
    answer = client.server.get_transaction(history[0].hash)
    assert answer.status.value == "SUCCESS"
    assert answer.ledger == history[0].ledger
    assert answer.application_order == 1
    assert len(answer.events.contract_events_xdr[0]) == 1
    missing = client.server.get_transaction("00" * 32)
    assert missing.status.value == "NOT_FOUND"
    assert missing.latest_ledger >= answer.ledger


def test_refused_transaction_carries_its_result(client, alice):
    with pytest.raises(Rejected, match="txBAD_AUTH_EXTRA"):
        client.submit(alice, [BumpSequence(0)], signers=[keypair("rpc nobody")])


def test_ledgers_are_paged_by_sequence(client, history):
    first = client.server.get_ledgers(start_ledger=2, limit=3)
    assert [ledger.sequence for ledger in first.ledgers] == [2, 3, 4]
    assert first.cursor == "4"
    second = client.server.get_ledgers(cursor=first.cursor, limit=2)
    assert [ledger.sequence for ledger in second.ledgers] == [5, 6]
    with pytest.raises(SorobanRpcErrorResponse) as refused:
        client.server.get_ledgers(cursor=str(client.server.get_health().latest_ledger))
    assert refused.value.code == -32602


def test_future_ledger_is_an_error(client, history):
    beyond = client.server.get_health().latest_ledger + 1
    for ask in (
        client.server.get_ledgers,
        client.server.get_events,
        client.server.get_transactions,
    ):
        with pytest.raises(SorobanRpcErrorResponse) as refused:
            ask(beyond)
        assert refused.value.code == -32600
        assert f"- {beyond - 1}" in refused.value.message


def test_transactions_are_paged_in_apply_order(client, history):
    page = client.server.get_transactions(start_ledger=history[0].ledger, limit=2)
    seen = [each.transaction_hash for each in page.transactions]
    while page.transactions:
        page = client.server.get_transactions(cursor=page.cursor, limit=2)
        seen += [each.transaction_hash for each in page.transactions]
    expected = [each.hash for each in history]
    assert seen[: len(expected)] == expected


def test_latest_ledger_has_its_meta(client):
    assert client.server.get_latest_ledger().sequence == client.server.get_health().latest_ledger
    assert client.server.get_fee_stats().inclusion_fee.p50 == 100


def payments(alice, **more):
    topics = [[TRANSFER, scval.to_address(alice.public_key).to_xdr(), "*", "*"]]
    return EventFilter(event_type=EventFilterType.CONTRACT, topics=topics, **more)


def test_events_are_filtered_by_contract_and_topics(client, alice, history):
    found = client.server.get_events(history[0].ledger, filters=[payments(alice)])
    mine = [event for event in found.events if event.ledger <= history[-1].ledger]
    assert [scval.from_int128(event.value) for event in mine] == [1, 2, 3, 4, 5, 6]
    assert {event.contract_id for event in mine} == {token_contract(Asset.native())}
    none = payments(alice, contract_ids=[token_contract(USDC)])
    ended = client.server.get_events(history[0].ledger, history[-1].ledger + 1, filters=[none])
    assert ended.events == []


def test_filter_without_double_star_matches_number_of_topics(client, alice, history):
    def count(topics):
        chosen = EventFilter(event_type=EventFilterType.CONTRACT, topics=[topics])
        end = history[-1].ledger + 1
        return len(client.server.get_events(history[0].ledger, end, filters=[chosen]).events)

    assert count([TRANSFER]) == 0
    assert count([TRANSFER, "*"]) == 0
    assert count([TRANSFER, "**"]) == 6
    assert count(["*", "*", "*", "*"]) == 6
    assert count(["*", "*", "*", "*", "**"]) == 6
    # Fee events have two topics and fit nothing longer.
    assert count(["*", "*"]) == 6


def test_event_pages_join_without_loss_or_repeat(client, history):
    start, end = history[0].ledger, client.server.get_health().latest_ledger
    whole = client.server.get_events(start, limit=10_000)
    page = client.server.get_events(start, limit=3)
    ids = [event.id for event in page.events]
    while len(page.events) == 3:
        page = client.server.get_events(cursor=page.cursor, limit=3)
        ids += [event.id for event in page.events]
    assert ids == [event.id for event in whole.events]
    assert ids == sorted(ids)
    assert page.cursor == f"{end << 32 | (2**32 - 1):019d}-4294967295"
    assert client.server.get_events(cursor=page.cursor).events == []


def test_event_ids_count_operations_from_0_and_fees_apart(client, alice):
    outcome = client.invoke(
        alice,
        token_contract(USDC),
        "transfer",
        scval.to_address(alice.public_key),
        scval.to_address(token_contract(USDC)),
        scval.to_int128(5),
    )
    events = client.server.get_events(outcome.ledger).events
    places = [(event.transaction_index, event.operation_index) for event in events]
    assert places == [(0, 0), (1, 0), (1048575, 0)]
    assert events[1].id == f"{outcome.ledger << 32 | 1 << 12:019d}-0000000000"
    charged, refunded = scval.from_int128(events[0].value), scval.from_int128(events[2].value)
    assert charged + refunded == outcome.result.fee_charged.int64
    assert refunded < 0


def test_balance_of_a_contract_is_read_as_a_real_tokens(client, alice):
    held = client.server.get_sac_balance(token_contract(USDC), USDC, PASSPHRASE)
    before = 0 if held.balance_entry is None else held.balance_entry.amount
    client.invoke(
        alice,
        token_contract(USDC),
        "transfer",
        scval.to_address(alice.public_key),
        scval.to_address(token_contract(USDC)),
        scval.to_int128(7),
    )
    entry = client.server.get_sac_balance(token_contract(USDC), USDC).balance_entry
    assert entry.amount == before + 7
    assert entry.authorized
    assert client.balance(token_contract(USDC), USDC) == before + 7


def test_async_client_works(process, client, history):
    async def read():
        async with SorobanServerAsync(process.url) as server:
            health = await server.get_health()
            ledgers = await server.get_ledgers(start_ledger=2, limit=2)
            events = await server.get_events(history[0].ledger, limit=5)
            transaction = await server.get_transaction(history[0].hash)
            account = await server.load_account(address("admin"))
            return health, ledgers, events, transaction, account

    health, ledgers, events, transaction, account = asyncio.run(read())
    assert health.status == "healthy"
    assert [ledger.sequence for ledger in ledgers.ledgers] == [2, 3]
    assert len(events.events) == 5
    assert transaction.ledger == history[0].ledger
    assert account.sequence > 0


def rpc_of(chain, **options):
    return Rpc(chain.node, **options)


def ask(rpc, method, **params):
    body = {"jsonrpc": "2.0", "id": 9, "method": method, "params": params}
    return answer(rpc, json.dumps(body).encode())


def test_close_times_are_text_or_number_as_in_real_server():
    chain = Chain()
    alice = chain.open("alice")
    row = chain.pay(alice, address("admin"), UNIT, Asset.native())
    rpc = rpc_of(chain)
    one = ask(rpc, "getTransaction", hash=row.hash)["result"]
    many = ask(rpc, "getTransactions", startLedger=row.ledger)["result"]
    ledgers = ask(rpc, "getLedgers", startLedger=row.ledger)["result"]
    events = ask(rpc, "getEvents", startLedger=row.ledger)["result"]
    assert one["createdAt"] == one["latestLedgerCloseTime"] == str(chain.now)
    assert many["transactions"][0]["createdAt"] == many["latestLedgerCloseTimestamp"] == chain.now
    assert ledgers["ledgers"][0]["ledgerCloseTime"] == str(chain.now)
    assert ledgers["latestLedgerCloseTime"] == chain.now
    assert events["latestLedgerCloseTime"] == str(chain.now)
    assert ask(rpc, "getHealth")["result"]["latestLedgerCloseTime"] == chain.now
    assert ask(rpc, "getLatestLedger")["result"]["closeTime"] == str(chain.now)


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("getNothing", {}, -32601),
        ("getTransaction", {"hash": "xyz"}, -32602),
        ("getLedgers", {"startLedger": 2, "pagination": {"limit": 201}}, -32602),
        ("getLedgers", {"startLedger": 1}, -32600),
        ("getEvents", {"startLedger": 0}, -32602),
        ("getEvents", {"startLedger": 2, "pagination": {"limit": 10_001}}, -32602),
        ("getEvents", {"startLedger": 2, "filters": [{}] * 6}, -32602),
        ("getEvents", {"startLedger": 2, "filters": [{"type": "diagnostic"}]}, -32602),
        ("getEvents", {"startLedger": 2, "filters": [{"contractIds": ["CX"]}]}, -32602),
        ("getEvents", {"startLedger": 2, "filters": [{"topics": [["*"]] * 6}]}, -32602),
        ("getEvents", {"startLedger": 2, "filters": [{"topics": [["*"] * 5]}]}, -32602),
        ("getEvents", {"startLedger": 2, "filters": [{"topics": [["**", "*"]]}]}, -32602),
        ("getEvents", {"startLedger": 2, "filters": [{"topics": [["AAAA"]]}]}, -32602),
        ("getEvents", {"pagination": {"cursor": "nonsense"}}, -32602),
        ("getLedgerEntries", {"keys": ["AAAA"]}, -32602),
        ("getLedgerEntries", {"keys": ["AAAA"] * 201}, -32602),
        ("sendTransaction", {"transaction": "AAAA"}, -32602),
        ("getHealth", {"xdrFormat": "json"}, -32602),
    ],
)
def test_invalid_call_returns_its_error_code(method, params, code):
    assert ask(rpc_of(Chain()), method, **params)["error"]["code"] == code


def test_malformed_body_returns_an_error():
    rpc = rpc_of(Chain())
    assert answer(rpc, b"{")["error"]["code"] == -32700
    assert answer(rpc, b"[]")["error"]["code"] == -32600
    assert answer(rpc, b'{"jsonrpc": "2.0", "id": 1}')["error"]["code"] == -32600
    batch = b'[{"jsonrpc": "2.0", "id": 1, "method": "getHealth"}]'
    assert answer(rpc, batch)[0]["result"]["status"] == "healthy"


def test_ledgers_before_retention_window_are_hidden():
    chain = Chain()
    row = chain.run(chain.open("alice"), BumpSequence(0))
    for _ in range(5):
        chain.node.close_ledger()
    rpc = rpc_of(chain, retention=3)
    latest = chain.node.latest.sequence
    assert ask(rpc, "getHealth")["result"]["oldestLedger"] == latest - 2
    assert ask(rpc, "getTransaction", hash=row.hash)["result"]["status"] == "NOT_FOUND"
    assert ask(rpc, "getEvents", startLedger=latest - 3)["error"]["code"] == -32600
    assert ask(rpc, "getLedgers", startLedger=latest - 2)["result"]["cursor"] == str(latest)


def test_manual_ledger_never_closes_in_the_past():
    chain = Chain()
    rpc = rpc_of(chain)
    later = (chain.now + 1000) * 1000
    assert ask(rpc, "devnet_closeLedger", closeTimeMs=later)["result"]["closeTimeMs"] == later
    assert ask(rpc, "devnet_closeLedger", closeTimeMs=later)["error"]["code"] == -32602
    assert ask(rpc, "devnet_closeLedger")["result"]["closeTimeMs"] == later + 5_000


def test_friendbot_closes_a_ledger_in_manual_mode():
    rpc = rpc_of(Chain(), close_on_friendbot=True)
    before = rpc.node.latest.sequence
    status, body = friendbot(rpc, keypair("somebody").public_key)
    assert status == 200
    assert rpc.node.latest.sequence == before + 1
    assert rpc.node.transaction(body["hash"]).succeeded
    assert friendbot(rpc, "nonsense")[0] == 400


def test_thousands_of_ledgers_are_returned_quickly():
    chain = Chain()
    chain.open("alice")
    for _ in range(3000):
        chain.node.close_ledger()
    rpc = rpc_of(chain)
    used = time.process_time()
    for _ in range(20):
        ask(rpc, "getEvents", startLedger=2, filters=[{"topics": [[TRANSFER, "**"]]}])
        ask(rpc, "getLedgers", startLedger=2, pagination={"limit": 200})
    assert time.process_time() - used < 2
