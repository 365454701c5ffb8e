"""`make drill`: faults in a running system, watched by a real Prometheus and Alertmanager.

For each fault exactly its own alert must fire within 60 s, the commands of its section in
docs/operations/alerts.md must run, and the alert must end. One JSON line a fault.

| module | what |
|---|---|
| `system.py` | chains, database and every process of the service, each with metrics |
| `monitoring.py` | Prometheus and Alertmanager with the files of `deploy/prometheus` |
| `runbook.py` | commands of the page, and the units that they restart |
| `faults.py` | what is broken, how the world mends it, and the alert |
| `evm.py`, `stellar.py` | faults of nodes and chains that take several steps |
| `clock.py` | a process with a wrong clock |
| `newer_build.py` | a release that reads the next protocol |
"""
