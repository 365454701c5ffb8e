"""`/healthz` and `/readyz`: for whoever runs the process."""
