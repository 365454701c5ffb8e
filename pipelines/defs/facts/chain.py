"""A chain in Dagster: its facts, the job that follows it, the sensor that keeps that job alive.

One factory for every chain. A follower is one long run, not a run a block: a run costs about three
seconds of processor time to start, a block costs milliseconds.
"""

from collections.abc import Iterator

import dagster as dg
from sqlalchemy import Engine

from indexer.config.networks import Chain, Network
from indexer.facts.status import ChainStatus, chain_status
from pipelines.defs.facts.checks import chain_checks
from pipelines.defs.facts.follower import FollowConfig, follow_chain
from pipelines.defs.facts.names import (
    blocks_key,
    chain_name,
    cursor_key,
    events_key,
    follower_job,
    pool,
)
from pipelines.defs.projections.names import MOVEMENTS, ORDER_BOOK
from pipelines.defs.resources import ChainNodes, WarehouseResource
from pipelines.reports import (
    AssetReporter,
    LaterReports,
    Report,
    chain_metadata,
    projection_metadata,
    status_metadata,
)
from pipelines.restart_sensor import LONG_RUN_TAGS, MINUTES, keeper
from pipelines.supervision import RunState


def chain_facts(network: Network, chain: Chain) -> dg.Definitions:
    """Everything Dagster knows of one chain of the network."""
    facts = _facts(network, chain)
    job = dg.define_asset_job(
        name=follower_job(chain.id),
        selection=dg.AssetSelection.assets(facts).without_checks(),
        description=f"Follows {chain.name} ({chain.id}) for {MINUTES / 60:g} hours.",
        config=dg.RunConfig(ops={facts.op.name: FollowConfig(minutes=MINUTES)}),
        executor_def=dg.in_process_executor,
        tags={"isthmus/chain": chain.id, **LONG_RUN_TAGS},
    )
    return dg.Definitions(
        assets=[facts],
        asset_checks=chain_checks(network, chain),
        jobs=[job],
        sensors=[_keeper(network, chain)],
    )


def _facts(network: Network, chain: Chain) -> dg.AssetsDefinition:
    blocks, events, cursor = blocks_key(chain.id), events_key(chain.id), cursor_key(chain.id)
    told = _told(network, chain)

    @dg.multi_asset(
        name=f"ingest_{chain_name(chain.id)}",
        specs=[
            dg.AssetSpec(
                blocks,
                description=f"Every block of {chain.name}, ours or not: facts.blocks.",
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
                description=f"How far {chain.name} is: facts.cursors. Materialized every few "
                "seconds, with figures.",
                kinds={"postgres"},
            ),
        ],
        group_name=chain_name(chain.id),
        pool=pool(chain.id),
        can_subset=False,
    )
    def facts(
        context: dg.AssetExecutionContext,
        config: FollowConfig,
        warehouse: WarehouseResource,
        nodes: ChainNodes,
    ) -> Iterator[dg.MaterializeResult[None]]:
        """Follow the chain, or catch up with it."""
        status = follow_chain(
            context.op_execution_context, config, warehouse, nodes, network, chain.id, told
        )
        for key in (blocks, events, cursor):
            yield dg.MaterializeResult(asset_key=key, metadata=status_metadata(status))

    return facts


def _told(network: Network, chain: Chain) -> list[AssetReporter[Report]]:
    """What one commit of the chain writes: its facts and the projections they touch, in order."""
    book = [ORDER_BOOK] if chain == network.stellar else []
    return [
        AssetReporter(blocks_key(chain.id), chain_metadata, LaterReports.NOTHING),
        AssetReporter(events_key(chain.id), chain_metadata, LaterReports.NOTHING),
        AssetReporter(cursor_key(chain.id), chain_metadata, LaterReports.MATERIALIZE),
        *(
            AssetReporter(key, projection_metadata, LaterReports.OBSERVE)
            for key in (*book, MOVEMENTS)
        ),
    ]


def _keeper(network: Network, chain: Chain) -> dg.SensorDefinition:
    def standing(engine: Engine, moved_at: float | None) -> RunState:
        status = next(s for s in chain_status(engine, network) if s.chain == chain.id)
        return RunState(where(status), moved_at, status.held)

    return keeper(follower_job(chain.id), cursor_key(chain.id), standing)


def where(status: ChainStatus) -> str:
    """How far a chain is and how late, in words."""
    if status.height is None:
        return f"{status.chain} has nothing ingested yet"
    return (
        f"{status.chain} at {status.height} of {status.head_height}, "
        f"{status.lag_blocks} blocks and {status.lag_seconds} s behind"
    )
