"""How the relay is, for people: what it says of itself, and what it cannot say."""

from sqlalchemy import Connection

from indexer.relay import store
from indexer.senders import SILENT_SECONDS

STUCK_SECONDS = 3600.0
"""Longer than any chain of ours takes to be final, with room for a replacement or two."""


def complaints(conn: Connection) -> list[str]:
    """What an operator has to look at, a sentence each."""
    accounts = store.all_health(conn)
    if not accounts:
        return ["no account of a relay has ever been here"]
    found = [
        f"{row.chain} {row.account}: {row.reason}" for row in accounts if row.reason is not None
    ]
    found += [
        f"{row.chain} {row.account}: silent for {row.seen_ago:.0f} s; is its relay running?"
        for row in accounts
        if row.seen_ago > SILENT_SECONDS
    ]
    found += [
        f"{row.chain} {row.account}: {row.purpose} of {row.subject} under number {row.number} "
        f"waits for {row.open_for:.0f} s"
        for row in store.waiting_longest(conn, STUCK_SECONDS)
    ]
    found += [
        f"{row.chain}: deposits wait for {row.operator}, which no relay has ever signed for"
        for row in store.unserved_operators(conn)
    ]
    return found
