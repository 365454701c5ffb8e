"""The warehouse that `docs/analytics.md` shows: five days of a small market, and some transfers."""

from typing import Any

from sqlalchemy import Connection, Engine, insert, text

from indexer.analytics.daily import FIGURES, compute, due_days
from indexer.chains.raw import Block
from indexer.config.networks import load_network
from indexer.facts import store
from tests.factories.days import BEGIN, DAY, HOUR, ingest_ledgers, set_cursor, slow_history
from tests.factories.events import EVM, STELLAR, make_provenance
from warehouse_schema import events, facts
from warehouse_schema.identifiers import BlockHash, Height, UnixSeconds
from warehouse_schema.projections import movements

NETWORK = load_network("devnet")
SEED, DAYS = 11, 5


def fill(engine: Engine) -> None:
    """Facts, order book, transfers, and the figures of the days that are over."""
    with engine.begin() as conn:
        ingest_ledgers(conn, slow_history(SEED, DAYS))
        _evm_days(conn)
        _transfers(conn)
    for figure in FIGURES:
        with engine.connect() as conn:
            due = due_days(conn, NETWORK, figure)
        for _ in compute(engine, NETWORK, figure, due[0], due[-1]):
            pass


def _evm_days(conn: Connection) -> None:
    """A block of the EVM chain each hour, final."""
    times = range(BEGIN - HOUR, BEGIN + DAYS * DAY + HOUR, HOUR)
    blocks = [
        Block(
            chain=EVM,
            height=Height(height),
            hash=BlockHash(f"0x{height:064x}"),
            parent_hash=BlockHash(f"0x{height - 1:064x}"),
            time=UnixSeconds(time),
        )
        for height, time in enumerate(times, 1)
    ]
    store.append(conn, blocks, [])
    set_cursor(conn, blocks[-1])


def _transfers(conn: Connection) -> None:
    """Thirty movements in each direction and by each bridge, the last of them under way."""
    for number in range(60):
        mechanism = "cctp" if number % 3 else "oft"
        inward = number % 2 == 0
        sent_at = BEGIN + number * 7_000
        ready_at = sent_at + 60 + 37 * (number % 11)
        _transfer(conn, number, mechanism, inward, sent_at, ready_at)


def _transfer(
    conn: Connection, number: int, mechanism: str, inward: bool, sent_at: int, ready_at: int
) -> None:
    key = f"0x{number:064x}"
    ready, done = number < 58, number < 55
    if ready:
        _ready(conn, mechanism, key, sent_at, ready_at)
    under_way = "ATTESTING" if mechanism == "cctp" else "IN_FLIGHT"
    source, dest = (EVM, STELLAR) if inward else (STELLAR, EVM)
    six = 5_000_000 + 250_000 * (number % 13)
    fee = 500 if mechanism == "cctp" else 0
    row: dict[str, Any] = {
        "id": f"{mechanism}:{key}",
        "mechanism": mechanism,
        "group_key": key,
        "message_id": key,
        "stage": "COMPLETED" if done else "DELIVERING" if ready else under_way,
        "source_chain": source,
        "source_tx": key,
        "dest_chain": dest,
        "amount_in": six * (1 if inward else 10),
        "sent_at": sent_at,
    }
    if done:
        row |= {
            "dest_tx": key,
            "amount_out": (six - fee) * (10 if inward else 1),
            "fee": fee * (1 if inward else 10),
            "delivered_at": ready_at + 5 + number % 7,
        }
    conn.execute(insert(movements).values(row))


def _ready(conn: Connection, mechanism: str, key: str, sent_at: int, ready_at: int) -> None:
    if mechanism == "cctp":
        row = {
            "source_domain": 0,
            "nonce": key,
            "burn_key": key,
            "message_hash": key,
            "source_chain": EVM,
            "source_tx": key,
            "message": b"",
            "attestation": b"",
            "status": "complete",
            "attesters": [],
            "verified": True,
            "judged_at": text(f"to_timestamp({ready_at})"),
        }
        conn.execute(insert(facts.cctp_attestations).values(row))
        return
    seen = make_provenance(int(key, 16) + 1, chain=STELLAR)
    row = {
        **{name: getattr(seen, name) for name in ("chain", "height", "block_hash", "tx_hash")},
        "position": 0,
        "block_time": ready_at,
        "guid": key,
        "src_eid": 30101,
        "sender": key,
        "nonce": 1,
        "receiver": "C",
        "payload_hash": key,
    }
    conn.execute(insert(events.lz_packets_verified).values(row))
