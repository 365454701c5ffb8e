"""Figures of each analytics view on small markets, computed by hand."""

from typing import Any

import pytest
from sqlalchemy import Connection, insert, text

from tests.factories.events import make_provenance
from tests.factories.projections import (
    CLOSE_TIME,
    address,
    fulfilled,
    insert_book,
    insert_offer,
    insert_order,
    insert_provider,
    units,
)
from warehouse_schema import events, facts
from warehouse_schema.identifiers import ChainId
from warehouse_schema.projections import movements

MIDNIGHT = 1_795_219_200
"""2026-11-21T00:00:00Z; the book's clock stands at 08:00 of that day."""
HOUR = 3_600
DAY = 86_400
ANN, BEN, CID = address(11), address(12), address(13)


@pytest.fixture(autouse=True)
def book(connection: Connection) -> None:
    insert_book(connection)


def read(connection: Connection, columns: str, source: str) -> list[tuple[Any, ...]]:
    """Rows as Postgres prints them: a figure's digits count, trailing ones too."""
    names = [f"{name.strip()}::text" for name in columns.split(",")]
    query = text(f"SELECT {', '.join(names)} FROM analytics.{source}")
    return [tuple(row) for row in connection.execute(query)]


_numbers = iter(range(1, 10_000))


def order(connection: Connection, **fields: Any) -> None:
    insert_order(connection, **{"order_id": f"0x{next(_numbers):064x}", **fields})


def filled(connection: Connection, at: int, took: int = 60, **fields: Any) -> None:
    """An order fulfilled at that time, `took` seconds after its opening."""
    amount = fields.pop("amount", 25)
    settled = {"released": units(amount), "fee": 0, "net": units(amount), "nullifier": None}
    order(
        connection,
        amount=amount,
        created_at=at - took,
        expires_at=at + 600,
        **fulfilled(ended_at=at, **settled | fields),
    )


def ended(connection: Connection, status: str, created_at: int, ended_at: int | None) -> None:
    closed = {} if ended_at is None else {"end_tx": "b1", "ended_at": ended_at}
    order(
        connection,
        created_at=created_at,
        expires_at=created_at + 600,
        status=status,
        chain_status=status if ended_at is not None else "open",
        **closed,
    )


# Orders


def test_cohort_rates_exclude_active_orders(connection: Connection) -> None:
    filled(connection, MIDNIGHT + HOUR, amount=30)
    filled(connection, MIDNIGHT + HOUR, amount=20)
    ended(connection, "cancelled", MIDNIGHT, MIDNIGHT + 900)
    ended(connection, "cancelled", MIDNIGHT, MIDNIGHT + 901)
    ended(connection, "expired", MIDNIGHT, None)
    ended(connection, "active", MIDNIGHT, None)
    columns = "day, orders, active, fulfilled, cancelled, cancelled_early, expired"
    assert read(connection, columns, "fill_rate_daily") == [
        ("2026-11-21", "6", "1", "2", "2", "1", "1")
    ]
    columns = "fill_rate, cancel_rate, expire_rate, amount_usdc, fill_rate_usdc"
    assert read(connection, columns, "fill_rate_daily") == [
        ("0.4000", "0.4000", "0.2000", "150.0000000", "0.4000")
    ]


def test_cohort_is_by_opening_day_and_has_no_early_rate(
    connection: Connection,
) -> None:
    filled(connection, MIDNIGHT + 10, took=11)
    ended(connection, "active", MIDNIGHT, None)
    columns = "day, orders, fill_rate"
    assert read(connection, columns, "fill_rate_daily ORDER BY day") == [
        ("2026-11-20", "1", "1.0000"),
        ("2026-11-21", "1", None),
    ]


def test_percentiles_are_nearest_rank(connection: Connection) -> None:
    for took in (10, 20, 30, 40, 1_000):
        filled(connection, MIDNIGHT + HOUR, took)
    columns = "period, orders, p50_seconds, p90_seconds, p95_seconds, p99_seconds"
    assert read(connection, columns, "completion_times ORDER BY period") == [
        ("30d", "5", "30", "1000", "1000", "1000"),
        ("7d", "5", "30", "1000", "1000", "1000"),
        ("all", "5", "30", "1000", "1000", "1000"),
    ]


