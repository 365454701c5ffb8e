"""Health of a chain's ingestion, decided in one place.

`isthmus status`, `/readyz`, `/v1/status`, routes, quotes, transfers, metrics and
Dagster's check `keeps_up` all show the result of `assess`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from indexer.config.networks import Chain
from indexer.facts.status import ChainStatus

HealthReason: TypeAlias = Literal[
    "NOT_STARTED", "ON_HOLD", "NOT_FOLLOWED", "NODE_FAILING", "STOPPED", "LATE"
]
"""Why a chain is unhealthy. Stable: clients may match on it."""

REASON_TEXTS: Mapping[HealthReason, str] = {
    "NOT_STARTED": "has not been ingested yet",
    "ON_HOLD": "is on hold",
    "NOT_FOLLOWED": "is not being followed",
    "NODE_FAILING": "cannot be read from its node",
    "STOPPED": "stands still",
    "LATE": "is behind its head",
}
"""Text after the chain's id, for clients. Names no node."""

_SILENT_SECONDS, _SILENT_BLOCKS = 10, 3
"""Time without a heartbeat or block after which follower, node or chain has stopped.

A healthy chain may miss three blocks in a row.
"""
_UNFOLLOWED_SECONDS = 2
"""Time since a lease expired, 1.5 s after its process was last there. Dagster starts another within
2 s, so it shows when that takes longer."""
_LATE_SECONDS, _LATE_BLOCKS = 60, 20
"""Distance behind the head from which on a chain is late.

Time to catch up after a restart of the node or the follower, on any chain.
"""


@dataclass(frozen=True, slots=True)
class ChainHealth:
    """Result of `assess`."""

    reason: HealthReason | None
    """None when the chain is healthy."""
    detail: str
    """The reason for operators, which may name a node; empty when the chain is healthy."""
    warnings: tuple[str, ...]
    """Work for an operator even if the chain is healthy."""

    @property
    def is_well(self) -> bool:
        """True when the chain is healthy."""
        return self.reason is None

    @property
    def needs_operator(self) -> bool:
        """True when there is a reason or a warning."""
        return self.reason is not None or bool(self.warnings)


def assess(chain: Chain, status: ChainStatus) -> ChainHealth:
    """Assess one chain. Ages are by the database's clock."""
    reason: HealthReason | None = None
    detail = ""
    limit = _SILENT_SECONDS + _SILENT_BLOCKS * chain.block_seconds
    silent, idle = status.silent_seconds or 0.0, status.idle_seconds or 0.0
    if status.height is None:
        reason, detail = "NOT_STARTED", "nothing ingested yet"
    elif status.held is not None:
        reason, detail = "ON_HOLD", f"on hold: {status.held}"
    elif (status.unfollowed_seconds or 0.0) > _UNFOLLOWED_SECONDS:
        since = f"{status.unfollowed_seconds:.0f} s"
        reason, detail = (
            "NOT_FOLLOWED",
            f"its follower has been gone or hung for {since}",
        )
    elif silent > limit:
        reason, detail = "NOT_FOLLOWED", f"its follower has not reported for {silent:.0f} s"
    elif idle > limit and status.failure is not None:
        reason, detail = "NODE_FAILING", f"no new block for {idle:.0f} s: {status.failure}"
    elif idle > limit:
        reason, detail = "STOPPED", f"no new block for {idle:.0f} s, says its node"
    elif (status.lag_seconds or 0) > _LATE_SECONDS + _LATE_BLOCKS * chain.block_seconds:
        behind = f"{status.lag_seconds} s and {status.lag_blocks} blocks"
        reason, detail = "LATE", f"{behind} behind its head"
    warnings = []
    if status.open_alarms:
        warnings.append(f"{status.open_alarms} open alarms")
    if status.quarantined:
        warnings.append(f"{status.quarantined} ledgers in quarantine")
    if status.protocol_ahead is not None:
        warnings.append(f"protocol {status.protocol_ahead} is ahead, which this build cannot read")
    return ChainHealth(reason, detail, tuple(warnings))
