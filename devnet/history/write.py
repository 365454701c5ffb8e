"""Writes the generated history into a warehouse that holds nothing yet.

The raw events are decoded and folded as those of a backfill are, and reconciled. The cursors stand
at the top blocks afterwards, so that followers go on from there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from sqlalchemy import Connection, Engine, insert

from devnet.history.customers import CustomerHistory
from devnet.history.emitting import Emitter, blocks_of
from devnet.history.market import DAY, MarketHistory
from indexer.analytics.reconciliation import reconcile
from indexer.chains.raw import Block
from indexer.config.networks import Network
from indexer.facts import store
from indexer.facts.cursors import Cursor, move_cursor
from indexer.facts.days import day_of, start_of
from indexer.facts.decoding import decode_events
from indexer.ingest.rebuild import rebuild
from warehouse_schema.identifiers import ChainId, UnixSeconds
from warehouse_schema.metadata import metadata

DAYS = 90
_TABLES = (
    "intake.quotes",
    "intake.transfers",
    "intake.submissions",
    "intake.cancellations",
    "facts.expiries",
    "facts.cctp_attestations",
    "relay.slots",
    "relay.attempts",
)
"""In the order that foreign keys ask for."""


@dataclass(frozen=True)
class HistoryReport:
    """What was written."""

    first: date
    last: date
    events: int
    transfers: int
    quotes: int


def write_history(
    owner: Engine,
    indexer: Engine,
    network: Network,
    tops: Mapping[ChainId, Block],
    *,
    seed: int,
    days: int = DAYS,
) -> HistoryReport:
    """Write `days` whole days, the last of them the one before the earliest of the tops'.

    `tops`: the last block of each chain's history, without events of ours; the chain goes on from
    it. `owner` may write every table, `indexer` has the indexer's role. The same arguments give the
    same rows.
    """
    open_day = min(day_of(top.time) for top in tops.values())
    begin = UnixSeconds(start_of(open_day) - days * DAY)
    emitters = {chain: Emitter(chain) for chain in tops}
    MarketHistory(network.stellar, emitters[network.stellar.id], seed).play(begin, days)
    customers = CustomerHistory(network, emitters, seed)
    customers.play(begin, days)
    with owner.begin() as conn:
        events = sum(
            _write_chain(conn, network, emitters[chain], begin, top) for chain, top in tops.items()
        )
        for name in _TABLES:
            if customers.rows[name]:
                conn.execute(insert(metadata.tables[name]), customers.rows[name])
    report = rebuild(indexer, network)
    # The transfers are old: without one the service would call the reconciliation overdue.
    reconcile(indexer, network)
    return HistoryReport(
        first=day_of(begin),
        last=open_day - timedelta(days=1),
        events=events,
        transfers=report.transfers,
        quotes=len(customers.rows["intake.quotes"]),
    )


def _write_chain(
    conn: Connection, network: Network, emitter: Emitter, begin: int, top: Block
) -> int:
    blocks, raw = blocks_of(emitter, begin, top)
    decoded = decode_events(raw, network.chain(top.chain))
    cursor = Cursor(
        chain=top.chain,
        height=top.height,
        block_hash=top.hash,
        block_time=top.time,
        head_height=top.height,
        head_time=top.time,
        safe_height=top.height,
        final_height=top.height,
    )
    move_cursor(conn, None, cursor)
    store.append(conn, blocks, decoded)
    return len(decoded)
