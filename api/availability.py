"""Is a chain's ingestion well enough to promise anything about it? `indexer.facts.health` decides.

Anyone may read the answer, so it is one of a few words. What stands behind it, which may name nodes
and their errors, is for operators: `isthmus status`, Dagster's checks, `facts.alarms`.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection

from api.errors import ChainUnavailable
from indexer.analytics.reconciliation import MAX_AGE_SECONDS, is_overdue
from indexer.config.networks import Network
from indexer.config.routes import FundingMode, Mechanism
from indexer.facts.health import REASON_TEXTS, assess
from indexer.facts.status import ChainStatus
from indexer.policy.relay_accounts import account_statuses
from warehouse_schema.identifiers import ChainId, is_evm


def require_healthy_chains(
    network: Network, statuses: Sequence[ChainStatus], chains: Collection[str], what: str
) -> None:
    """Raises `ChainUnavailable` if one of the chains is unwell: `what` cannot be done now."""
    for status in statuses:
        reason = assess(network.chain(status.chain), status).reason
        if status.chain in chains and reason is not None:
            raise ChainUnavailable(f"{status.chain} {REASON_TEXTS[reason]}: {what} now")


def health_problems(
    conn: Connection, network: Network, statuses: Sequence[ChainStatus]
) -> list[str]:
    """Why not to rely on what is shown: chains that are unwell, and a reconciliation long ago."""
    reasons = {each.chain: assess(network.chain(each.chain), each).reason for each in statuses}
    found = [f"{chain} {REASON_TEXTS[reason]}" for chain, reason in reasons.items() if reason]
    if is_overdue(conn):
        found.append(f"the last reconciliation is over {MAX_AGE_SECONDS // 60} minutes old")
    return found


def followed_chains(network: Network, statuses: Sequence[ChainStatus]) -> list[ChainStatus]:
    """Chains that this deployment must keep up with: those it has ever ingested from, and Stellar.

    The cursors say so, so that the public process needs to know no node. To give up a chain for
    good, an operator deletes its cursor.
    """
    return [
        status
        for status in statuses
        if status.height is not None or status.chain == network.stellar.id
    ]


def relayed_chains(conn: Connection) -> frozenset[ChainId]:
    """Chains on which an account of the relay can send what transfers need."""
    return frozenset(
        each.chain for each in account_statuses(conn) if each.duty == "deliver" and each.is_healthy
    )


def relay_sends_at_source(chain: ChainId) -> bool:
    """Whether the relay sends at a transfer's beginning: what owners sign on Stellar."""
    return not is_evm(chain)


def relay_sends_at_dest(mechanism: Mechanism) -> bool:
    """Whether the relay sends at a transfer's end: LayerZero's executor delivers the OFT's."""
    return mechanism == "cctp"


def require_relay(
    conn: Connection,
    mechanism: Mechanism,
    source: ChainId,
    dest: ChainId,
    funding_mode: FundingMode | None,
    what: str,
) -> None:
    """Raises `ChainUnavailable` if the relay cannot do its part: `what` cannot be done now."""
    needed: list[ChainId] = []
    if relay_sends_at_source(source) or funding_mode == "deposit_address":
        needed.append(source)
    if relay_sends_at_dest(mechanism):
        needed.append(dest)
    _refuse(needed, relayed_chains(conn), what)


def _refuse(needed: Collection[ChainId], well: Collection[ChainId], what: str) -> None:
    for chain in needed:
        if chain not in well:
            raise ChainUnavailable(
                f"{chain} is enabled, but its relayer is not available right now: {what}"
            )
