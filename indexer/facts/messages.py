"""What services say of messages, in and out. Every function works inside the caller's transaction.

The indexer's role may insert and delete here, not update: what is replaced is deleted first.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    cast,
    delete,
    extract,
    func,
    insert,
    select,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import Text

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

_WORDS = 200
"""Most characters that are kept of what a service says."""

_ATTESTATION_COLUMNS = [cctp_attestations.c[field.name] for field in fields(Attestation)]


def add_attestation(conn: Connection, new: Attestation) -> bool:
    """Store an attestation; whether it says anything that was not stored before.

    A verified one takes the place of the same message refused earlier: a signature was damaged on
    the way, or the network file has named the attesters since.
    """
    key = and_(
        cctp_attestations.c.source_domain == new.source_domain,
        cctp_attestations.c.nonce == new.nonce,
        cctp_attestations.c.message_hash == new.message_hash,
        cctp_attestations.c.source_tx == new.source_tx,
    )
    if new.verified:
        conn.execute(delete(cctp_attestations).where(key, ~cctp_attestations.c.verified))
    row = {**asdict(new), "attesters": list(new.attesters), "verified": new.verified}
    statement = postgresql.insert(cctp_attestations).values(row).on_conflict_do_nothing()
    stored = conn.execute(statement.returning(cctp_attestations.c.id)).one_or_none()
    return stored is not None


def attested_burns(
    conn: Connection, burn_keys: Collection[Bytes32] | None = None
) -> list[AttestedBurn]:
    """Burns with a verified attestation, of these keys or all; each nonce once, oldest first.

    A nonce stands where its newest attestation does.
    """
    if burn_keys is not None and not burn_keys:
        return []
    columns = cctp_attestations.c
    newest = (
        select(func.max(columns.id))
        .where(columns.verified, *_among(columns.burn_key, burn_keys))
        .group_by(columns.source_domain, columns.nonce)
    )
    query = (
        select(columns.source_chain, columns.source_tx, columns.burn_key, columns.nonce)
        .where(columns.id.in_(newest))
        .order_by(columns.id)
    )
    return [AttestedBurn(*row) for row in conn.execute(query)]


def attested_at(conn: Connection, nonces: Collection[Bytes32]) -> dict[Bytes32, UnixSeconds]:
    """When messages of these nonces were first found attested, unix seconds by our clock."""
    if not nonces:
        return {}
    columns = cctp_attestations.c
    since = cast(extract("epoch", func.min(columns.judged_at)), BigInteger)
    query = (
        select(columns.nonce, since)
        .where(columns.verified, *_among(columns.nonce, nonces))
        .group_by(columns.nonce)
    )
    return {nonce: UnixSeconds(at) for nonce, at in conn.execute(query)}


def verified_attestations(
    conn: Connection, nonces: Collection[Bytes32]
) -> dict[tuple[ChainId, Bytes32], Attestation]:
    """What may be handed to the destination for messages of these nonces, by source chain and
    nonce: the newest of each."""
    if not nonces:
        return {}
    columns = cctp_attestations.c
    query = (
        select(*_ATTESTATION_COLUMNS)
        .where(columns.verified, *_among(columns.nonce, nonces))
        .order_by(columns.id)
    )
    return {(each.source_chain, each.nonce): each for each in _attestations(conn, query)}


def _attestations(conn: Connection, query: Select[Any]) -> Iterator[Attestation]:
    for row in conn.execute(query):
        values: dict[str, Any] = {**row._mapping, "attesters": tuple(row.attesters)}
        yield Attestation(**values)


def answered_keys(conn: Connection, sent: Collection[Provenance]) -> set[Bytes32]:
    """Burn keys of which services have said anything already, among messages sent there."""
    if not sent:
        return set()
    attested = select(cctp_attestations.c.burn_key).where(
        *_among(cctp_attestations.c.source_chain, {seen.chain for seen in sent}),
        *_among(cctp_attestations.c.source_tx, {seen.tx_hash for seen in sent}),
    )
    waiting = select(message_status.c.group_key).where(
        *_among(message_status.c.message_id, [burn_id(seen) for seen in sent])
    )
    return set(conn.scalars(attested.union_all(waiting)))


def replace_statuses(
    conn: Connection, service: Service, said: Mapping[str, MessageStatus | None]
) -> list[Bytes32]:
    """Replace what a service says of these message ids (None: nothing); group keys that changed."""
    columns = message_status.c
    query = select(
        columns.service, columns.message_id, columns.group_key, columns.status, columns.detail
    ).where(columns.service == service, *_among(columns.message_id, said))
    stored = {row.message_id: MessageStatus(*row) for row in conn.execute(query)}
    changed = [name for name, status in said.items() if stored.get(name) != status]
    if not changed:
        return []
    conn.execute(
        delete(message_status).where(
            columns.service == service, *_among(columns.message_id, changed)
        )
    )
    rows = [status for name in changed if (status := said[name]) is not None]
    if rows:
        conn.execute(insert(message_status), [asdict(status) for status in rows])
    touched = {*(stored[name].group_key for name in changed if name in stored)}
    return sorted(touched | {status.group_key for status in rows})


def read_statuses(
    conn: Connection, group_keys: Collection[Bytes32] | None = None
) -> dict[str, MessageStatus]:
    """What services say of the messages of these burn keys and guids, or of all, by message id."""
    columns = message_status.c
    query = select(
        columns.service, columns.message_id, columns.group_key, columns.status, columns.detail
    ).where(*_among(columns.group_key, group_keys))
    return {row.message_id: MessageStatus(*row) for row in conn.execute(query)}


def printable_line(words: str) -> str:
    """A stranger's words as one short printable line: nothing in it that Postgres would refuse."""
    line = " ".join(words.split())
    return "".join(letter for letter in line if letter.isprintable())[:_WORDS]


def _among(column: Any, values: Collection[str] | None) -> list[ColumnElement[bool]]:
    if values is None:
        return []
    return [column == func.any(bindparam(None, list(values), type_=ARRAY(Text)))]
