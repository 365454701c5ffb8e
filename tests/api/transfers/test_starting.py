"""`POST /v1/transfers`: creation, idempotency, limits, and every refusal."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from sqlalchemy import Connection, Engine, delete, func, insert, select, update

from indexer.bridges.deposit_address.factory import Deposit, deposit_address
from indexer.config.networks import load_network
from tests.factories.deposits import with_operator
from tests.factories.notifications import queued_notifications
from tests.factories.projections import STELLAR, insert_cursor
from tests.factories.quotes import EVM, OTHER, SEPOLIA, asking
from tests.factories.started import (
    KEY,
    PATH,
    USDC,
    how_many,
    insert_quote,
    insert_transfer,
    make_transfer_app,
    payment,
    start,
)
from tests.factories.tokens import ACCOUNT
from warehouse_schema import channels
from warehouse_schema.facts import cursors
from warehouse_schema.identifiers import BaseUnits, ChainId, EvmAddress, StellarAddress, UnixSeconds
from warehouse_schema.intake import (
    cancellations,
    quotes,
    submissions,
    transfers,
    watched_addresses,
)
from warehouse_schema.projections import transfer_states
from warehouse_schema.relay import health

OPERATOR = EvmAddress("0x90f79bf6eb2c4f870365e785982e1f101e93b906")


def stored(kept: Connection, transfer: str) -> dict:
    return dict(kept.execute(select(transfers).where(transfers.c.id == transfer)).one()._mapping)


def test_created_deposit_has_every_member(kept, starter):
    quote = insert_quote(kept)
    answer = start(starter, quote, KEY)
    assert answer.status_code == 201
    assert answer.headers["Cache-Control"] == "no-store"
    row = stored(kept, answer.json["id"])
    started = row["started_at"].strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert answer.json == {
        "id": row["id"],
        "quote_id": quote,
        "route": "usdc-deposit",
        "direction": "deposit",
        "funding_mode": "direct",
        "status": "pending_user_transfer_start",
        "stage": "AWAITING_SIGNATURE",
        "stage_reason": None,
        "stage_detail": None,
        "turn": "user",
        "amount_in": "10000000",
        "amount_out": "99984400",
        "amount_fee": "1560",
        "amount_delivered": None,
        "source_chain": SEPOLIA,
        "source_asset": USDC,
        "source_address": EVM,
        "dest_chain": STELLAR,
        "dest_asset": load_network("testnet").stellar.usdc,
        "dest_address": ACCOUNT,
        "deposit": None,
        "external_transaction_id": None,
        "stellar_transaction_id": None,
        "started_at": started,
        "updated_at": started,
        "completed_at": None,
        "expires_at": row["expires_at"].strftime("%Y-%m-%dT%H:%M:%SZ"),
        "eta": None,
        "explorer": {"source": None, "destination": None},
        "timeline": [
            {
                "stage": "AWAITING_SIGNATURE",
                "at": row["started_at"].strftime("%Y-%m-%dT%H:%M:%SZ"),
                "clock": "service",
                "chain": None,
                "tx": None,
            }
        ],
        "refund": None,
        "self_finish": None,
        "extras": [],
        "extras_self_finish": [],
    }
    assert (row["owner"], row["idempotency_key"], row["quote"]) == (ACCOUNT, KEY, quote)
    assert row["expires_at"].microsecond == 0
    lives = row["expires_at"] - row["started_at"]
    assert timedelta(seconds=1_799) < lives <= timedelta(seconds=1_800)


def test_transfer_lifetime_is_configurable(kept, reader):
    client = make_transfer_app(reader, transfer_seconds=60).test_client()
    row = stored(kept, start(client, insert_quote(kept)).json["id"])
    assert timedelta(seconds=58) < row["expires_at"] - row["started_at"] <= timedelta(seconds=60)


def test_creation_notifies_the_keeper(kept, starter):
    made = start(starter, insert_quote(kept)).json["id"]
    assert queued_notifications(kept, channels.INTAKE) == [made]


# Once


def test_same_key_returns_same_transfer(kept, starter):
    quote = insert_quote(kept)
    made = start(starter, quote, KEY).json
    assert start(starter, quote, KEY).json == made
    assert start(starter, f"0x{quote.upper()}", KEY).json == made
    for _ in range(4):
        insert_transfer(kept, amount_in=20_000_000)
    insert_transfer(kept)
    kept.execute(update(quotes).values(expires_at=func.now() - timedelta(seconds=9)))
    kept.execute(delete(cursors))
    again = start(starter, quote, KEY)
    assert (again.status_code, again.json) == (200, made)


def test_same_key_with_other_body_returns_422(kept, starter):
    made = start(starter, insert_quote(kept), KEY).json["id"]
    for quote in (insert_quote(kept), "no quote"):
        answer = start(starter, quote, KEY)
        assert (answer.status_code, answer.json["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")
        assert answer.json["transfer"] == made
        assert made in answer.json["message"]
    assert how_many(kept) == 1


def test_two_owners_may_use_one_key(kept, starter):
    first = start(starter, insert_quote(kept), KEY)
    other = insert_quote(kept, owner=OTHER, dest_address=OTHER)
    second = start(starter, other, KEY, account=OTHER)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json["id"] != second.json["id"]
    assert start(starter, other, KEY, account=OTHER).json["id"] == second.json["id"]


def test_bad_idempotency_key_returns_400(kept, starter):
    quote = insert_quote(kept)
    for key in (None, "", "a b", "é", "k" * 256, "\t"):
        headers = asking() | ({} if key is None else {"Idempotency-Key": key})
        answer = starter.post(PATH, json={"quote_id": quote}, headers=headers)
        assert (answer.status_code, answer.json["code"]) == (400, "BAD_IDEMPOTENCY_KEY"), key
        assert "Idempotency-Key" in answer.json["message"]
    assert how_many(kept) == 0


def test_body_with_more_than_a_quote_returns_400(starter):
    for body in ({}, {"quote_id": 1}, {"quote_id": "q", "amount": "1"}, []):
        answer = starter.post(PATH, json=body, headers=asking() | {"Idempotency-Key": KEY})
        assert (answer.status_code, answer.json["code"]) == (400, "BAD_BODY"), body


# Of a quote


def test_unknown_quote_returns_404(starter):
    for quote in ("no quote", "0" * 32, "", "'; DROP TABLE"):
        answer = start(starter, quote)
        assert (answer.status_code, answer.json["code"]) == (404, "QUOTE_NOT_FOUND"), quote


def test_quote_of_another_owner_returns_404(kept, starter):
    quote = insert_quote(kept, owner=OTHER, dest_address=OTHER)
    assert start(starter, quote).json["code"] == "QUOTE_NOT_FOUND"
    assert start(starter, quote, account=OTHER).status_code == 201
    assert start(starter, quote).json["code"] == "QUOTE_NOT_FOUND"


def test_used_quote_returns_409_with_transfer(kept, starter):
    quote = insert_quote(kept)
    made = start(starter, quote).json["id"]
    answer = start(starter, quote)
    assert (answer.status_code, answer.json["code"]) == (409, "QUOTE_USED")
    assert answer.json["transfer"] == made


def test_expired_quote_returns_409(kept, starter):
    answer = start(starter, insert_quote(kept, seconds=-1))
    assert (answer.status_code, answer.json["code"]) == (409, "QUOTE_EXPIRED")
    assert how_many(kept) == 0


@pytest.mark.parametrize("chain", [SEPOLIA, STELLAR])
def test_unhealthy_chain_returns_503(kept, starter, chain):
    kept.execute(update(cursors).where(cursors.c.chain == chain).values(held="retention gap"))
    answer = start(starter, insert_quote(kept))
    assert (answer.status_code, answer.json["code"]) == (503, "CHAIN_UNAVAILABLE")
    assert chain in answer.json["message"]
    assert how_many(kept) == 0


@pytest.mark.parametrize("changes", [{"well": False, "reason": "5 wei"}, {"duty": "sponsor"}])
def test_transfer_without_relay_returns_503(kept, starter, changes):
    kept.execute(update(health).where(health.c.chain == STELLAR).values(changes))
    answer = start(starter, insert_quote(kept))
    assert (answer.status_code, answer.json["code"]) == (503, "CHAIN_UNAVAILABLE")
    assert f"{STELLAR} is enabled, but its relayer is not available" in answer.json["message"]
    assert "5 wei" not in answer.json["message"]
    assert how_many(kept) == 0


def test_existing_transfer_is_returned_without_relay(kept, starter):
    quote = insert_quote(kept)
    made = start(starter, quote, KEY).json["id"]
    kept.execute(delete(health))
    assert start(starter, quote, KEY).json["id"] == made


def test_deposit_address_without_relay_returns_503(kept, paid_in):
    quote = insert_quote(kept, **by_address())
    kept.execute(delete(health).where(health.c.chain == "eip155:31337"))
    answer = start(paid_in, quote)
    assert (answer.status_code, answer.json["code"]) == (503, "CHAIN_UNAVAILABLE")
    assert "eip155:31337" in answer.json["message"]


def test_create_without_token_returns_401(kept, starter):
    headers = {"Idempotency-Key": KEY}
    body = {"quote_id": insert_quote(kept)}
    assert starter.post(PATH, json=body, headers=headers).status_code == 401


# Limits


def refused(answer) -> str:
    assert answer.status_code == 422, answer.json
    return answer.json["code"]


def complete(kept: Connection, transfer: str, stage: str = "COMPLETED") -> None:
    """As the keeper would store it."""
    row = {
        "transfer": transfer,
        "stage": stage,
        "timeline": [],
        "extras": [],
        "keys": [],
        "source_chain": SEPOLIA,
        "inputs": 0,
        "completed_at": 1 if stage == "COMPLETED" else None,
    }
    kept.execute(insert(transfer_states).values(row))


def test_daily_limit_counts_finished_transfers(kept, starter):
    for _ in range(4):
        complete(kept, insert_transfer(kept, ago=0, amount_in=20_000_000))
    assert start(starter, insert_quote(kept, amount_in=19_999_999)).status_code == 201
    answer = start(starter, insert_quote(kept, amount_in=2))
    assert refused(answer) == "DAILY_LIMIT"
    assert "0.000001 are left" in answer.json["message"]
    assert start(starter, insert_quote(kept, amount_in=1)).status_code == 201


def test_daily_limit_resets_at_utc_midnight(kept, starter):
    """What was started before midnight does not count, but is outstanding."""
    a_day = 86_400
    for _ in range(5):
        complete(kept, insert_transfer(kept, ago=a_day, amount_in=20_000_000))
    assert start(starter, insert_quote(kept)).status_code == 201
    insert_transfer(kept, ago=a_day, amount_in=90_000_000)
    assert refused(start(starter, insert_quote(kept, amount_in=1))) == "OUTSTANDING_LIMIT"


def test_outstanding_limit_counts_unfinished_transfers(kept, starter):
    before = insert_transfer(kept, ago=90_000, amount_in=95_000_000)
    assert refused(start(starter, insert_quote(kept, amount_in=6_000_000))) == "OUTSTANDING_LIMIT"
    over = ("COMPLETED", "REFUNDED", "CANCELLED", "EXPIRED")
    for stage in (*over, "REFUNDING", "ON_HOLD", "DELIVERING", "CONFIRMING"):
        kept.execute(delete(transfer_states))
        complete(kept, before, stage)
        answer = start(starter, insert_quote(kept, amount_in=6_000_000))
        assert answer.status_code == (201 if stage in over else 422), stage


def test_limits_sum_both_assets_and_all_routes(kept, starter):
    complete(kept, insert_transfer(kept, ago=0, **payment(amount_in=500_000_000)))
    complete(kept, insert_transfer(kept, ago=0, amount_in=40_000_000))
    assert refused(start(starter, insert_quote(kept, **payment(amount_in=100_000_001))))
    assert start(starter, insert_quote(kept, **payment(amount_in=100_000_000))).status_code == 201


def test_outdated_stored_stage_is_folded_for_limit(kept, starter):
    called_off = insert_transfer(kept, ago=90_000, amount_in=95_000_000)
    complete(kept, called_off, "AWAITING_SIGNATURE")
    kept.execute(insert(cancellations).values(transfer=called_off))
    assert start(starter, insert_quote(kept, amount_in=20_000_000)).status_code == 201
    # And an owner who sends in a transaction after all has it under way again.
    late = {"transfer": called_off, "tx_hash": "0x" + "5" * 64, "log": 0, "kind": "evm_tx"}
    kept.execute(insert(submissions).values(late))
    assert refused(start(starter, insert_quote(kept))) == "OUTSTANDING_LIMIT"


def test_limits_ignore_other_owners(kept, starter):
    for _ in range(5):
        insert_transfer(kept, ago=0, owner=OTHER, amount_in=20_000_000)
    assert start(starter, insert_quote(kept)).status_code == 201


def test_number_of_transfers_per_day_is_limited(kept, starter, monkeypatch):
    monkeypatch.setattr("api.transfers.limits.MAX_PER_DAY", 2)
    for _ in range(2):
        assert start(starter, insert_quote(kept, **payment(amount_in=1))).status_code == 201
    answer = start(starter, insert_quote(kept, **payment(amount_in=1)))
    assert refused(answer) == "DAILY_LIMIT"
    assert "2 transfers" in answer.json["message"]


# When


def test_started_at_increases_if_clock_goes_back(kept, starter):
    before = insert_transfer(kept, ago=-3_600)
    ahead = stored(kept, before)["started_at"]
    first, second = (
        datetime.fromisoformat(start(starter, insert_quote(kept)).json["started_at"]) for _ in "ab"
    )
    assert first == ahead + timedelta(microseconds=1)
    assert second == ahead + timedelta(microseconds=2)
    assert ahead > datetime.now(UTC)


# Deposit addresses


@pytest.fixture
def paid_in(kept: Connection, reader: Engine):
    """Calls an app on the devnet, which has a factory, for somebody who moves deposits on."""
    for chain in ("stellar:devnet", "eip155:31337"):
        insert_cursor(kept, chain)
    network = with_operator(load_network("devnet"), OPERATOR)
    return make_transfer_app(reader, network=network).test_client()


def by_address() -> dict:
    network = load_network("devnet")
    return {
        "funding_mode": "deposit_address",
        "source_chain": "eip155:31337",
        "source_token": str(network.evm[0].usdc),
        "dest_chain": "stellar:devnet",
        "dest_asset": network.stellar.usdc,
    }


def test_deposit_address_follows_terms_and_is_watched(kept, paid_in):
    made = start(paid_in, insert_quote(kept, **by_address())).json
    assert (made["stage"], made["turn"]) == ("AWAITING_FUNDS", "user")
    row = stored(kept, made["id"])
    promised = Deposit(
        chain=ChainId("eip155:31337"),
        bridge="cctp",
        owner=StellarAddress(ACCOUNT),
        transfer_id=UUID(hex=made["id"]),
        amount=BaseUnits(10_000_000),
        min_received=BaseUnits(9_998_440),
        refund_to=EvmAddress(EVM),
        operator=OPERATOR,
        expires_at=UnixSeconds(int(row["expires_at"].timestamp())),
    )
    expected = deposit_address(load_network("devnet"), promised)
    assert made["deposit"] == {"address": expected, "operator": OPERATOR}
    assert (row["deposit_address"], row["deposit_operator"]) == (expected, OPERATOR)
    [watched] = kept.execute(select(watched_addresses)).all()
    assert (watched.chain, watched.address) == ("eip155:31337", expected)
    assert made["id"] in watched.reason


def test_payer_is_watched_from_first_transfer_on(kept, starter):
    first = start(starter, insert_quote(kept, **payment())).json
    second = start(starter, insert_quote(kept, **payment())).json
    assert first["id"] != second["id"]
    [watched] = kept.execute(select(watched_addresses)).all()
    assert (watched.chain, watched.address) == (STELLAR, ACCOUNT)
    assert first["id"] in watched.reason


def test_deposit_address_needs_an_operator(kept, reader, paid_in):
    network = load_network("devnet")
    client = make_transfer_app(reader, network=network).test_client()
    answer = start(client, insert_quote(kept, **by_address()))
    assert (answer.status_code, answer.json["code"]) == (503, "CHAIN_UNAVAILABLE")
    assert "direct" in answer.json["message"]
    assert how_many(kept) == 0
