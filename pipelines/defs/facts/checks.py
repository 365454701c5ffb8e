"""Checks on what was ingested. Their jobs run on a schedule, beside the followers."""

from collections.abc import Callable, Mapping, Sequence

import dagster as dg
from sqlalchemy import Engine

from indexer.config.networks import Chain, Network, StellarChain
from indexer.facts.checks import alarm_lines, block_faults, quarantine_lines
from indexer.facts.health import assess
from indexer.facts.status import ChainStatus, chain_status, follower_processes
from pipelines.defs.names import (
    ALL_DECODED,
    BLOCKS_JOIN,
    HISTORY_JOINS,
    KEEPS_UP,
    NO_OPEN_ALARMS,
    blocks_key,
    events_key,
)
from pipelines.defs.resources import WarehouseResource
from pipelines.reports import Metadata
from warehouse_schema.identifiers import ChainId, Height
from warehouse_schema.leases import LeaseState

RECENT_BLOCKS = 20_000
"""More than a chain usually adds from one check of all its history to the next."""

_WARN, _ERROR = dg.AssetCheckSeverity.WARN, dg.AssetCheckSeverity.ERROR
Verdict = tuple[Sequence[str], dg.AssetCheckSeverity]
"""Problems, and their severity."""


def chain_checks(network: Network, chain: Chain) -> list[dg.AssetChecksDefinition]:
    """The checks of one chain's facts."""

    def recent_blocks(engine: Engine) -> Verdict:
        since = max(0, (status_of(engine, network, chain.id).height or 0) - RECENT_BLOCKS)
        return block_faults(engine, chain.id, Height(since)), _ERROR

    def health(engine: Engine) -> Verdict:
        found = assess(chain, status_of(engine, network, chain.id))
        problems = [] if found.is_well else [f"{found.reason}: {found.detail}"]
        return problems, _ERROR if found.reason == "ON_HOLD" else _WARN

    checks = [
        _check(
            blocks_key(chain.id),
            BLOCKS_JOIN,
            f"No gap between the last {RECENT_BLOCKS} blocks; each names the one below as its "
            "parent.",
            recent_blocks,
            blocking=True,
        ),
        _check(
            blocks_key(chain.id),
            HISTORY_JOINS,
            "The same of all stored blocks. As often as it is cheap.",
            lambda engine: (block_faults(engine, chain.id), _ERROR),
            # The run fails with it: a check that runs rarely must not be overlooked.
            blocking=True,
        ),
        _check(
            events_key(chain.id),
            NO_OPEN_ALARMS,
            "No alarm is open for an operator: facts.alarms.",
            lambda engine: (alarm_lines(engine, chain.id), _WARN),
        ),
        _check(
            blocks_key(chain.id),
            KEEPS_UP,
            "Ingestion is healthy, as for routes, /readyz and `isthmus status`. With the process "
            "that follows the chain, and its standbys.",
            health,
            processes=lambda engine: follower_processes(engine, chain.id),
        ),
    ]
    if has_quarantine(chain):
        checks.append(
            _check(
                events_key(chain.id),
                ALL_DECODED,
                "No ledger is in quarantine: facts.quarantined_ledgers.",
                lambda engine: (quarantine_lines(engine, chain.id), _WARN),
            )
        )
    return checks


def has_quarantine(chain: Chain) -> bool:
    """Whether a block of the chain may be stored undecoded: EVM logs fail one by one."""
    return isinstance(chain, StellarChain)


def status_of(engine: Engine, network: Network, chain: ChainId) -> ChainStatus:
    """One chain's status."""
    return next(status for status in chain_status(engine, network) if status.chain == chain)


def _check(
    asset: dg.AssetKey,
    name: str,
    description: str,
    find: Callable[[Engine], Verdict],
    *,
    blocking: bool = False,
    processes: Callable[[Engine], Sequence[LeaseState]] = lambda _: (),
) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=asset, name=name, blocking=blocking, description=description)
    def check(warehouse: WarehouseResource) -> dg.AssetCheckResult:
        with warehouse.engine() as engine:
            problems, severity = find(engine)
            states = processes(engine)
        return verdict(problems, severity=severity, processes=states)

    return check


def verdict(
    problems: Sequence[str],
    *,
    severity: dg.AssetCheckSeverity = _ERROR,
    figures: Mapping[str, int] | None = None,
    processes: Sequence[LeaseState] = (),
) -> dg.AssetCheckResult:
    """Passed without problems; else failed, with each as a line of the metadata.

    `processes` are those that do the work, and their standbys.
    """
    metadata: Metadata = {"problems": len(problems), **(figures or {})}
    if problems:
        metadata["found"] = dg.MetadataValue.md("\n".join(f"- {line}" for line in problems))
    if processes:
        metadata["processes"] = "\n".join(map(str, processes))
    return dg.AssetCheckResult(passed=not problems, severity=severity, metadata=metadata)
