"""Limits of an owner: per UTC day, and outstanding at a time, all routes together.

Amounts are units of 10⁻⁷ USD: USDC and USDT0 count one dollar each.
"""

from collections.abc import Collection

from sqlalchemy import Connection, text

from indexer.config.routes import EVM_DECIMALS, STELLAR_DECIMALS
from warehouse_schema.identifiers import ChainId, StellarAddress, is_evm

STARTED_USD = 100
"""Maximum started in a UTC day, whatever the outcome."""
OUTSTANDING_USD = 100
"""Maximum outstanding at a time; late money of a transfer that was over counts again."""
UNITS_PER_USD = 10**STELLAR_DECIMALS
"""Sums are in the smaller of the two base units."""

_UNITS_PER_EVM_UNIT = 10 ** (STELLAR_DECIMALS - EVM_DECIMALS)

# The slot of an extra movement counts from its opening: a signed transaction may cost its fee. The
# transfer's own movement counts as started. Extras are those of the fold.
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
    """Base units of a coin on a chain, as units of 10⁻⁷ USD."""
    return amount * _UNITS_PER_EVM_UNIT if is_evm(chain) else amount


def daily_room(conn: Connection, owners: Collection[StellarAddress]) -> dict[StellarAddress, int]:
    """Remaining daily limit of each owner for extra deliveries, units of 10⁻⁷ USD.

    Counts transfers started this UTC day, and extra deliveries that the relay signed in it.
    """
    rows = conn.execute(_USED, {"owners": sorted(set(owners)), "scale": _UNITS_PER_EVM_UNIT})
    used = {row.owner: int(row.used) for row in rows}
    return {owner: STARTED_USD * UNITS_PER_USD - used.get(owner, 0) for owner in owners}
