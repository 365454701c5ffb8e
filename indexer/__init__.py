"""chain → facts → projections. Knows no orchestrator and no web framework."""
