"""The indexers that `beside_peers` compares: how each is started, and where its transfers are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from devnet.evm_node import AnvilProcess
from devnet.services import PROJECT, isthmus
from devnet.supervisor import free_port
from indexer.config.networks import EvmChain, load_network

EVENTS = 252
"""Of a block of a backfill. Never a round number of logs in a range, which a reader halves."""


@dataclass(frozen=True)
class Job:
    """What a process is to read, and where it writes."""

    node: AnvilProcess
    database: str
    first: int
    last: int | None
    """Block where a backfill ends; None follows the head."""


@dataclass(frozen=True)
class Start:
    """How the process of a job is started."""

    command: Sequence[str]
    variables: Mapping[str, str]
    folder: Path


@dataclass(frozen=True)
class Indexer:
    """One of the two of a run: its process, and the table of its events."""

    name: str
    start: Callable[[Job], Start]
    template: str
    """Database that each run's is a copy of."""
    table: str
    row: str
    """Condition of the row of an event, by its primary key."""
    totals: Sequence[str]
    """Queries of the number and the sum of the events up to a block."""


def isthmus_indexer(home: Path) -> Indexer:
    """Isthmus, with its state in that folder."""
    return Indexer(
        "isthmus",
        partial(_start_isthmus, home),
        "template_isthmus",
        "facts.erc20_transfers",
        f"chain = '{local_chain().id}' AND height = %(height)s AND position = %(position)s",
        ["SELECT count(*), sum(amount) FROM facts.erc20_transfers WHERE height <= %(height)s"],
    )


def isthmus_movements(home: Path) -> Indexer:
    """Isthmus, once it has folded the movement of an OFT send."""
    return replace(
        isthmus_indexer(home),
        table="projections.movements",
        row="id = 'oft:0x' || lpad(to_hex("
        f"(%(height)s - 1) * {EVENTS} + %(position)s + 1), 64, '0')",
        totals=[
            "SELECT count(*), sum(amount_sent) FROM facts.oft_sent",
            "SELECT count(*), sum(amount_in) FROM projections.movements",
        ],
    )


def _start_isthmus(home: Path, job: Job) -> Start:
    chain = local_chain().id
    if job.last is None:
        command, first = isthmus("follow", chain), job.first
    else:
        span = ("--from", str(job.first), "--to", str(job.last))
        # What a backfill reads lies below what is followed.
        command, first = isthmus("backfill", "--chain", chain, *span), job.last + 1
    variables = {
        "ISTHMUS_NETWORK": "devnet",
        "ISTHMUS_HOME": str(home),
        "DATABASE_URL": job.database,
        "ISTHMUS_RPC_EIP155_31337": f"{job.node.rpc_url},{job.node.ws_url}",
        "ISTHMUS_RPC_STELLAR_DEVNET": "",
        "ISTHMUS_START_EIP155_31337": str(first),
    }
    return Start(command, variables, PROJECT)


def subsquid_indexer(folder: Path) -> Indexer:
    """Subsquid, installed in that folder."""
    return Indexer(
        "subsquid",
        partial(_start_subsquid, folder, "lib/main.js"),
        "template_subsquid",
        "transfer",
        "id = %(height)s::text || '-' || %(position)s::text",
        ["SELECT count(*), sum(amount) FROM transfer WHERE block_number <= %(height)s"],
    )


def subsquid_balances(folder: Path) -> Indexer:
    """Subsquid, with OFT sends and the balances of their senders."""
    return replace(
        subsquid_indexer(folder),
        start=partial(_start_subsquid, folder, "lib/balances.js"),
        table="oft_send",
        totals=[
            "SELECT count(*), sum(amount) FROM oft_send",
            "SELECT sum(sends), sum(sent) FROM account",
        ],
    )


def _start_subsquid(folder: Path, program: str, job: Job) -> Start:
    variables = {
        **_peer_variables(job),
        "DB_URL": job.database,
        # With a finality of 0 it polls for blocks every 5 s; above, it listens.
        "FINALITY": "64" if job.last is None else "0",
        "NODE": job.node.ws_url if job.last is None else job.node.rpc_url,
    }
    return Start(["node", program], variables, folder)


def ponder_indexer(folder: Path) -> Indexer:
    """Ponder, installed in that folder."""
    return Indexer(
        "ponder",
        partial(_start_ponder, folder),
        "template0",
        "public.transfer",
        "block_number = %(height)s AND log_index = %(position)s",
        ["SELECT count(*), sum(amount) FROM public.transfer WHERE block_number <= %(height)s"],
    )


def _start_ponder(folder: Path, job: Job) -> Start:
    command = ["node_modules/.bin/ponder", "start", "--schema", "public", "--log-level", "warn"]
    variables = {
        **_peer_variables(job),
        "DATABASE_URL": job.database,
        "NODE": job.node.rpc_url,
        "NODE_WS": job.node.ws_url,
        "PONDER_TELEMETRY_DISABLED": "true",
    }
    return Start([*command, "--port", str(free_port())], variables, folder)


def _peer_variables(job: Job) -> dict[str, str]:
    return {
        "NODE_ENV": "production",
        "TOKEN": str(local_chain().usdc).lower(),
        "OFT": str(local_chain().oft).lower(),
        "FIRST": str(job.first),
        "LAST": "" if job.last is None else str(job.last),
    }


SUBSQUID_TABLES = """
    CREATE TABLE transfer (
        id varchar PRIMARY KEY, block_number int NOT NULL, log_index int NOT NULL,
        block_time timestamptz NOT NULL, transaction_hash text NOT NULL, token text NOT NULL,
        sender text NOT NULL, recipient text NOT NULL, amount numeric NOT NULL
    );
    CREATE TABLE account (
        id varchar PRIMARY KEY, sent numeric NOT NULL, sends numeric NOT NULL
    );
    CREATE TABLE oft_send (
        id varchar PRIMARY KEY, block_number int NOT NULL, log_index int NOT NULL,
        block_time timestamptz NOT NULL, transaction_hash text NOT NULL, guid text NOT NULL,
        destination int NOT NULL, sender_id varchar NOT NULL REFERENCES account,
        amount numeric NOT NULL
    );
    CREATE INDEX ON oft_send (sender_id)
"""


def local_chain() -> EvmChain:
    """The chain that they read."""
    (chain,) = load_network("devnet").evm
    return chain
