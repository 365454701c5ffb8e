"""Updates of the projections, in the transaction that writes the facts."""

from collections.abc import Sequence

from sqlalchemy import Connection

from indexer.chains.events import Event
from indexer.chains.raw import Block
from indexer.config.networks import Network
from indexer.facts.alarms import raise_alarm
from indexer.movements.mechanisms import affected_movements
from indexer.movements.store import apply_events, refold_movements
from indexer.transfers.affected import AffectedKeys
from indexer.transfers.store import record_rewound_sources, refold_affected, refold_transfers
from warehouse_schema.identifiers import ChainId


def apply_range(
    conn: Connection,
    network: Network,
    chain: ChainId,
    blocks: Sequence[Block],
    events: Sequence[Event],
    payments: AffectedKeys | None = None,
) -> None:
    """Fold the chain's newest range into movements, transfers and order book.

    `payments` are those among events that are no objects. Every ledger moves the order book's
    clock, also one without events.
    """
    apply_events(conn, network, events)
    refold_affected(conn, network, events, (), payments)
    if chain == network.stellar.id:
        # Imported here: followers of EVM chains do without.
        from indexer.orderbook.state import LedgerClose
        from indexer.orderbook.store import apply_ledgers

        ledgers = [LedgerClose(chain, block.height, block.time) for block in blocks]
        for alarm in apply_ledgers(conn, ledgers, events):
            raise_alarm(conn, chain, alarm.kind, alarm.subject, alarm.detail)


def revert_events(conn: Connection, network: Network, deleted: Sequence[Event]) -> None:
    """Refold without events that a reorg deleted; transfers record what they lost."""
    refold_movements(conn, network, affected_movements(deleted))
    refold_transfers(conn, network, record_rewound_sources(conn, network, deleted), rewound=True)
