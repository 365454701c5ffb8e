"""Deposits that are paid on Ethereum for good, as its follower and the relay leave them."""

from sqlalchemy import Connection, insert, update

from indexer.transfers.load import load_transfers
from tests.factories.actions import MAINNET
from tests.factories.stage_facts import bring_in, burn
from warehouse_schema.facts import cursors
from warehouse_schema.relay import obstacles

FINAL = 1_000


def pay(conn: Connection, transfer: str, height: int = 100) -> None:
    """A final burn of a direct deposit by CCTP, whose recipient has no trustline."""
    [loaded] = load_transfers(conn, MAINNET, [transfer])
    row = {"transfer": transfer, "kind": "no_trustline", "detail": "no trustline"}
    conn.execute(insert(obstacles).values(row))
    events = burn(loaded.inputs.terms, height, tx=transfer)
    at = cursors.c.chain == events[0].seen.chain
    conn.execute(update(cursors).where(at).values(height=FINAL, final_height=FINAL))
    bring_in(conn, *events)
