"""How the sending to webhooks is, for operators."""

from sqlalchemy import Connection

from relay.webhooks import store

SILENT_SECONDS = 120.0
"""A sender says every ten seconds that it is at work."""
LATE_SECONDS = 300.0
"""There are few places for those that fail: with many of them each waits for its turn."""
_MOST_NAMED = 10


def webhook_problems(conn: Connection) -> list[str]:
    """What an operator has to look at, a sentence each."""
    silent = store.seconds_silent(conn)
    found = []
    if silent is None:
        found.append("nobody has ever sent to webhooks")
    elif silent > SILENT_SECONDS:
        found.append(f"silent for {silent:.0f} s: does anybody send to webhooks?")
    late = store.waiting(conn, LATE_SECONDS)
    found += [
        f"webhook {webhook}: an event waits for {waits:.0f} s"
        for webhook, waits in late[:_MOST_NAMED]
    ]
    if len(late) > _MOST_NAMED:
        found.append(f"and {len(late) - _MOST_NAMED} webhooks more")
    return found
