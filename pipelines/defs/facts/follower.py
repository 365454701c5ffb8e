"""The step that follows a chain: the indexer's loop with a reader, a goal and reports."""

from collections.abc import Sequence

import dagster as dg

from indexer.config.networks import Network
from indexer.facts.status import ChainStatus
from indexer.ingest.follow import follow
from indexer.ingest.quarantine import retry_untried
from indexer.ingest.ranges import RangeProgress
from pipelines.defs.facts.checks import status_of
from pipelines.defs.resources import ChainNodes, WarehouseResource
from pipelines.long_run import CatchUpConfig, long_run
from pipelines.reports import AssetReporter, IngestReport
from warehouse_schema.identifiers import ChainId


def follow_chain(
    context: dg.OpExecutionContext,
    config: CatchUpConfig,
    warehouse: WarehouseResource,
    nodes: ChainNodes,
    network: Network,
    chain: ChainId,
    reporters: Sequence[AssetReporter[IngestReport]],
) -> ChainStatus:
    """Ingest until the time is over, the head is reached or a stop is requested.

    Returns the chain's status then. Raises as `failures_for_dagster`.
    """
    with (
        long_run(context, warehouse, reporters, config) as run,
        nodes.reader(chain) as reader,
    ):
        target = reader.head().height if config.minutes == 0 else None
        ingested = status_of(run.engine, network, chain).height
        height: int = -1 if ingested is None else ingested
        retry_untried(run.engine, network, chain)

        def on_progress(progress: RangeProgress) -> None:
            nonlocal height
            height = progress.height
            run.report(IngestReport.of(progress))

        def should_stop() -> bool:
            return (target is not None and height >= target) or run.is_over()

        follow(run.engine, reader, network, should_stop=should_stop, on_progress=on_progress)
        return status_of(run.engine, network, chain)
