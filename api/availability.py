"""Whether chains and the relay are healthy enough to promise a transfer.

These answers are public, so they do not say why. The reasons, which may name nodes and their
errors, are for operators: `isthmus status`, `isthmus relay status`, Dagster's checks.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection

from api.errors import ChainUnavailable
from indexer.config.networks import Network
from indexer.config.routes import FundingMode, Mechanism
from indexer.facts.health import REASON_TEXTS, assess
from indexer.facts.status import ChainStatus
from indexer.policy.relay_accounts import account_statuses
from indexer.service_status.availability import (
    relay_sends_at_dest,
    relay_sends_at_source,
    relayed_chains,
)
from warehouse_schema.identifiers import ChainId


def require_healthy_chains(
    network: Network, statuses: Sequence[ChainStatus], chains: Collection[str], what: str
) -> None:
    """Raises `ChainUnavailable` if ingestion of one of the chains is not healthy."""
    for status in statuses:
        reason = assess(network.chain(status.chain), status).reason
        if status.chain in chains and reason is not None:
            raise ChainUnavailable(f"{status.chain} {REASON_TEXTS[reason]}: {what} now")


def require_relay(
    conn: Connection,
    mechanism: Mechanism,
    source: ChainId,
    dest: ChainId,
    funding_mode: FundingMode | None,
    what: str,
) -> None:
    """Raises `ChainUnavailable` if the relay cannot send one of the transfer's transactions."""
    relayed = relayed_chains(account_statuses(conn))
    needed: list[tuple[ChainId, frozenset[ChainId]]] = []
    if relay_sends_at_source(source):
        needed.append((source, relayed.submitting))
    if funding_mode == "deposit_address":
        needed.append((source, relayed.delivering))
    if relay_sends_at_dest(mechanism):
        needed.append((dest, relayed.delivering))
    for chain, available in needed:
        if chain not in available:
            raise ChainUnavailable(
                f"{chain} is enabled, but its relayer is not available right now: {what}"
            )
