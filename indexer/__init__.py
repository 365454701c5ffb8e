"""chain → facts → projections. Knows no orchestrator and no web framework."""

# Imported for its effect, before anything that imports polars.
import indexer.allocator  # noqa: F401
