"""Ingestion under kills, reorgs and lying nodes, held against one straight run.

`python -m tests.system.chaos`; how a run goes is told in `bare` and `stack`, what is compared in
`contents`.
"""
