"""What a chain's things are called in Dagster."""

import dagster as dg

from warehouse_schema.identifiers import ChainId

ATTESTATIONS = dg.AssetKey(["facts", "attestations"])
"""What services say of messages under way."""

ASK_JOB = "ask_attestations"
ASK_POOL = "asks_attestations"
"""The pool, of one place, of what asks services."""


def chain_name(chain: ChainId) -> str:
    """`eip155:1` → `eip155_1`: Dagster's names hold letters, digits and underscores."""
    return chain.replace(":", "_").replace("-", "_")


def blocks_key(chain: ChainId) -> dg.AssetKey:
    """Blocks or ledgers of a chain."""
    return dg.AssetKey(["facts", chain_name(chain), "blocks"])


def events_key(chain: ChainId) -> dg.AssetKey:
    """Raw and decoded events of a chain."""
    return dg.AssetKey(["facts", chain_name(chain), "events"])


def cursor_key(chain: ChainId) -> dg.AssetKey:
    """How far a chain is."""
    return dg.AssetKey(["facts", chain_name(chain), "cursor"])


def follower_job(chain: ChainId) -> str:
    """The job that follows a chain."""
    return f"follow_{chain_name(chain)}"


def pool(chain: ChainId) -> str:
    """The pool, of one place, of everything that writes a chain."""
    return f"writes_{chain_name(chain)}"
