"""Webhooks as owners register them, and what there is to tell them."""

from datetime import timedelta
from itertools import count
from typing import Any

from sqlalchemy import Connection, func, insert, select

from indexer.transfers.outbox import TransferChange, publish_changes
from tests.factories.started import insert_transfer
from tests.factories.tokens import ACCOUNT
from warehouse_schema.identifiers import StellarAddress
from warehouse_schema.intake import webhook_removals, webhook_secrets, webhooks
from warehouse_schema.relay import webhook_deliveries, webhook_senders, webhook_states

_numbers = count(1)
PUBLIC_KEY = "whpk_A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg="
"""Of the seed that is the bytes from 0 to 31."""


def insert_webhook(
    conn: Connection,
    url: str = "https://hooks.example/a",
    *,
    secret: str | None = None,
    **changes: Any,
) -> str:
    """One of the owner's; its id."""
    row = {"id": f"{next(_numbers):032x}", "owner": ACCOUNT, "url": url, "after": 0, **changes}
    conn.execute(insert(webhooks).values(row))
    if secret is not None:
        conn.execute(insert(webhook_secrets).values(webhook=row["id"], secret=secret))
    return str(row["id"])


def remove_webhook(conn: Connection, webhook: str, *, days_ago: int = 0) -> None:
    """As its owner does."""
    removed_at = func.now() - timedelta(days=days_ago)
    conn.execute(insert(webhook_removals).values(webhook=webhook, removed_at=removed_at))


def begun(conn: Connection, owner: str = ACCOUNT) -> str:
    """A transfer of an owner, none of which begin at one time; its id."""
    return insert_transfer(conn, ago=60 + next(_numbers), owner=owner)


def insert_stages(conn: Connection, transfer: str, *stages: Any, owner: str = ACCOUNT) -> None:
    """Events of a transfer, one for each stage."""
    for stage in stages or ("FUNDED",):
        news = TransferChange(
            owner=StellarAddress(owner),
            transfer=transfer,
            stage=stage,
            status="pending_anchor",
            reason=None,
        )
        publish_changes(conn, [news])


def insert_events(conn: Connection, how_many: int = 1, owner: str = ACCOUNT) -> str:
    """A transfer of an owner, and so many events of it; its id."""
    transfer = begun(conn, owner)
    insert_stages(conn, transfer, *["FUNDED"] * how_many, owner=owner)
    return transfer


def insert_state(conn: Connection, webhook: str, position: int, **changes: Any) -> None:
    """How far it is."""
    row = {"webhook": webhook, "position": position, "failures": 0, "given_up": 0}
    row |= {"is_prompt": True, **changes}
    conn.execute(insert(webhook_states).values(row))


def insert_delivery(conn: Connection, webhook: str, number: int, **changes: Any) -> None:
    """What came of an event: delivered at once, unless it is said otherwise."""
    good = {"attempts": 1, "answer": 204, "outcome": "delivered"}
    row = {"webhook": webhook, "number": number, **good, **changes}
    conn.execute(insert(webhook_deliveries).values(row))


def insert_sender(conn: Connection, public_key: str = PUBLIC_KEY) -> None:
    """Somebody who posts to webhooks."""
    conn.execute(insert(webhook_senders).values(public_key=public_key))


def state_of(conn: Connection, webhook: str) -> Any:
    """Its row of `webhook_states`; None before there is one."""
    query = select(webhook_states).where(webhook_states.c.webhook == webhook)
    return conn.execute(query).one_or_none()


def deliveries_of(conn: Connection, webhook: str) -> list[Any]:
    """Its rows of `webhook_deliveries`, in order."""
    columns = webhook_deliveries.c
    query = select(webhook_deliveries).where(columns.webhook == webhook).order_by(columns.number)
    return list(conn.execute(query))
