"""Transfers as they are made and called off; what a row of theirs means is folded elsewhere.

Each of these runs in one transaction of its caller's, READ COMMITTED: whatever is read after a
lock was granted is what its holder before left.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select
from sqlalchemy.dialects.postgresql import insert as upsert

from api.availability import require_healthy_chains, require_relay
from api.errors import ChainUnavailable, Conflict, NotFound, Unprocessable
from api.transfers.access import OwnedTransferId
from api.transfers.limits import refuse_over_limits
from api.transfers.requests import NewTransfer
from indexer.bridges.deposit_address.factory import Deposit, deposit_address, deposit_of_transfer
from indexer.config.networks import EvmChain, Network
from indexer.facts.status import chain_status_on
from indexer.transfers import state_machine
from indexer.transfers.read import read_transfers
from indexer.transfers.store import lock_transfers, with_interchangeable
from warehouse_schema import channels, locks
from warehouse_schema.identifiers import StellarAddress
from warehouse_schema.intake import (
    cancellations,
    quotes,
    transfers,
    watched_addresses,
)

_TICK = timedelta(microseconds=1)
"""The finest that Postgres keeps."""


@dataclass(frozen=True, slots=True)
class NewTransferTerms:
    """What every transfer of this service is given."""

    network: Network
    seconds: int
    """From its creation until it expires."""


@dataclass(frozen=True, slots=True)
class Made:
    """A transfer, and whether it is this request that made it."""

    id: OwnedTransferId
    is_new: bool


def make_transfer(
    conn: Connection, terms: NewTransferTerms, owner: StellarAddress, key: str, asked: NewTransfer
) -> Made:
    """The transfer of an idempotency key: the one that is there, whatever else has changed since,
    or a new one.

    Raises `Unacceptable` for a key with another body and over a limit, `NotFound` for a quote that
    is not the owner's, `Conflict` for one that is used or expired, `ChainUnavailable`.
    """
    conn.execute(select(func.pg_advisory_xact_lock(locks.OWNER, func.hashtext(owner))))
    known = _of_key(conn, owner, key)
    if known is not None:
        _refuse_other_body(known, asked)
        return Made(OwnedTransferId(known.id), is_new=False)
    quote = _usable_quote(conn, owner, asked.quote_id)
    chains = (quote.source_chain, quote.dest_chain)
    statuses = chain_status_on(conn, terms.network)
    what = "no transfer over it can be started"
    require_healthy_chains(terms.network, statuses, chains, what)
    require_relay(conn, quote.mechanism, *chains, quote.funding_mode, what)
    refuse_over_limits(conn, terms.network, owner, quote.source_chain, quote.amount_in, quote.now)
    transfer = _row(terms, quote, key, asked.fingerprint)
    conn.execute(insert(transfers).values(transfer))
    if transfer["deposit_address"] is not None:
        _watch(conn, quote.source_chain, transfer["deposit_address"], "deposit address", transfer)
    if quote.mechanism == "payment":
        # No contract of ours tells of it: what leaves this account does.
        _watch(conn, quote.source_chain, quote.source_address, "payer", transfer)
    _tell(conn, transfer["id"])
    return Made(OwnedTransferId(transfer["id"]), is_new=True)


def _of_key(conn: Connection, owner: StellarAddress, key: str) -> Row[Any, Any] | None:
    columns = transfers.c
    query = select(columns.id, columns.fingerprint)
    query = query.where(columns.owner == owner, columns.idempotency_key == key)
    return conn.execute(query).one_or_none()


def _refuse_other_body(known: Row[Any, Any], asked: NewTransfer) -> None:
    if known.fingerprint != asked.fingerprint:
        raise Unprocessable(
            f"this Idempotency-Key made transfer {known.id} of another quote: send a new key for "
            "a new transfer",
            code="IDEMPOTENCY_KEY_REUSED",
            transfer=known.id,
        )


def _usable_quote(conn: Connection, owner: StellarAddress, quote: str) -> Row[Any]:
    """The quote, what was made of it, the time, and when the owner's last transfer was started."""
    last = select(func.max(transfers.c.started_at)).where(transfers.c.owner == owner)
    query = (
        select(
            quotes,
            transfers.c.id.label("used_by"),
            func.clock_timestamp().label("now"),
            last.scalar_subquery().label("last"),
        )
        .outerjoin(transfers, transfers.c.quote == quotes.c.id)
        .where(quotes.c.id == quote, quotes.c.owner == owner)
    )
    found = conn.execute(query).one_or_none()
    if found is None:
        raise NotFound("you were given no such quote", code="QUOTE_NOT_FOUND")
    if found.used_by is not None:
        raise Conflict(
            f"transfer {found.used_by} was made of this quote: ask for a new one",
            code="QUOTE_USED",
            transfer=found.used_by,
        )
    if found.expires_at <= found.now:
        raise Conflict("this quote has expired: ask for a new one", code="QUOTE_EXPIRED")
    return found


