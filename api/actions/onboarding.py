"""Trustlines that the service sponsors: asked for by a row, shown once the relay has signed them.

The api has no key. What an owner is to sign is the relay's own transaction, with its signature;
what he signed is kept for the relay, which sends it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection, func, insert, select

from api.actions import schema
from indexer.actions.stellar_check import ROOM, latest_of
from indexer.actions.stellar_tx import StellarTx, read_tx
from indexer.networks import StellarChain
from indexer.senders import senders
from warehouse_schema.identifiers import AssetId, BaseUnits, StellarAddress, UnixSeconds
from warehouse_schema.intake import actions, consents, onboardings
from warehouse_schema.relay import onboardings as signed
from warehouse_schema.relay import slots

AGAIN_SECONDS = 60
"""Who still waits asks again so often, in the place of him who polls; the relay forgets after two
minutes who does not."""


@dataclass(frozen=True, slots=True)
class Newcomer:
    """Who can be paid once he has a trustline, and can sign for one."""

    transfer: str
    owner: StellarAddress
    asset: AssetId
    amount: BaseUnits
    """Least that he is to be paid, stroops."""


def sponsored(
    conn: Connection, chain: StellarChain, who: Newcomer, now: UnixSeconds
) -> StellarTx | schema.Idle:
    """The transaction that he is to sign, or why there is none: it is asked for meanwhile.

    The caller decides about the transfer, and commits.
    """
    query = (
        select(signed.c.envelope, consents.c.tx_hash)
        .outerjoin(consents, consents.c.tx_hash == signed.c.tx_hash)
        .where(signed.c.transfer == who.transfer)
        .order_by(signed.c.offered_at.desc())
        .limit(1)
    )
    newest = conn.execute(query).one_or_none()
    if newest is not None:
        found = read_tx(chain.passphrase, newest.envelope)
        if latest_of(found) >= now + ROOM:
            return found if newest.tx_hash is None else "waiting"
    if not _may_sponsor(conn, chain, who):
        return "no_trustline"
    _ask(conn, who.transfer)
    return "sponsoring"


def _may_sponsor(conn: Connection, chain: StellarChain, who: Newcomer) -> bool:
    """Once an owner and an asset, as long as a sponsor has what it takes."""
    columns, key = slots.c, f"{who.owner} {who.asset}"
    once = select(columns.number).where(
        columns.chain == chain.id, columns.purpose == "onboard", columns.key == key
    )
    if conn.scalar(once.where(columns.outcome == "done")) is not None:
        return False
    return any(
        each.chain == chain.id and each.duty == "sponsor" and each.is_well for each in senders(conn)
    )


def _ask(conn: Connection, transfer: str) -> None:
    columns = onboardings.c
    asked = select(func.count(), func.max(columns.asked_at)).where(columns.transfer == transfer)
    number, last = conn.execute(asked).one()
    due = select(func.now() - timedelta(seconds=AGAIN_SECONDS))
    if last is None or last <= conn.execute(due).scalar_one():
        conn.execute(insert(onboardings).values(transfer=transfer, number=number + 1))


def shown_onboardings(conn: Connection, chain: StellarChain, transfer: str) -> Sequence[StellarTx]:
    """What was shown for a transfer so far, the oldest first."""
    query = (
        select(actions.c.issued)
        .where(actions.c.transfer == transfer, actions.c.kind == "stellar_trustline")
        .order_by(actions.c.number)
    )
    return [read_tx(chain.passphrase, issued["xdr"]) for issued in conn.scalars(query)]
