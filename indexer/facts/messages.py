"""Attestations and statuses of messages, as services report them.

Every function works inside the caller's transaction. The indexer's role may insert and delete
these rows, not update them: a replaced row is deleted first.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    delete,
    func,
    insert,
    select,
    true,
)
from sqlalchemy.dialects import postgresql

from indexer.chains.events import Provenance
from indexer.chains.services.messages import (
    Attestation,
    AttestedBurn,
    MessageStatus,
    Service,
    burn_id,
)
from warehouse_schema.facts import cctp_attestations, message_status
from warehouse_schema.identifiers import Bytes32, ChainId, UnixSeconds
from warehouse_schema.queries import any_of, unix_seconds

_MAX_TEXT = 200
"""Characters stored of a service's text."""

_attestations = cctp_attestations.c
_ATTESTATION_COLUMNS = [_attestations[field.name] for field in fields(Attestation)]
_status_columns = message_status.c
_STATUSES = select(*(_status_columns[field.name] for field in fields(MessageStatus)))


def add_attestation(conn: Connection, new: Attestation) -> bool:
    """Store an attestation. Returns False when it was stored before.

    A verified one replaces the same message refused earlier: its signature was damaged on the way,
    or the network file names the attesters since.
    """
    key = and_(
        _attestations.source_domain == new.source_domain,
        _attestations.nonce == new.nonce,
        _attestations.message_hash == new.message_hash,
        _attestations.source_tx == new.source_tx,
    )
    if new.verified:
        conn.execute(delete(cctp_attestations).where(key, ~_attestations.verified))
    row = {**asdict(new), "attesters": list(new.attesters), "verified": new.verified}
    statement = postgresql.insert(cctp_attestations).values(row).on_conflict_do_nothing()
    return conn.execute(statement.returning(_attestations.id)).one_or_none() is not None


def attested_burns(
    conn: Connection, burn_keys: Collection[Bytes32] | None = None
) -> list[AttestedBurn]:
    """Burns with a verified attestation, of these keys or all; each nonce once.

    Ordered by the newest attestation of each nonce, oldest first.
    """
    if burn_keys is not None and not burn_keys:
        return []
    newest = (
        select(func.max(_attestations.id))
        .where(_attestations.verified, _is_among(_attestations.burn_key, burn_keys))
        .group_by(_attestations.source_domain, _attestations.nonce)
    )
    columns = [_attestations[name] for name in ("source_chain", "source_tx", "burn_key", "nonce")]
    query = select(*columns).where(_attestations.id.in_(newest)).order_by(_attestations.id)
    return [AttestedBurn(*row) for row in conn.execute(query)]


def attested_at(conn: Connection, nonces: Collection[Bytes32]) -> dict[Bytes32, UnixSeconds]:
    """Unix seconds, by our clock, when messages of these nonces were first found attested."""
    if not nonces:
        return {}
    query = (
        select(_attestations.nonce, unix_seconds(func.min(_attestations.judged_at)))
        .where(_attestations.verified, _attestations.nonce == any_of(nonces))
        .group_by(_attestations.nonce)
    )
    return {nonce: UnixSeconds(at) for nonce, at in conn.execute(query)}


def verified_attestations(
    conn: Connection, nonces: Collection[Bytes32]
) -> dict[tuple[ChainId, Bytes32], Attestation]:
    """The newest verified attestation of each of these nonces, by source chain and nonce."""
    if not nonces:
        return {}
    query = (
        select(*_ATTESTATION_COLUMNS)
        .where(_attestations.verified, _attestations.nonce == any_of(nonces))
        .order_by(_attestations.id)
    )
    found = {}
    for row in conn.execute(query):
        values: dict[str, Any] = {**row._mapping, "attesters": tuple(row.attesters)}
        found[row.source_chain, row.nonce] = Attestation(**values)
    return found


def answered_keys(conn: Connection, sent: Collection[Provenance]) -> set[Bytes32]:
    """Burn keys with an attestation or status already, among messages sent at these places."""
    if not sent:
        return set()
    attested = select(_attestations.burn_key).where(
        _attestations.source_chain == any_of({seen.chain for seen in sent}),
        _attestations.source_tx == any_of({seen.tx_hash for seen in sent}),
    )
    waiting = select(_status_columns.group_key).where(
        _status_columns.message_id == any_of([burn_id(seen) for seen in sent])
    )
    return set(conn.scalars(attested.union_all(waiting)))


def replace_statuses(
    conn: Connection, service: Service, new: Mapping[str, MessageStatus | None]
) -> list[Bytes32]:
    """Replace a service's statuses by message id (None: delete). Returns changed group keys."""
    query = _STATUSES.where(
        _status_columns.service == service, _status_columns.message_id == any_of(new)
    )
    stored = {row.message_id: MessageStatus(*row) for row in conn.execute(query)}
    changed = [name for name, status in new.items() if stored.get(name) != status]
    if not changed:
        return []
    conn.execute(
        delete(message_status).where(
            _status_columns.service == service, _status_columns.message_id == any_of(changed)
        )
    )
    rows = [status for name in changed if (status := new[name]) is not None]
    if rows:
        conn.execute(insert(message_status), [asdict(status) for status in rows])
    keys = {stored[name].group_key for name in changed if name in stored}
    return sorted(keys | {status.group_key for status in rows})


def read_statuses(
    conn: Connection, group_keys: Collection[Bytes32] | None = None
) -> dict[str, MessageStatus]:
    """Statuses of the messages of these burn keys and guids, or of all, by message id."""
    query = _STATUSES.where(_is_among(_status_columns.group_key, group_keys))
    return {row.message_id: MessageStatus(*row) for row in conn.execute(query)}


def printable_line(text: str) -> str:
    """Untrusted text as one short printable line that Postgres accepts."""
    line = " ".join(text.split())
    return "".join(letter for letter in line if letter.isprintable())[:_MAX_TEXT]


def _is_among(column: Any, values: Collection[str] | None) -> ColumnElement[bool]:
    return true() if values is None else column == any_of(values)
