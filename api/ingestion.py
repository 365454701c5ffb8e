"""Is a chain's ingestion well enough to promise anything about it?"""

from indexer.facts.status import ChainStatus, late_after
from indexer.networks import Chain


def complaint(chain: Chain, status: ChainStatus) -> str | None:
    """Why the chain's ingestion is unwell, in words; None when it is well.

    Unwell is: nothing ingested yet, on hold, no new block for longer than `late_after` (by
    the database's clock: follower, node or chain stands still), or further than that behind the
    head (by the chain's own clock: it is catching up).
    """
    if status.height is None:
        return f"{chain.id} has not been ingested yet"
    if status.held is not None:
        return f"{chain.id} is on hold: {status.held}"
    limit = late_after(chain)
    if status.idle_seconds is not None and status.idle_seconds > limit:
        return f"{chain.id} has stood still for {status.idle_seconds:.0f} s"
    if status.lag_seconds is not None and status.lag_seconds > limit:
        return f"{chain.id} is {status.lag_seconds} s behind its head"
    return None
