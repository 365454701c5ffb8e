"""HTTP with bounded time and size, rate-limited services, and the node pool."""
