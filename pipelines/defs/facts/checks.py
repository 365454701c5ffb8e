"""Checks on what was ingested. Their jobs run on a schedule, beside the followers."""

from collections.abc import Sequence

import dagster as dg

from indexer.config.networks import Chain, Network, StellarChain
from indexer.facts.checks import alarm_lines, block_faults, quarantine_lines
from indexer.facts.health import assess
from indexer.facts.status import chain_status
from pipelines.defs.facts.names import blocks_key, events_key
from pipelines.defs.resources import WarehouseResource
from warehouse_schema.identifiers import ChainId, Height

BLOCKS_JOIN, HISTORY_JOINS = "blocks_join", "history_joins"
NO_OPEN_ALARMS, KEEPS_UP = "no_open_alarms", "keeps_up"
ALL_DECODED = "all_decoded"

RECENT_BLOCKS = 20_000
"""More than a chain that keeps up adds from one check of all its history to the next, as a rule."""


def chain_checks(network: Network, chain: Chain) -> list[dg.AssetChecksDefinition]:
    """The checks of one chain's facts."""
    checks = [
        _blocks_join(network, chain),
        _history_joins(chain.id),
        _no_open_alarms(chain.id),
        _keeps_up(network, chain),
    ]
    return [*checks, _all_decoded(chain.id)] if has_quarantine(chain) else checks


def has_quarantine(chain: Chain) -> bool:
    """Whether a block of the chain may be kept undecoded: EVM logs fail one by one."""
    return isinstance(chain, StellarChain)


def _blocks_join(network: Network, chain: Chain) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=blocks_key(chain.id),
        name=BLOCKS_JOIN,
        blocking=True,
        description=f"No hole between the last {RECENT_BLOCKS} blocks; each names the one below "
        "as its parent.",
    )
    def check(warehouse: WarehouseResource) -> dg.AssetCheckResult:
        with warehouse.engine() as engine:
            status = next(s for s in chain_status(engine, network) if s.chain == chain.id)
            since = Height(max(0, (status.height or 0) - RECENT_BLOCKS))
            return verdict(block_faults(engine, chain.id, since))

    return check


def _history_joins(chain: ChainId) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=blocks_key(chain),
        name=HISTORY_JOINS,
        # The run fails with it: a finding that is looked for rarely must not be overseen.
        blocking=True,
        description="The same of all blocks that are stored. As often as it is cheap.",
    )
    def check(warehouse: WarehouseResource) -> dg.AssetCheckResult:
        with warehouse.engine() as engine:
            return verdict(block_faults(engine, chain))

    return check


def _no_open_alarms(chain: ChainId) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=events_key(chain),
        name=NO_OPEN_ALARMS,
        description="Nothing stands that a person must look at: facts.alarms.",
    )
    def check(warehouse: WarehouseResource) -> dg.AssetCheckResult:
        with warehouse.engine() as engine:
            return verdict(alarm_lines(engine, chain), severity=dg.AssetCheckSeverity.WARN)

    return check


def _all_decoded(chain: ChainId) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=events_key(chain),
        name=ALL_DECODED,
        description="No ledger is in quarantine: facts.quarantined_ledgers.",
    )
    def check(warehouse: WarehouseResource) -> dg.AssetCheckResult:
        with warehouse.engine() as engine:
            return verdict(quarantine_lines(engine, chain), severity=dg.AssetCheckSeverity.WARN)

    return check


def _keeps_up(network: Network, chain: Chain) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=blocks_key(chain.id),
        name=KEEPS_UP,
        description="The chain can be relied on, as routes, /readyz and `indexer status` say it.",
    )
    def check(warehouse: WarehouseResource) -> dg.AssetCheckResult:
        with warehouse.engine() as engine:
            status = next(s for s in chain_status(engine, network) if s.chain == chain.id)
        health = assess(chain, status)
        waits = health.reason == "ON_HOLD"
        return verdict(
            [] if health.is_well else [f"{health.reason}: {health.detail}"],
            severity=dg.AssetCheckSeverity.ERROR if waits else dg.AssetCheckSeverity.WARN,
        )

    return check


def verdict(
    problems: Sequence[str], *, severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR
) -> dg.AssetCheckResult:
    """Passed if there are no problems; else failed, with each as a line of the metadata."""
    metadata: dict[str, dg.MetadataValue] = {"problems": dg.MetadataValue.int(len(problems))}
    if problems:
        metadata["found"] = dg.MetadataValue.md("\n".join(f"- {line}" for line in problems))
    return dg.AssetCheckResult(passed=not problems, severity=severity, metadata=metadata)
