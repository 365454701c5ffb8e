"""What days are called in Dagster."""

import dagster as dg

DAYS = dg.DailyPartitionsDefinition(start_date="2025-01-01", timezone="UTC")
"""UTC days by block and ledger time. No chain of a network file begins earlier; the commands of the
indexer know no such bound."""

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
"""The pool, of one place, of what writes into the export folder."""