def test_percentiles_of_few_orders_are_null(connection: Connection) -> None:
    for took in (10, 20, 30, 40):
        filled(connection, CLOSE_TIME - 7 * DAY, took)
    filled(connection, CLOSE_TIME - 7 * DAY + 1, 50, claim="manual")
    columns = "period, orders, manual, p50_seconds"
    assert read(connection, columns, "completion_times ORDER BY period") == [
        ("30d", "5", "1", "30"),
        ("7d", "1", "1", None),
        ("all", "5", "1", "30"),
    ]


def test_order_counts_on_opening_day_and_on_end_day(
    connection: Connection,
) -> None:
    filled(connection, MIDNIGHT, took=1)
    ended(connection, "cancelled", MIDNIGHT - 5, MIDNIGHT - 1)
    # At expires_at itself an order is active: this one expires in the first second of the day.
    ended(connection, "expired", MIDNIGHT - 600, None)
    # The chain caught up later; clients were told long before.
    ended(connection, "expired", MIDNIGHT - 602, MIDNIGHT + HOUR)
    columns = "day, opened, opened_usdc, fulfilled, cancelled, expired"
    assert read(connection, columns, "volume_daily ORDER BY day") == [
        ("2026-11-20", "4", "100.0000000", "0", "1", "1"),
        ("2026-11-21", "0", "0.0000000", "1", "0", "1"),
    ]


def test_volume_is_released_usdc_with_its_fiat(connection: Connection) -> None:
    at = MIDNIGHT + HOUR
    filled(connection, at, amount=40, fiat_amount=41, released=units(30), fee=units("0.15"))
    filled(connection, at, amount=3, fiat_amount="3.0000001", released=units(1), claim="manual")
    columns = "released_usdc, fee_usdc, fiat, partial, manual, partial_rate, manual_rate"
    assert read(connection, columns, "volume_daily WHERE fulfilled > 0") == [
        # 41 x 30 / 40 = 30.75, and 3.0000001 x 1 / 3 = 1.00000003 is 1.0000000.
        ("31.0000000", "0.1500000", "31.7500000", "2", "1", "1.0000", "0.5000")
    ]


def test_amounts_keep_every_digit(connection: Connection) -> None:
    huge = 2**126 + 1
    filled(connection, MIDNIGHT, released=huge, fee=huge)
    ((released, fee),) = read(
        connection, "released_usdc, fee_usdc", "volume_daily WHERE fee_usdc > 0"
    )
    assert released == fee == f"{huge // 10**7}.{huge % 10**7:07}"


def test_effective_rate_is_fiat_paid_per_usdc_received(connection: Connection) -> None:
    at = MIDNIGHT + HOUR
    settled: dict[str, Any] = {"released": units(40), "fee": units("0.2"), "currency": "USD"}
    settled |= {"amount": 40, "rate": "1.02", "fiat_amount": "40.8"}
    filled(connection, at, **settled)
    filled(connection, at, direction="offramp", **settled)
    columns = "direction, quoted_rate, effective_rate, cost_bps, spread_to_par_bps"
    assert read(connection, columns, "effective_rate_daily ORDER BY direction DESC") == [
        ("onramp", "1.0200000", "1.0251256", "50.25", "251.26"),
        ("offramp", "1.0200000", "1.0200000", "0.00", "200.00"),
    ]


def test_quoted_rate_is_weighted_by_size(connection: Connection) -> None:
    at = MIDNIGHT + HOUR
    filled(connection, at, amount=30, fiat_amount=30, rate=1)
    filled(connection, at, amount=10, fiat_amount=20, rate=2)
    columns = "orders, released_usdc, quoted_rate, effective_rate, spread_to_par_bps"
    assert read(connection, columns, "effective_rate_daily") == [
        ("2", "40.0000000", "1.2500000", "1.2500000", None)
    ]


