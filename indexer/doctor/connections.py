"""How many connections of Postgres the processes of a configuration hold at most."""

import os
from collections.abc import Mapping

from indexer.config.networks import EvmChain
from indexer.config.settings import Settings

POOL = 5
"""Of `open_warehouse`: followers, the poller of attestations, the keeper of transfers."""
RENEWAL = 2
"""Beside the pool of a process that holds leases (`indexer/facts/renewal.py`)."""
API_WORKER = 10
"""Threads of a worker, its notification listener and its reader of the stream (`api/server.py`,
`api/wsgi.py`, `api/stream/outbox_session.py`)."""
MAX_API_WORKERS = 8
DAGSTER_PROCESS = 4
"""Kept open by each process to Dagster's own database (`pipelines/storage.py`)."""
DAGSTER_PROCESSES = 4
"""Daemon, page and two code servers; each run is one more."""
COMMANDS = 5
"""Commands of an operator, such as this one."""


def pooled_connections(settings: Settings, *, has_dagster: bool) -> Mapping[str, int]:
    """Process → connections, on the server of the warehouse.

    The API counts with as many workers as it starts here by default.
    """
    followed = settings.followed
    runs = len(followed) + 1
    found = {"followers": (POOL + RENEWAL) * len(followed), "transfers": POOL}
    if settings.network.iris is not None:
        found["attest"] = POOL + RENEWAL
        runs += 1
    # A session for each worker of `relay.run`: senders, recipients, submissions, a sponsor.
    sessions = sum(2 if isinstance(chain, EvmChain) else 4 for chain in followed)
    found["relay"] = sessions + RENEWAL
    found["webhooks"] = 1 + RENEWAL
    found["api"] = API_WORKER * min(MAX_API_WORKERS, max(2, os.cpu_count() or 1))
    if has_dagster:
        # Relay and webhooks are runs, too.
        found["Dagster"] = DAGSTER_PROCESS * (DAGSTER_PROCESSES + runs + 2)
    found["commands"] = COMMANDS
    return found
