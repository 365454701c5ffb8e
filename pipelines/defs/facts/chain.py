"""A chain in Dagster: its assets, the job that follows it, and the job's restart sensor.

One factory for every chain. A follower is one long run, not a run for each block: a run costs about
three seconds of processor time to start, a block costs milliseconds.
"""

from collections.abc import Iterator

import dagster as dg
from sqlalchemy import Engine

from indexer.config.networks import Chain, Network, StellarChain
from indexer.facts.status import ChainStatus
from indexer.ingest.follow import follow
from indexer.ingest.ranges import RangeProgress
from pipelines.defs.facts.checks import chain_checks, status_of
from pipelines.defs.names import (
    MOVEMENTS,
    ORDER_BOOK,
    blocks_key,
    chain_name,
    cursor_key,
    events_key,
    follower_job,
)
from pipelines.defs.resources import ChainNodes, WarehouseResource
from pipelines.long_run import CatchUpConfig, long_run
from pipelines.reports import (
    AssetReporter,
    IngestReport,
    LaterReports,
    chain_metadata,
    projection_metadata,
    status_metadata,
)
from pipelines.restart_sensor import MINUTES, long_run_definitions
from pipelines.supervision import RunState


def chain_facts(network: Network, chain: Chain) -> dg.Definitions:
    """All definitions of one chain of the network."""
    facts = _facts(network, chain)

    def state(engine: Engine, moved_at: float | None) -> RunState:
        status = status_of(engine, network, chain.id)
        return RunState(where(status), moved_at, status.held)

    return long_run_definitions(
        follower_job(chain.id),
        facts,
        cursor_key(chain.id),
        state,
        f"Follows {chain.name} ({chain.id})",
        checks=chain_checks(network, chain),
        config=dg.RunConfig(ops={facts.op.name: CatchUpConfig(minutes=MINUTES)}),
        tags={"isthmus/chain": chain.id},
    )


def _facts(network: Network, chain: Chain) -> dg.AssetsDefinition:
    blocks, events, cursor = blocks_key(chain.id), events_key(chain.id), cursor_key(chain.id)
    # What one commit of the chain writes, in order.
    projections = [ORDER_BOOK, MOVEMENTS] if chain == network.stellar else [MOVEMENTS]
    reporters = [
        AssetReporter(blocks, chain_metadata, LaterReports.NOTHING),
        AssetReporter(events, chain_metadata, LaterReports.NOTHING),
        AssetReporter(cursor, chain_metadata, LaterReports.MATERIALIZE),
        *(AssetReporter(key, projection_metadata, LaterReports.OBSERVE) for key in projections),
    ]

    @dg.multi_asset(
        name=f"ingest_{chain_name(chain.id)}",
        specs=[
            dg.AssetSpec(
                blocks,
                description=f"Every block of {chain.name}: facts.blocks.",
                kinds={"postgres"},
            ),
            dg.AssetSpec(
                events,
                deps=[blocks],
                description=f"Events of our contracts on {chain.name}, raw and decoded: "
                "facts.* by chain.",
                kinds={"postgres"},
            ),
            dg.AssetSpec(
                cursor,
                deps=[blocks, events],
                description=f"How far {chain.name} is ingested: facts.cursors. Materialized every "
                "few seconds, with figures.",
                kinds={"postgres"},
            ),
        ],
        group_name=chain_name(chain.id),
        # The pool, of one run, of everything that writes the chain.
        pool=f"writes_{chain_name(chain.id)}",
        can_subset=False,
    )
    def facts(
        context: dg.AssetExecutionContext,
        config: CatchUpConfig,
        warehouse: WarehouseResource,
        nodes: ChainNodes,
    ) -> Iterator[dg.MaterializeResult[None]]:
        """Ingest until the time is over, the head is reached or a stop is requested."""
        with (
            long_run(context.op_execution_context, warehouse, reporters, config) as run,
            nodes.reader(chain.id) as reader,
        ):
            target = reader.head().height if config.minutes == 0 else None
            ingested = status_of(run.engine, network, chain.id).height
            height: int = -1 if ingested is None else ingested
            if isinstance(chain, StellarChain):
                # Imported here: it decodes ledgers, and blocks of EVM chains are never quarantined.
                from indexer.ingest.quarantine import retry_untried

                retry_untried(run.engine, network, chain.id)

            def on_progress(progress: RangeProgress) -> None:
                nonlocal height
                height = progress.height
                run.report(IngestReport.of(progress))

            def should_stop() -> bool:
                return (target is not None and height >= target) or run.is_over()

            follow(
                run.engine,
                reader,
                network,
                should_stop=should_stop,
                on_progress=on_progress,
                # What an operator starts to catch up says who follows the chain, and ends.
                is_standby=target is None,
            )
            status = status_of(run.engine, network, chain.id)
        for key in (blocks, events, cursor):
            yield dg.MaterializeResult(asset_key=key, metadata=status_metadata(status))

    return facts


def where(status: ChainStatus) -> str:
    """How far a chain is and how late, as a sentence."""
    if status.height is None:
        return f"{status.chain} has nothing ingested yet"
    return (
        f"{status.chain} at {status.height} of {status.head_height}, "
        f"{status.lag_blocks} blocks and {status.lag_seconds} s behind"
    )