def test_spread_is_between_buy_and_sell_over_all_rails(connection: Connection) -> None:
    at = MIDNIGHT + HOUR
    filled(connection, at, amount=10, fiat_amount="10.3", rail="venmo")
    filled(connection, at, amount=10, fiat_amount="10.1", rail="wise")
    filled(connection, at, amount=10, fiat_amount="9.8", direction="offramp")
    filled(connection, at, amount=10, fiat_amount="9.8", currency="USD")
    columns = "currency, onramp_rate, offramp_rate, mid_rate, spread_bps, onramp_usdc"
    assert read(connection, columns, "spread_daily ORDER BY currency") == [
        ("EUR", "1.0200000", "0.9800000", "1.0000000", "400.00", "20.0000000"),
        ("USD", "0.9800000", None, None, None, "10.0000000"),
    ]


# Providers


def test_market_now_has_current_figures(connection: Connection) -> None:
    for provider in (ANN, BEN, CID):
        insert_provider(connection, provider, free=60, locked=40, reclaimable=10, active_orders=2)
    insert_offer(connection, provider=ANN)
    insert_offer(connection, provider=ANN, currency="USD")
    filled(connection, CLOSE_TIME - 7 * DAY, provider=ANN)
    filled(connection, CLOSE_TIME - 7 * DAY + 1, provider=BEN)
    filled(connection, CLOSE_TIME - 30 * DAY, provider=CID)
    columns = "as_of, providers, providers_listed, providers_7d, providers_30d, active_orders"
    assert read(connection, columns, "market_now") == [
        ("2026-11-21 08:00:00", "3", "1", "1", "2", "6")
    ]
    columns = "available_usdc, locked_usdc, utilisation"
    assert read(connection, columns, "market_now") == [("210.0000000", "90.0000000", "0.3000")]


def test_provider_is_active_in_the_days_up_to_each_day(connection: Connection) -> None:
    filled(connection, MIDNIGHT - 7 * DAY, provider=ANN)
    filled(connection, MIDNIGHT - 6 * DAY, provider=BEN)
    filled(connection, MIDNIGHT - 6 * DAY, provider=ANN)
    rows = read(
        connection, "day, providers_1d, providers_7d, providers_30d", "active_providers_daily"
    )
    assert len(rows) == 8
    assert sorted(rows)[:2] == [("2026-11-14", "1", "1", "1"), ("2026-11-15", "2", "2", "2")]
    assert sorted(rows)[-1] == ("2026-11-21", "0", "2", "2")


def test_concentration_excludes_providers_without_funds(connection: Connection) -> None:
    for number, free in enumerate((50, 20, 10, 10, 5, 5, 0), 21):
        insert_provider(connection, address(number), free=free, locked=0)
    filled(connection, CLOSE_TIME, provider=ANN, amount=30)
    filled(connection, CLOSE_TIME - 8 * DAY, provider=BEN, amount=10)
    columns = "measure, providers, total_usdc, top_1_share, top_5_share, herfindahl"
    assert read(connection, columns, "concentration ORDER BY measure") == [
        ("available", "6", "100.0000000", "0.5000", "0.9500", "0.3150"),
        ("volume_30d", "2", "40.0000000", "0.7500", "1.0000", "0.6250"),
        ("volume_7d", "1", "30.0000000", "1.0000", "1.0000", "1.0000"),
        ("volume_all", "2", "40.0000000", "0.7500", "1.0000", "0.6250"),
    ]


def test_quotes_are_given_for_three_order_sizes(connection: Connection) -> None:
    insert_offer(connection, provider=ANN, rate="0.93", min=10, max=100)
    # The same escrow once more, dearer: it does not make Ann deeper.
    insert_offer(connection, provider=ANN, rate="0.95", min=10, max=100, rails=["wise"])
    insert_offer(connection, provider=BEN, rate="0.94", min=60, max=400)
    columns = "size_usdc, best_rate, weighted_rate, providers_needed, fillable_usdc"
    assert read(connection, columns, "quote_quality AS q ORDER BY q.size_usdc") == [
        ("50", "0.9300000", "0.9300000", "1", "50.0000000"),
        ("200", "0.9400000", "0.9350000", "2", "200.0000000"),
        ("1000", None, None, "2", "500.0000000"),
    ]


