"""A chain in Dagster: its assets, the job that follows it, and the job's restart sensor.

One factory for every chain. A follower is one long run, not a run for each block: a run costs about
three seconds of processor time to start, a block costs milliseconds.
"""

from collections.abc import Iterator

import dagster as dg
from sqlalchemy import Engine

from indexer.config.networks import Chain, Network
from indexer.facts.status import ChainStatus
from pipelines.defs.facts.checks import chain_checks, status_of
from pipelines.defs.facts.follower import follow_chain
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
from pipelines.long_run import CatchUpConfig
from pipelines.reports import (
    AssetReporter,
    LaterReports,
    chain_metadata,
    projection_metadata,
    status_metadata,
)
from pipelines.restart_sensor import MINUTES, long_run_job, restart_sensor
from pipelines.supervision import RunState


def chain_facts(network: Network, chain: Chain) -> dg.Definitions:
    """All definitions of one chain of the network."""
    facts = _facts(network, chain)
    job = long_run_job(
        follower_job(chain.id),
        dg.AssetSelection.assets(facts).without_checks(),
        f"Follows {chain.name} ({chain.id})",
        config=dg.RunConfig(ops={facts.op.name: CatchUpConfig(minutes=MINUTES)}),
        tags={"isthmus/chain": chain.id},
    )

    def state(engine: Engine, moved_at: float | None) -> RunState:
        status = status_of(engine, network, chain.id)
        return RunState(where(status), moved_at, status.held)

    return dg.Definitions(
        assets=[facts],
        asset_checks=chain_checks(network, chain),
        jobs=[job],
        sensors=[restart_sensor(follower_job(chain.id), cursor_key(chain.id), state)],
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
        """Follow the chain, or catch up with it."""
        status = follow_chain(
            context.op_execution_context, config, warehouse, nodes, network, chain.id, reporters
        )
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
