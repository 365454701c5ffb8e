"""The code location: every chain that has a node, and what all chains share.

isthmus code-server
"""

import dagster as dg

from indexer.config.settings import Settings, load_settings
from pipelines.defs import orphans, retention
from pipelines.defs.backfill import backfills
from pipelines.defs.check_jobs import check_jobs
from pipelines.defs.days.assets import days
from pipelines.defs.facts.attestations import attestations
from pipelines.defs.facts.chain import chain_facts
from pipelines.defs.projections.assets import projections
from pipelines.defs.projections.reconciliation import reconciliations
from pipelines.defs.projections.transfers import transfers
from pipelines.defs.redecode import redecoding
from pipelines.defs.repair import gap_repair
from pipelines.defs.resources import ChainNodes, WarehouseResource
from pipelines.defs.service_status import service_checks


def definitions(settings: Settings) -> dg.Definitions:
    """All definitions for the chains that have a node."""
    network, followed = settings.network, settings.followed
    return dg.Definitions.merge(
        service_checks(network),
        *(chain_facts(network, chain) for chain in followed),
        attestations(network, followed),
        projections(network, followed),
        transfers(network, followed),
        reconciliations(network),
        days(settings),
        check_jobs(followed),
        backfills(settings),
        gap_repair(settings),
        redecoding(network),
        orphans.definitions,
        retention.definitions,
        dg.Definitions(
            resources={"warehouse": WarehouseResource(), "nodes": ChainNodes()},
            # A process for each step would cost three to seven seconds.
            executor=dg.in_process_executor,
        ),
    )


defs = definitions(load_settings())
