"""`/healthz` and `/readyz`: for operators and orchestrators."""
