"""Whether chains and the relay are healthy enough to promise a transfer.

These answers are public, so they do not say why. The reasons, which may name nodes and their
errors, are for operators: `isthmus status`, `isthmus relay status`, Dagster's checks.
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
    """Raises `ChainUnavailable` if ingestion of one of the chains is not healthy."""
    for status in statuses:
        reason = assess(network.chain(status.chain), status).reason
        if status.chain in chains and reason is not None:
            raise ChainUnavailable(f"{status.chain} {REASON_TEXTS[reason]}: {what} now")


def health_problems(
    conn: Connection, network: Network, statuses: Sequence[ChainStatus]
) -> list[str]:
    """Chains that are not healthy, and an overdue reconciliation."""
    reasons = {each.chain: assess(network.chain(each.chain), each).reason for each in statuses}
    found = [f"{chain} {REASON_TEXTS[reason]}" for chain, reason in reasons.items() if reason]
    if is_overdue(conn):
        found.append(f"the last reconciliation is over {MAX_AGE_SECONDS // 60} minutes old")
    return found


def followed_chains(network: Network, statuses: Sequence[ChainStatus]) -> list[ChainStatus]:
    """Chains that this deployment must keep up with: those with a cursor, and Stellar.

    Read from the cursors: the public process has no node settings. To stop following a chain for
    good, an operator deletes its cursor.
    """
    return [
        status
        for status in statuses
        if status.height is not None or status.chain == network.stellar.id
    ]


def relayed_chains(conn: Connection) -> frozenset[ChainId]:
    """Chains on which a relay account can send what transfers need."""
    return frozenset(
        each.chain for each in account_statuses(conn) if each.duty == "deliver" and each.is_healthy
    )


def relay_sends_at_source(chain: ChainId) -> bool:
    """Whether the relay submits the first transaction: those that owners sign on Stellar."""
    return not is_evm(chain)


def relay_sends_at_dest(mechanism: Mechanism) -> bool:
    """Whether the relay sends the last transaction: LayerZero's executor delivers the OFT's."""
    return mechanism == "cctp"


def require_relay(
    conn: Connection,
    mechanism: Mechanism,
    source: ChainId,
    dest: ChainId,
    funding_mode: FundingMode | None,
    what: str,
) -> None:
    """Raises `ChainUnavailable` if the relay cannot send one of the transfer's transactions."""
    available = relayed_chains(conn)
    needed: list[ChainId] = []
    if relay_sends_at_source(source) or funding_mode == "deposit_address":
        needed.append(source)
    if relay_sends_at_dest(mechanism):
        needed.append(dest)
    for chain in needed:
        if chain not in available:
            raise ChainUnavailable(
                f"{chain} is enabled, but its relayer is not available right now: {what}"
            )
