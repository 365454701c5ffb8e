"""Checks on what was ingested. Their jobs run on a schedule, beside the followers."""

from collections.abc import Sequence

import dagster as dg

from indexer.facts.checks import blocks_join, open_alarms
from indexer.facts.status import ChainStatus, chain_status
from indexer.networks import Chain, Network
from pipelines.defs.facts.names import blocks_key, events_key
from pipelines.defs.resources import Warehouse
from warehouse_schema.identifiers import ChainId

_LATE_BLOCKS = 20
"""A chain this many of its usual block times behind its head, and a minute, is late."""


def chain_checks(network: Network, chain: Chain) -> list[dg.AssetChecksDefinition]:
    """The checks of one chain's facts."""
    return [_blocks_join(chain.id), _no_open_alarms(chain.id), _keeps_up(network, chain)]


def _blocks_join(chain: ChainId) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=blocks_key(chain),
        name="blocks_join",
        blocking=True,
        description="No hole between stored blocks; each names the one below as its parent.",
    )
    def check(warehouse: Warehouse) -> dg.AssetCheckResult:
        with warehouse.engine() as engine:
            return verdict(blocks_join(engine, chain))

    return check


def _no_open_alarms(chain: ChainId) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=events_key(chain),
        name="no_open_alarms",
        description="Nothing stands that a person must look at: facts.alarms.",
    )
    def check(warehouse: Warehouse) -> dg.AssetCheckResult:
        with warehouse.engine() as engine:
            return verdict(open_alarms(engine, chain), severity=dg.AssetCheckSeverity.WARN)

    return check


def _keeps_up(network: Network, chain: Chain) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=blocks_key(chain.id),
        name="keeps_up",
        description="The chain is not on hold, and not far behind the head its node names.",
    )
    def check(warehouse: Warehouse) -> dg.AssetCheckResult:
        with warehouse.engine() as engine:
            status = next(s for s in chain_status(engine, network) if s.chain == chain.id)
        if status.held is not None:
            return verdict([f"on hold: {status.held}"])
        return verdict(lateness(status, late_seconds(chain)), severity=dg.AssetCheckSeverity.WARN)

    return check


def late_seconds(chain: Chain) -> float:
    """From how many seconds on a chain counts as late."""
    return 60 + _LATE_BLOCKS * chain.block_seconds


def lateness(status: ChainStatus, limit: float) -> list[str]:
    """What is late about a chain: behind its head, or without a new block, for over `limit` s."""
    if status.height is None:
        return [f"{status.chain}: nothing ingested yet"]
    behind, idle = status.lag_seconds or 0, status.idle_seconds or 0
    found = []
    if behind > limit:
        found.append(f"{status.chain}: {behind} s behind its head, {status.lag_blocks} blocks")
    if idle > limit:
        found.append(f"{status.chain}: nothing new for {idle:.0f} s")
    return found


def verdict(
    problems: Sequence[str], *, severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR
) -> dg.AssetCheckResult:
    """Passed if there are no problems; else failed, with each as a line of the metadata."""
    metadata: dict[str, dg.MetadataValue] = {"problems": dg.MetadataValue.int(len(problems))}
    if problems:
        metadata["found"] = dg.MetadataValue.md("\n".join(f"- {line}" for line in problems))
    return dg.AssetCheckResult(passed=not problems, severity=severity, metadata=metadata)
