"""chain → facts → projections. Knows no orchestrator and no web framework."""

# Sets variables, so it is imported before the libraries that read them.
import indexer.library_settings  # noqa: F401
