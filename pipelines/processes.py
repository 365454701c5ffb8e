"""The processes of an installation, as `isthmus up` and the files of deploy/ start them.

One list: tests compare the units, the compose file and the chart with it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from indexer.config.senders import (
    RELAY_VARIABLES,
    SERVER_VARIABLE,
    SPONSOR_VARIABLES,
    WEBHOOK_VARIABLES,
)
from indexer.config.settings import CODE_SERVER_PORT, RELAY_SERVER_PORT
from warehouse_schema.variables import is_chain_variable

WAREHOUSE = "DATABASE_URL"
DAGSTER = "ISTHMUS_DAGSTER_URL"
NODES = "ISTHMUS_RPC_<CHAIN>"
BROKER = "ISTHMUS_BROKER_URL"


@dataclass(frozen=True, slots=True)
class Process:
    """One command `isthmus …`, and what it needs."""

    name: str
    command: tuple[str, ...]
    """Words after `isthmus`."""
    about: str
    secrets: tuple[str, ...]
    """All variables with a key or a password that it reads; `<NAME>_FILE` is the same variable."""
    port: int | None = None
    """Default port."""
    needed_by: tuple[str, ...] = ()
    """Variables of which at least one is set where it is needed; empty: it always is."""
    health_path: str | None = None
    """Path that answers 200 without a login, of those that speak HTTP."""
    metrics: str | None = None
    """Variable with the address of its metrics."""
    metrics_port: int | None = None
    """Port of the metrics in the files of deploy/."""
    stop_seconds: int = 10
    """Time that it may take to end after SIGTERM. The signal goes to its process group."""


MIGRATE = Process(
    "migrate",
    ("migrate",),
    "brings the warehouse up to date, and ends; before the others start",
    secrets=(WAREHOUSE,),
)

CODE_SERVER = Process(
    "code-server",
    ("code-server",),
    "holds Dagster's definitions and the runs: followers, checks, exports",
    secrets=(WAREHOUSE, DAGSTER, NODES, BROKER),
    port=CODE_SERVER_PORT,
    metrics="ISTHMUS_METRICS_PIPELINES",
    metrics_port=9465,
    # Followers end after their range.
    stop_seconds=30,
)

RELAY_SERVER = Process(
    "relay-server",
    ("code-server", "--relay"),
    "the same for what sends transactions and webhooks: it alone has keys that spend",
    secrets=(
        *(WAREHOUSE, DAGSTER, NODES),
        *("ISTHMUS_RELAY_KEY_<CHAIN>", "ISTHMUS_RELAY_SPONSOR_<CHAIN>", "ISTHMUS_WEBHOOK_KEY"),
        "ISTHMUS_PKCS11_PIN",
    ),
    port=RELAY_SERVER_PORT,
    metrics="ISTHMUS_METRICS_RELAY",
    metrics_port=9466,
    needed_by=(
        *(*RELAY_VARIABLES, *SPONSOR_VARIABLES, *WEBHOOK_VARIABLES),
        # Page and daemon have no key: the address of the server shows that there is one.
        *(SERVER_VARIABLE, "ISTHMUS_RELAY_SERVER_PORT"),
    ),
    stop_seconds=30,
)

DAEMON = Process(
    "daemon",
    ("daemon",),
    "evaluates Dagster's sensors and schedules, and has the code servers start runs",
    secrets=(DAGSTER,),
)

PAGE = Process(
    "page",
    ("page",),
    "Dagster's page behind its guard",
    secrets=(DAGSTER, "ISTHMUS_PAGE_PASSWORD"),
    port=3000,
    health_path="/server_info",
)

API = Process(
    "api",
    ("api",),
    "serves clients, the stream and the pages",
    secrets=(
        *(WAREHOUSE, "ISTHMUS_POOLER_URL", "ISTHMUS_REPLICA_URL", NODES),
        *("ISTHMUS_TOKEN_KEY", "ISTHMUS_TOKEN_KEY_OTHER", "ISTHMUS_SEP10_KEY"),
        "ISTHMUS_IDENTITY_APP_SECRET",
    ),
    port=8080,
    health_path="/healthz",
    metrics="ISTHMUS_METRICS",
    metrics_port=9464,
)

WORKER = Process(
    "worker",
    ("worker",),
    "runs steps of Dagster's jobs for the Celery executor; on as many machines as wanted",
    secrets=(WAREHOUSE, DAGSTER, NODES, BROKER),
    # A step that is cut off is run again, from its last commit on.
    stop_seconds=60,
)
"""Started by hand, where `dagster.executor` is `celery`."""

PROCESSES = (CODE_SERVER, RELAY_SERVER, DAEMON, PAGE, API)
"""In the order of their start; they stop in reverse."""


def needed_processes(variables: Mapping[str, str]) -> tuple[Process, ...]:
    """The long-running processes of a configuration."""
    return tuple(each for each in PROCESSES if is_needed(each, variables))


def is_needed(process: Process, variables: Mapping[str, str]) -> bool:
    """Whether a configuration has the process: by names of variables, no secret is read."""
    return not process.needed_by or any(
        text and is_variable(pattern, name)
        for pattern in process.needed_by
        for name, text in variables.items()
    )


def is_variable(pattern: str, name: str) -> bool:
    """Whether a variable, or its `_FILE`, matches a name that may hold `<CHAIN>`."""
    return is_chain_variable(pattern, re.sub(r"_FILE$", "", name))
