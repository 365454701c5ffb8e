"""Creation and cancellation of transfers.

Both run in a READ COMMITTED transaction of the caller: what is read under a lock includes all that
its previous holder committed.
"""

import secrets
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, Text, bindparam, func, insert, select
from sqlalchemy.dialects.postgresql import insert as upsert

from api.availability import require_healthy_chains, require_relay
from api.errors import ChainUnavailable, Conflict, NotFound, Unprocessable
from api.transfers.access import OwnedTransferId, lock_owner
from api.transfers.details import TransferDetails, new_transfer_details
from api.transfers.limits import require_within_limits
from api.transfers.requests import NewTransfer
from indexer.bridges.deposit_address.factory import Deposit, deposit_address, deposit_of_transfer
from indexer.config.networks import EvmChain, Network
from indexer.facts.status import chain_status_on
from indexer.logs import add_log_context
from indexer.transfers import state_machine
from indexer.transfers.read import read_transfers
from indexer.transfers.store import lock_transfers
from warehouse_schema import channels
from warehouse_schema.engine import confirm_on_standby
from warehouse_schema.identifiers import StellarAddress
from warehouse_schema.intake import (
    cancellations,
    quotes,
    transfers,
    watched_addresses,
)
from warehouse_schema.notifications import queue_notifications

_TICK = timedelta(microseconds=1)
"""Resolution of a Postgres timestamp."""

# Built once: building them costs as much processor time as executing them.
_OWNER, _KEY = bindparam("owner", type_=Text), bindparam("key", type_=Text)
_OF_KEY = select(transfers.c.id, transfers.c.fingerprint).where(
    transfers.c.owner == _OWNER, transfers.c.idempotency_key == _KEY
)
_LAST = select(func.max(transfers.c.started_at)).where(transfers.c.owner == _OWNER)
_QUOTE = (
    select(
        quotes,
        transfers.c.id.label("used_by"),
        func.clock_timestamp().label("now"),
        _LAST.scalar_subquery().label("last"),
    )
    .outerjoin(transfers, transfers.c.quote == quotes.c.id)
    .where(quotes.c.id == bindparam("quote", type_=Text), quotes.c.owner == _OWNER)
)
_INSERT_TRANSFER = insert(transfers)


def create_transfer(
    conn: Connection,
    network: Network,
    seconds: int,
    owner: StellarAddress,
    key: str,
    body: NewTransfer,
) -> OwnedTransferId | TransferDetails:
    """A new transfer that expires after `seconds`, or the id of the one that the key has made.

    Raises `Unprocessable` for a key with another body and over a limit, `NotFound` for a quote that
    is not the owner's, `Conflict` for one that is used or expired, `ChainUnavailable`.
    """
    lock_owner(conn, owner)
    existing = conn.execute(_OF_KEY, {"owner": owner, "key": key}).one_or_none()
    if existing is not None:
        if existing.fingerprint != body.fingerprint:
            raise Unprocessable(
                f"this Idempotency-Key made transfer {existing.id} of another quote: send a new "
                "key for a new transfer",
                code="IDEMPOTENCY_KEY_REUSED",
                transfer=existing.id,
            )
        add_log_context(transfer=existing.id)
        confirm_on_standby(conn)
        return OwnedTransferId(existing.id)
    quote = _usable_quote(conn, owner, body.quote_id)
    chains = (quote.source_chain, quote.dest_chain)
    statuses = chain_status_on(conn, network)
    what = "no transfer over it can be started"
    require_healthy_chains(network, statuses, chains, what)
    require_relay(conn, quote.mechanism, *chains, quote.funding_mode, what)
    require_within_limits(conn, network, owner, quote.source_chain, quote.amount_in, quote.now)
    # `started_at` is the cursor of lists, so an owner's transfers must differ in it.
    started: datetime = quote.now if quote.last is None else max(quote.now, quote.last + _TICK)
    # The terms of a deposit address have whole seconds.
    expires = (started + timedelta(seconds=seconds)).replace(microsecond=0)
    transfer = OwnedTransferId(secrets.token_hex(16))
    add_log_context(transfer=transfer)
    deposit = None
    if quote.funding_mode == "deposit_address":
        deposit = _agree_deposit(network, quote, transfer, expires)
    address = None if deposit is None else deposit_address(network, deposit)
    row = {
        "id": transfer,
        "quote": quote.id,
        "owner": quote.owner,
        "idempotency_key": key,
        "fingerprint": body.fingerprint,
        "deposit_address": address,
        "deposit_operator": None if deposit is None else deposit.operator,
        "started_at": started,
        "expires_at": expires,
    }
    conn.execute(_INSERT_TRANSFER, row)
    if address is not None:
        _watch(conn, quote.source_chain, address, f"deposit address of transfer {transfer}")
    if quote.mechanism == "payment":
        # Payments call no contract of ours: the payer's account is watched instead.
        _watch(conn, quote.source_chain, quote.source_address, f"payer of transfer {transfer}")
    queue_notifications(conn, channels.INTAKE, [transfer])
    return new_transfer_details(quote._asdict(), row)


def _usable_quote(conn: Connection, owner: StellarAddress, quote: str) -> Row[Any]:
    """The quote, with `now`, and `last`: when the owner's last transfer was started."""
    found = conn.execute(_QUOTE, {"owner": owner, "quote": quote}).one_or_none()
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


def _agree_deposit(network: Network, quote: Row[Any], transfer: str, expires: datetime) -> Deposit:
    chain = network.chain(quote.source_chain)
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


def _watch(conn: Connection, chain: str, address: str, reason: str) -> None:
    row = {"chain": chain, "address": address, "reason": reason}
    # A payer's second transfer finds its account watched already.
    conn.execute(upsert(watched_addresses).values(row).on_conflict_do_nothing())


def cancel_transfer(conn: Connection, network: Network, transfer: OwnedTransferId) -> None:
    """Raises `Conflict` once something irreversible has happened.

    Submission, signing and expiry take the same lock and read the state under it, so the second of
    two sees what the first one wrote.
    """
    lock_transfers(conn, [transfer])
    [reading] = read_transfers(conn, network, [transfer])
    stage = reading.state.stage
    if not state_machine.may_cancel(stage):
        raise Conflict(
            f"the transfer is {stage}: it cannot be cancelled", code="NOT_CANCELLABLE", stage=stage
        )
    conn.execute(insert(cancellations).values(transfer=transfer))
    queue_notifications(conn, channels.INTAKE, [transfer])
