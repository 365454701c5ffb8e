"""Is the relay well enough to promise what it has to send?

As with ingestion, anyone may read the answer, so it does not say why: that is in `relay.health`,
for operators (`python -m relay status`, Dagster's check).
"""

from collections.abc import Collection

from sqlalchemy import Connection

from api.errors import ChainUnavailable
from indexer.config.routes import FundingMode, Mechanism
from indexer.policy.relay_accounts import senders
from warehouse_schema.identifiers import ChainId, is_evm


def relayed(conn: Connection) -> frozenset[ChainId]:
    """Chains on which an account of the relay can send what transfers need."""
    return frozenset(
        each.chain for each in senders(conn) if each.duty == "deliver" and each.is_well
    )


def sends_at_source(chain: ChainId) -> bool:
    """Whether the relay sends at a transfer's beginning: what owners sign on Stellar."""
    return not is_evm(chain)


def sends_at_end(mechanism: Mechanism) -> bool:
    """Whether the relay sends at a transfer's end: LayerZero's executor delivers the OFT's."""
    return mechanism == "cctp"


def refuse_unrelayed(
    conn: Connection,
    mechanism: Mechanism,
    source: ChainId,
    dest: ChainId,
    funding_mode: FundingMode | None,
    what: str,
) -> None:
    """Raises `ChainUnavailable` if the relay cannot do its part: `what` cannot be done now."""
    needed: list[ChainId] = []
    if sends_at_source(source) or funding_mode == "deposit_address":
        needed.append(source)
    if sends_at_end(mechanism):
        needed.append(dest)
    _refuse(needed, relayed(conn), what)


def _refuse(needed: Collection[ChainId], well: Collection[ChainId], what: str) -> None:
    for chain in needed:
        if chain not in well:
            raise ChainUnavailable(
                f"{chain} is enabled, but its relayer is not available right now: {what}"
            )