def _row(terms: NewTransferTerms, quote: Row[Any], key: str, fingerprint: str) -> dict[str, Any]:
    # Lists are cut at these times, so no two of an owner's are one.
    started: datetime = quote.now if quote.last is None else max(quote.now, quote.last + _TICK)
    # Whole seconds: the terms of a deposit address say it so.
    expires = (started + timedelta(seconds=terms.seconds)).replace(microsecond=0)
    transfer = secrets.token_hex(16)
    is_paid_in = quote.funding_mode == "deposit_address"
    deposit = _deposit(terms, quote, transfer, expires) if is_paid_in else None
    return {
        "id": transfer,
        "quote": quote.id,
        "owner": quote.owner,
        "idempotency_key": key,
        "fingerprint": fingerprint,
        "deposit_address": None if deposit is None else deposit_address(terms.network, deposit),
        "deposit_operator": None if deposit is None else deposit.operator,
        "started_at": started,
        "expires_at": expires,
    }


def _deposit(terms: NewTransferTerms, quote: Row[Any], transfer: str, expires: datetime) -> Deposit:
    chain = terms.network.chain(quote.source_chain)
    operator = chain.deposit_operator if isinstance(chain, EvmChain) else None
    if operator is None:
        raise ChainUnavailable(
            f"deposits to an address on {quote.source_chain} are not moved on now: ask for a quote "
            "with funding_mode direct"
        )
    return deposit_of_transfer(
        transfer=transfer,
        chain=quote.source_chain,
        mechanism=quote.mechanism,
        source_address=quote.source_address,
        dest_address=quote.dest_address,
        amount_in=quote.amount_in,
        amount_out=quote.amount_out,
        operator=operator,
        expires_at=expires,
    )


def _watch(conn: Connection, chain: str, address: str, what: str, transfer: dict[str, Any]) -> None:
    reason = f"{what} of transfer {transfer['id']}"
    row = {"chain": chain, "address": address, "reason": reason}
    # Who pays again is watched already.
    conn.execute(upsert(watched_addresses).values(row).on_conflict_do_nothing())


def _tell(conn: Connection, transfer: str) -> None:
    conn.execute(select(func.pg_notify(channels.INTAKE, transfer)))


def cancel_transfer(conn: Connection, network: Network, transfer: OwnedTransferId) -> None:
    """Call a transfer off. Raises `Conflict` once something irreversible has happened.

    One point of decision: whoever submits, signs or lets expire holds the same lock, has looked
    under it, and whoever comes second sees what the first one wrote.
    """
    lock_transfers(conn, with_interchangeable(conn, [transfer]))
    [reading] = read_transfers(conn, network, [transfer])
    stage = reading.state.stage
    if not state_machine.may_cancel(stage):
        raise Conflict(
            f"the transfer is {stage}: it cannot be cancelled", code="NOT_CANCELLABLE", stage=stage
        )
    conn.execute(insert(cancellations).values(transfer=transfer))
    _tell(conn, transfer)
