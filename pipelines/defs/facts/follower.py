"""The step that follows a chain: a door opened, the indexer's loop run, its progress reported."""

from collections.abc import Callable, Sequence

import dagster as dg
from pydantic import Field
from sqlalchemy import Engine

from indexer.config.networks import Network
from indexer.facts.status import ChainStatus, chain_status
from indexer.ingest.follow import follow
from indexer.ingest.quarantine import retry_untried
from indexer.ingest.ranges import RangeProgress
from pipelines.defs.resources import ChainNodes, WarehouseResource
from pipelines.long_run import LongRunConfig, long_run
from pipelines.reports import AssetReporter, Report
from pipelines.restart_sensor import MINUTES
from warehouse_schema.identifiers import ChainId


class FollowConfig(LongRunConfig):
    """How long to follow a chain."""

    minutes: float = Field(
        default=0,
        ge=0,
        le=MINUTES,
        description="Minutes to follow the chain. 0: catch up with the head of now, then end.",
    )


def follow_chain(
    context: dg.OpExecutionContext,
    config: FollowConfig,
    warehouse: WarehouseResource,
    nodes: ChainNodes,
    network: Network,
    chain: ChainId,
    told: Sequence[AssetReporter[Report]],
) -> ChainStatus:
    """Bring in blocks until the time is over, the head is reached or somebody asks to stop.

    Returns where the chain stands then. Raises what `told_to_dagster` makes of the indexer's
    errors.
    """
    with long_run(context, warehouse, told, config) as run, nodes.reader(chain) as reader:
        target = reader.head().height if config.minutes == 0 else None
        goal = Goal(target, _status(run.engine, network, chain).height)
        retry_untried(run.engine, network, chain)
        follow(
            run.engine,
            reader,
            network,
            should_stop=lambda: goal.reached or run.is_over(),
            on_progress=_both(goal.note, lambda progress: run.report(Report.of(progress))),
        )
        return _status(run.engine, network, chain)


class Goal:
    """A height to reach; without one it is never reached."""

    def __init__(self, target: int | None, height: int | None) -> None:
        self._target = target
        self._height = -1 if height is None else height

    def note(self, progress: RangeProgress) -> None:
        """The chain is at another height now."""
        self._height = progress.height

    @property
    def reached(self) -> bool:
        """Whether the chain is there."""
        return self._target is not None and self._height >= self._target


def _both(
    first: Callable[[RangeProgress], None], second: Callable[[RangeProgress], None]
) -> Callable[[RangeProgress], None]:
    def call(progress: RangeProgress) -> None:
        first(progress)
        second(progress)

    return call


def _status(engine: Engine, network: Network, chain: ChainId) -> ChainStatus:
    return next(one for one in chain_status(engine, network) if one.chain == chain)
