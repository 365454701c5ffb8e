"""chain → facts → projections. Knows no orchestrator and no web framework."""

import indexer.allocator  # noqa: F401
