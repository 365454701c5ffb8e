"""How much an owner may move in a UTC day and have under way at a time, all routes together.

Amounts are units of 10⁻⁷ USD: USDC and USDT0 count one dollar each.
"""

from collections.abc import Collection

from sqlalchemy import Connection, text

from indexer.config.routes import EVM_DECIMALS, STELLAR_DECIMALS
from warehouse_schema.identifiers import ChainId, StellarAddress, is_evm

STARTED_USD = 100
"""Most that an owner starts in a UTC day, whatever becomes of it."""
OUTSTANDING_USD = 100
"""Most that is under way at a time; what comes late to a transfer that was over counts again."""
UNITS_PER_USD = 10**STELLAR_DECIMALS
"""Sums are in the smaller of both base units."""

_UNITS_PER_EVM_UNIT = 10 ** (STELLAR_DECIMALS - EVM_DECIMALS)

# A slot of an extra movement counts when it was opened: what was signed may cost its fee. Which
# movements are extras the fold says; the one that carries the transfer counts as started.
_USED = text("""
    WITH counted AS (
        SELECT t.owner, q.source_chain, q.amount_in
        FROM intake.transfers t
        JOIN intake.quotes q ON q.id = t.quote
        WHERE t.owner = ANY(:owners)
          AND t.started_at >= date_trunc('day', now(), 'UTC')
        UNION ALL
        SELECT t.owner, p.source_chain, p.amount_in
        FROM relay.slots o
        JOIN intake.transfers t ON t.id = o.subject
        JOIN projections.transfer_states s ON s.transfer = o.subject
        JOIN projections.movements p
            ON p.id = ANY(s.extras) AND p.mechanism = 'cctp' AND p.message_id = o.key
        WHERE o.purpose = 'deliver' AND o.opened_at >= date_trunc('day', now(), 'UTC')
          AND t.owner = ANY(:owners)
    )
    SELECT owner, sum(
        amount_in * CASE WHEN starts_with(source_chain, 'eip155:') THEN :scale ELSE 1 END
    ) AS used
    FROM counted
    GROUP BY owner
""")


def units(chain: ChainId, amount: int) -> int:
    """Base units of a coin there, as units of 10⁻⁷ USD."""
    return amount * _UNITS_PER_EVM_UNIT if is_evm(chain) else amount


def daily_room(conn: Connection, owners: Collection[StellarAddress]) -> dict[StellarAddress, int]:
    """What each owner's daily limit has left for extra deliveries, units of 10⁻⁷ USD.

    Transfers started this UTC day count, and extra deliveries that the relay signed since then.
    """
    rows = conn.execute(_USED, {"owners": sorted(set(owners)), "scale": _UNITS_PER_EVM_UNIT})
    used = {row.owner: int(row.used) for row in rows}
    return {owner: STARTED_USD * UNITS_PER_USD - used.get(owner, 0) for owner in owners}
