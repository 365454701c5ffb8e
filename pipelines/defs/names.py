"""Names in Dagster: asset keys, jobs, checks and pools (of one run each)."""

import dagster as dg

from warehouse_schema.identifiers import ChainId

# The whole service

ALL_IS_WELL = "all_is_well"
"""Name of the group and of its first check: Dagster sorts groups and assets by name."""
SERVICE = dg.AssetKey([ALL_IS_WELL, "service"])

# Facts, by chain

BLOCKS_JOIN, HISTORY_JOINS = "blocks_join", "history_joins"
NO_OPEN_ALARMS, KEEPS_UP = "no_open_alarms", "keeps_up"
ALL_DECODED = "all_decoded"

ATTESTATIONS = dg.AssetKey(["facts", "attestations"])
ATTESTATIONS_JOB = "poll_attestations"
ATTESTATIONS_POOL = "attestations"


def chain_name(chain: ChainId) -> str:
    """`eip155:1` → `eip155_1`: Dagster's names hold letters, digits and underscores."""
    return chain.replace(":", "_").replace("-", "_")


def blocks_key(chain: ChainId) -> dg.AssetKey:
    """Blocks or ledgers of a chain."""
    return dg.AssetKey(["facts", chain_name(chain), "blocks"])


def events_key(chain: ChainId) -> dg.AssetKey:
    """Raw and decoded events of a chain."""
    return dg.AssetKey(["facts", chain_name(chain), "events"])


def cursor_key(chain: ChainId) -> dg.AssetKey:
    """How far a chain is ingested."""
    return dg.AssetKey(["facts", chain_name(chain), "cursor"])


def follower_job(chain: ChainId) -> str:
    """The job that follows a chain."""
    return f"follow_{chain_name(chain)}"


# Projections

ORDER_BOOK = dg.AssetKey(["projections", "order_book"])
MOVEMENTS = dg.AssetKey(["projections", "movements"])
TRANSFER_STATES = dg.AssetKey(["projections", "transfer_states"])
RECONCILIATION = dg.AssetKey(["projections", "reconciliation"])
PROJECTIONS_POOL = "writes_projections"
TRANSFERS_JOB = "keep_transfers"
TRANSFERS_POOL = "keeps_transfers"

# Days

DAYS = dg.DailyPartitionsDefinition(start_date="2025-01-01", timezone="UTC")
"""UTC days by block and ledger time. No chain of a network file begins earlier; the indexer's
commands have no such bound."""

PROVIDER_DAYS = dg.AssetKey(["projections", "provider_days"])
MARKET_DAYS = dg.AssetKey(["projections", "market_days"])
ROUTE_DAYS = dg.AssetKey(["projections", "route_days"])
FACT_FILES = dg.AssetKey(["export", "facts"])
FIGURE_FILES = dg.AssetKey(["export", "figures"])

BOOK_JOB = "compute_book_days"
ROUTES_JOB = "compute_route_days"
FACTS_JOB = "export_facts"
FIGURES_JOB = "export_figures"
CHECK_DAYS = "check_days"

AGREES = "agrees_with_views"
EXPORT_POOL = "writes_export"
