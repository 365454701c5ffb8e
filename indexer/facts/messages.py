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
    union_all,
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
from indexer.facts.queries import CompiledQuery, QueryCall, fetch_all, joined, rows_of
from warehouse_schema.facts import cctp_attestations, message_status
from warehouse_schema.identifiers import Bytes32, ChainId, UnixSeconds
from warehouse_schema.queries import any_in, any_of, unix_seconds

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


def _attested_burns(*conditions: ColumnElement[bool]) -> CompiledQuery[AttestedBurn]:
    newest = (
        select(func.max(_attestations.id))
        .where(_attestations.verified, *conditions)
        .group_by(_attestations.source_domain, _attestations.nonce)
    )
    columns = [_attestations[name] for name in ("source_chain", "source_tx", "burn_key", "nonce")]
    query = select(*columns).where(_attestations.id.in_(newest)).order_by(_attestations.id)
    return CompiledQuery(query, lambda row: AttestedBurn(*row))


ATTESTED_BURNS = _attested_burns()
"""Burns with a verified attestation; each nonce once.

Ordered by the newest attestation of each nonce, oldest first.
"""
ATTESTED_BURNS_BY_KEY = _attested_burns(_attestations.burn_key == any_in("values"))
"""As `ATTESTED_BURNS`, of these burn keys."""


_ATTESTED_AT = rows_of(
    select(_attestations.nonce, unix_seconds(func.min(_attestations.judged_at)).label("at"))
    .where(_attestations.verified, _attestations.nonce == any_in("nonces"))
    .group_by(_attestations.nonce)
)


def attested_at(conn: Connection, nonces: Collection[Bytes32]) -> dict[Bytes32, UnixSeconds]:
    """Unix seconds, by our clock, when messages of these nonces were first found attested."""
    if not nonces:
        return {}
    [rows] = fetch_all(conn, [(_ATTESTED_AT, {"nonces": joined(nonces)})])
    return {row.nonce: UnixSeconds(row.at) for row in rows}


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


_ANSWERED_KEYS = rows_of(
    select(
        union_all(
            select(_attestations.burn_key.label("key")).where(
                _attestations.source_chain == any_in("chains"),
                _attestations.source_tx == any_in("transactions"),
            ),
            select(_status_columns.group_key).where(
                _status_columns.message_id == any_in("messages")
            ),
        ).subquery()
    )
)


def answered_keys_call(sent: Collection[Provenance]) -> QueryCall:
    """Query of the `key` of burns with an attestation or status already, among messages sent at
    these places."""
    return _ANSWERED_KEYS, {
        "chains": joined({seen.chain for seen in sent}),
        "transactions": joined({seen.tx_hash for seen in sent}),
        "messages": joined(burn_id(seen) for seen in sent),
    }


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


_STATUSES_BY_KEY = CompiledQuery(
    _STATUSES.where(_status_columns.group_key == any_in("values")),
    lambda row: MessageStatus(*row),
)


def read_statuses(
    conn: Connection, group_keys: Collection[Bytes32] | None = None
) -> dict[str, MessageStatus]:
    """Statuses of the messages of these burn keys and guids, or of all, by message id."""
    if group_keys is None:
        rows = [MessageStatus(*row) for row in conn.execute(_STATUSES)]
    else:
        [rows] = fetch_all(conn, [(_STATUSES_BY_KEY, {"values": joined(group_keys)})])
    return {each.message_id: each for each in rows}


def printable_line(text: str) -> str:
    """Untrusted text as one short printable line that Postgres accepts."""
    line = " ".join(text.split())
    return "".join(letter for letter in line if letter.isprintable())[:_MAX_TEXT]