def test_offramp_prefers_a_high_rate(connection: Connection) -> None:
    insert_offer(connection, provider=ANN, direction="offramp", rate="0.93", max=40)
    insert_offer(connection, provider=BEN, direction="offramp", rate="0.91", max=50)
    columns = "size_usdc, best_rate, weighted_rate"
    assert read(connection, columns, "quote_quality WHERE size_usdc = 50") == [
        ("50", "0.9100000", "0.9260000")
    ]


def test_provider_statistics_have_expected_figures(connection: Connection) -> None:
    insert_provider(connection, ANN, free=60, locked=40, reclaimable=10, active_orders=1)
    insert_provider(connection, BEN, free=0, last_active_at=None, stale="a gap")
    insert_offer(connection, provider=ANN)
    for took in (10, 20, 30, 40, 50):
        filled(connection, CLOSE_TIME, took, provider=ANN, amount=2, fee=units("0.01"))
    filled(connection, CLOSE_TIME - 8 * DAY, 60, provider=ANN, amount=5, released=units(4))
    filled(connection, CLOSE_TIME - 31 * DAY, 70, provider=ANN, amount=7, claim="manual")
    order(connection, provider=ANN)
    columns = "available_usdc, locked_usdc, utilisation, offers, active_orders, orders, fulfilled"
    who = "provider_statistics ORDER BY provider = '" + ANN + "' DESC"
    assert read(connection, columns, who) == [
        ("70.0000000", "30.0000000", "0.3000", "1", "1", "8", "7"),
        ("0.0000000", "0.0000000", None, "0", "0", "0", "0"),
    ]
    columns = "fill_rate, partial, manual, p50_seconds, p95_seconds, volume_usdc, volume_30d_usdc"
    assert read(connection, columns, who) == [
        ("1.0000", "1", "1", "40", "70", "21.0000000", "14.0000000"),
        (None, "0", "0", None, None, "0.0000000", "0.0000000"),
    ]
    columns = "volume_7d_usdc, fee_usdc, last_active_at, stale"
    assert read(connection, columns, who) == [
        ("10.0000000", "0.0500000", "2026-11-21 07:59:00", None),
        ("0.0000000", "0.0000000", None, "a gap"),
    ]


STELLAR = ChainId("stellar:testnet")


def escrow(connection: Connection, table: Any, at: int, free: int, locked: int, **own: Any) -> None:
    """An Escrow event of Ann's; `pseq` is the order in which they happened."""
    number = next(_numbers)
    seen = make_provenance(number, chain=STELLAR)
    row = {
        "chain": STELLAR,
        "height": number,
        "block_hash": seen.block_hash,
        "tx_hash": seen.tx_hash,
        "position": 0,
        "block_time": at,
        "provider": ANN,
        "free_after": units(free),
        "locked_after": units(locked),
        "pseq": number,
        **own,
    }
    connection.execute(insert(table).values(row))


def parties(number: int) -> dict[str, Any]:
    return {"taker": BEN, "order_id": f"0x{number:064x}"}


def deposit(connection: Connection, at: int, amount: int, free: int, locked: int = 0) -> None:
    own = {"amount": units(amount), "from_address": ANN}
    escrow(connection, events.escrow_deposits, at, free, locked, **own)


def opening(connection: Connection, at: int, amount: int, free: int, locked: int, n: int) -> None:
    own: dict[str, Any] = {name: units(amount) for name in ("amount", "fiat_amount", "lp_lock")}
    own |= {"direction": "onramp", "rail": "wise", "currency": "EUR", "rate": units(1)}
    own |= {"taker_lock": 0, "payee_hash": "0x", "expires_at": at + HOUR, "tier": 1, "fee_bps": 0}
    escrow(connection, events.orders_opened, at, free, locked, **parties(n), **own)


