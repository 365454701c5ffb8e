"""Bounded HTTP, and nodes of one chain: failover, pool, quorum of witnesses."""
