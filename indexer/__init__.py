"""chain → facts → projections. Knows no orchestrator and no web framework."""

# Imported for its effect, before the libraries that it is about.
import indexer.library_settings  # noqa: F401
