"""Is a chain's ingestion well enough to promise anything about it?

Anyone may read the answer, so it is one of a few words. What stands behind it, which may name nodes
and their errors, is for operators: `python -m indexer status`, Dagster's checks, `facts.alarms`.
"""

from collections.abc import Collection, Sequence
from typing import Literal, TypeAlias

from api.errors import ChainUnavailable
from indexer.facts.status import ChainStatus, late_after
from indexer.networks import Chain, Network

Complaint: TypeAlias = Literal["NOT_STARTED", "ON_HOLD", "STOPPED", "LATE"]
"""Why a chain's ingestion is unwell. Stable: clients may match on it."""

SENTENCES: dict[Complaint, str] = {
    "NOT_STARTED": "has not been ingested yet",
    "ON_HOLD": "is on hold",
    "STOPPED": "stands still",
    "LATE": "is behind its head",
}
"""What follows the chain's id when a person is told."""


def complaint(chain: Chain, status: ChainStatus) -> Complaint | None:
    """Why the chain's ingestion is unwell; None when it is well.

    STOPPED is no new block for longer than `late_after` by the database's clock: follower, node or
    chain stands still. LATE is further than that behind the head by the chain's own clock: it is
    catching up.
    """
    if status.height is None:
        return "NOT_STARTED"
    if status.held is not None:
        return "ON_HOLD"
    limit = late_after(chain)
    if status.idle_seconds is not None and status.idle_seconds > limit:
        return "STOPPED"
    if status.lag_seconds is not None and status.lag_seconds > limit:
        return "LATE"
    return None


def refuse_unwell(
    network: Network, statuses: Sequence[ChainStatus], chains: Collection[str], what: str
) -> None:
    """Raises `ChainUnavailable` if one of the chains is unwell: `what` cannot be done now."""
    for status in statuses:
        trouble = complaint(network.chain(status.chain), status)
        if status.chain in chains and trouble is not None:
            raise ChainUnavailable(f"{status.chain} {SENTENCES[trouble]}: {what} now")


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
