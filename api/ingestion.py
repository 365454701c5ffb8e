"""Is a chain's ingestion well enough to promise anything about it? `indexer.facts.health` decides.

Anyone may read the answer, so it is one of a few words. What stands behind it, which may name nodes
and their errors, is for operators: `python -m indexer status`, Dagster's checks, `facts.alarms`.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection

from api.errors import ChainUnavailable
from indexer.analytics.reconciliation import MAX_AGE_SECONDS, is_overdue
from indexer.config.networks import Network
from indexer.facts.health import SENTENCES, assess
from indexer.facts.status import ChainStatus


def refuse_unwell(
    network: Network, statuses: Sequence[ChainStatus], chains: Collection[str], what: str
) -> None:
    """Raises `ChainUnavailable` if one of the chains is unwell: `what` cannot be done now."""
    for status in statuses:
        reason = assess(network.chain(status.chain), status).reason
        if status.chain in chains and reason is not None:
            raise ChainUnavailable(f"{status.chain} {SENTENCES[reason]}: {what} now")


def complaints(conn: Connection, network: Network, statuses: Sequence[ChainStatus]) -> list[str]:
    """Why not to rely on what is shown: chains that are unwell, and a reconciliation long ago."""
    reasons = {each.chain: assess(network.chain(each.chain), each).reason for each in statuses}
    found = [f"{chain} {SENTENCES[reason]}" for chain, reason in reasons.items() if reason]
    if is_overdue(conn):
        found.append(f"the last reconciliation is over {MAX_AGE_SECONDS // 60} minutes old")
    return found


def followed(network: Network, statuses: Sequence[ChainStatus]) -> list[ChainStatus]:
    """Chains that this deployment must keep up with: those it has ever ingested from, and Stellar.

    The cursors say so, so that the public process needs to know no node. To give up a chain for
    good, an operator deletes its cursor.
    """
    return [
        status
        for status in statuses
        if status.height is not None or status.chain == network.stellar.id
    ]
