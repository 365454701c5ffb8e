"""Benchmarks of the running service: `python -m tests.bench [NAME …]`."""
