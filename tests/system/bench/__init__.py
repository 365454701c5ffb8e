"""Benchmarks of the running service: `python -m tests.system.bench [NAME …]`."""