def test_escrow_utilisation_is_time_weighted(connection: Connection) -> None:
    # 100 from 18:00 of the day before; 40 of it locked at 01:00. The order expires an hour later
    # and is pruned at 04:00: in between it is locked on chain and available all the same.
    deposit(connection, MIDNIGHT - 6 * HOUR, 100, free=100)
    opening(connection, MIDNIGHT + HOUR, 40, free=60, locked=40, n=1)
    pruned = {"by": BEN, "lp_unlock": units(40), "taker_refund": 0}
    escrow(connection, events.orders_expired, MIDNIGHT + 4 * HOUR, 100, 0, **parties(1), **pruned)
    order(
        connection,
        provider=ANN,
        lp_lock=40,
        created_at=MIDNIGHT + HOUR,
        expires_at=MIDNIGHT + 2 * HOUR,
        status="expired",
        chain_status="expired",
        end_tx="b1",
        ended_at=MIDNIGHT + 4 * HOUR,
    )
    columns = "day, deposited_usdc, available_usdc, locked_usdc, locked_usdc_seconds"
    assert read(connection, columns, "provider_daily ORDER BY day") == [
        ("2026-11-20", "100.0000000", "100.0000000", "0.0000000", "0.0000000"),
        # Up to and including the second of expires_at: 40 x 3601.
        ("2026-11-21", "0.0000000", "100.0000000", "0.0000000", "144040.0000000"),
    ]
    columns = "day, opened, expired, escrow_usdc_seconds, utilisation, turnover"
    assert read(connection, columns, "provider_daily ORDER BY day") == [
        ("2026-11-20", "0", "0", "2160000.0000000", "0.0000", "0.0000"),
        ("2026-11-21", "1", "1", "2880000.0000000", "0.0500", "0.0000"),
    ]


def test_turnover_is_released_volume_per_mean_escrow(connection: Connection) -> None:
    deposit(connection, MIDNIGHT - DAY, 100, free=100)
    filled(connection, MIDNIGHT - HOUR, provider=ANN, amount=50)
    columns = "day, providers, released_usdc, escrow_usdc_seconds, turnover"
    assert read(connection, columns, "utilisation_daily ORDER BY day")[0] == (
        *("2026-11-20", "1", "50.0000000", "8640000.0000000"),
        "0.5000",
    )


def test_escrow_does_not_accrue_after_the_last_ledger(
    connection: Connection,
) -> None:
    deposit(connection, CLOSE_TIME, 100, free=100)
    columns = "day, available_usdc, escrow_usdc_seconds, utilisation"
    assert read(connection, columns, "provider_daily") == [
        ("2026-11-21", "100.0000000", "0.0000000", None)
    ]


# Transfers

BASE = "eip155:8453"
GUIDS = [f"0x{n:064x}" for n in range(9)]


def movement(connection: Connection, number: int, **fields: Any) -> None:
    row = {
        "id": f"{fields.get('mechanism', 'oft')}:{number}",
        "mechanism": "oft",
        "group_key": GUIDS[number],
        "message_id": GUIDS[number],
        "stage": "IN_FLIGHT",
        "source_chain": BASE,
        "source_tx": "0x1",
        "dest_chain": STELLAR,
        "amount_in": 5_000_000,
        **fields,
    }
    connection.execute(insert(movements).values(row))


def delivered(at: int, amount: int) -> dict[str, Any]:
    return {"stage": "COMPLETED", "dest_tx": "c", "delivered_at": at, "amount_out": amount}


def verified(connection: Connection, number: int, at: int) -> None:
    seen = make_provenance(number + 1, chain=STELLAR)
    row = {
        **{name: getattr(seen, name) for name in ("chain", "height", "block_hash", "tx_hash")},
        "position": 0,
        "block_time": at,
        "guid": GUIDS[number],
        "src_eid": 1,
        "sender": "0x",
        "nonce": 1,
        "receiver": "C",
        "payload_hash": "0x",
    }
    connection.execute(insert(events.lz_packets_verified).values(row))


