"""Several API machines: PgBouncer, a streaming replica, HAProxy, and restarts."""
