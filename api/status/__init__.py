"""`/v1/status`: the last reconciliation, public."""