def test_movement_counts_at_source_and_at_destination(
    connection: Connection,
) -> None:
    there = delivered(MIDNIGHT + 9, 49_990_000)
    movement(connection, 1, mechanism="cctp", sent_at=MIDNIGHT - 1, fee=1_000, **there)
    movement(connection, 2, sent_at=MIDNIGHT, fee=2_000)
    only_seen_there = {"source_tx": None, "source_chain": None, "amount_in": None}
    movement(connection, 3, **only_seen_there, **delivered(MIDNIGHT + 5, 70_000_000))
    columns = "day, mechanism, source_chain, sent, sent_tokens, delivered, delivered_tokens"
    assert sorted(read(connection, columns, "route_volume_daily")) == [
        ("2026-11-20", "cctp", BASE, "1", "5.000000", "0", "0"),
        ("2026-11-21", "cctp", BASE, "0", "0", "1", "4.9990000"),
        ("2026-11-21", "oft", BASE, "1", "5.000000", "0", "0"),
        ("2026-11-21", "oft", "elsewhere", "0", "0", "1", "7.0000000"),
    ]
    fees = read(connection, "mechanism, day, fee_tokens", "route_volume_daily WHERE fee_tokens > 0")
    assert sorted(fees) == [("cctp", "2026-11-21", "0.001000"), ("oft", "2026-11-21", "0.002000")]


def test_transfer_funnel_has_expected_steps(connection: Connection) -> None:
    for number, (ready, done) in enumerate([(60, 100), (80, 300), (120, None), (None, None)]):
        end = {} if done is None else delivered(MIDNIGHT + done, 1)
        stage = {"stage": "DELIVERING"} if ready and not done else {}
        movement(connection, number, sent_at=MIDNIGHT, **end | stage)
        if ready:
            verified(connection, number, MIDNIGHT + ready)
    columns = "step, stage, reached, now_here, now_here_tokens, timed, p50_seconds, max_seconds"
    assert read(connection, columns, "transfer_funnel ORDER BY step") == [
        ("1", "IN_FLIGHT", "4", "1", "5.000000", "3", "80", "120"),
        ("2", "DELIVERING", "3", "1", "5.000000", "2", "40", "220"),
        ("4", "COMPLETED", "2", "2", "10.000000", "2", "100", "300"),
    ]


def test_delivery_before_its_source_by_other_clock_is_untimed(connection: Connection) -> None:
    movement(connection, 1, sent_at=MIDNIGHT, **delivered(MIDNIGHT - 3, 1))
    movement(connection, 2, sent_at=MIDNIGHT, **delivered(MIDNIGHT + 50, 1))
    columns = "stage, reached, timed, p50_seconds"
    assert read(connection, columns, "transfer_funnel WHERE stage = 'COMPLETED'") == [
        ("COMPLETED", "2", "1", "50")
    ]


def test_attestation_after_its_mint_is_untimed(connection: Connection) -> None:
    burned = {"mechanism": "cctp", "source_chain": BASE, "sent_at": MIDNIGHT}
    movement(connection, 1, **burned, **delivered(MIDNIGHT + 50, 1))
    movement(connection, 2, **burned, **delivered(MIDNIGHT + 50, 1))
    movement(connection, 3, **burned | {"stage": "ON_HOLD"})
    for number, judged in ((1, MIDNIGHT + 20), (2, MIDNIGHT + 51)):
        row = {
            "source_domain": 6,
            "nonce": GUIDS[number],
            "burn_key": GUIDS[number],
            "message_hash": "0x",
            "source_chain": BASE,
            "source_tx": f"0x{number}",
            "message": b"",
            "attestation": b"",
            "status": "complete",
            "attesters": [],
            "verified": True,
            "judged_at": text(f"to_timestamp({judged})"),
        }
        connection.execute(insert(facts.cctp_attestations).values(row))
    columns = "stage, reached, now_here, timed, p95_seconds"
    assert read(connection, columns, "transfer_funnel ORDER BY step") == [
        ("ATTESTING", "3", "0", "1", "20"),
        ("DELIVERING", "2", "0", "1", "30"),
        ("ON_HOLD", "1", "1", "0", None),
        ("COMPLETED", "2", "2", "2", "50"),
    ]
