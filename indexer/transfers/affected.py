"""Which transfers something new is about."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from sqlalchemy import ARRAY, Connection, Text, bindparam, or_, select
from sqlalchemy.dialects.postgresql import distinct_on

from indexer.bridges.cctp.events import DepositForBurn, MessageReceived, MessageSent
from indexer.bridges.cctp.message import HEADER_SIZE, parse_burn_body, transfer_tag
from indexer.bridges.oft.events import OftSent
from indexer.bridges.tokens.events import AssetMovement, DepositRefunded, Erc20Transfer
from indexer.chains.events import Event
from indexer.facts.store import events_by_key
from indexer.movements.fold import OFT_EVENTS
from indexer.transfers.terms import any_amount
from warehouse_schema.events import cctp_messages_received, cctp_messages_sent
from warehouse_schema.intake import quotes, transfers
from warehouse_schema.projections import transfer_states
from warehouse_schema.queries import any_of

PAYMENT_EVENTS: tuple[type[Event], ...] = (Erc20Transfer, DepositRefunded, AssetMovement)
"""What moves transfers beside movements between chains."""


@dataclass(slots=True)
class AffectedKeys:
    """What events say of whose they are."""

    labels: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    """Burn keys and guids."""
    payers: set[str] = field(default_factory=set)
    amounts: set[int] = field(default_factory=set)
    """Of what the payers sent."""
    addresses: set[str] = field(default_factory=set)
    """That were paid, or gave back: deposit addresses among them."""


def affected_keys(events: Iterable[Event]) -> AffectedKeys:
    """What these events say of whose they are."""
    hints = AffectedKeys()
    for event in events:
        if isinstance(event, DepositForBurn):
            _note_label(hints, transfer_tag(event.hook_data))
        elif isinstance(event, MessageSent):
            _note_body(hints, event.message[HEADER_SIZE:], event.burn_key)
        elif isinstance(event, MessageReceived):
            _note_body(hints, event.message_body, event.burn_key)
        elif isinstance(event, OFT_EVENTS):
            hints.keys.add(event.guid)
            if isinstance(event, OftSent):
                hints.payers.add(event.from_address)
                hints.amounts.add(event.amount_sent)
        elif isinstance(event, Erc20Transfer):
            hints.addresses.add(event.recipient)
        elif isinstance(event, DepositRefunded):
            hints.addresses.add(event.deposit)
        elif isinstance(event, AssetMovement) and event.sender is not None:
            hints.payers.add(event.sender)
            hints.amounts.add(event.amount)
    return hints


def _note_keys(conn: Connection, hints: AffectedKeys, keys: Collection[str]) -> None:
    """What the stored events of these movements say. All burns of a key bear the same label."""
    hints.keys.update(keys)
    for table, bytes_column, header in (
        (cctp_messages_sent, cctp_messages_sent.c.message, HEADER_SIZE),
        (cctp_messages_received, cctp_messages_received.c.message_body, 0),
    ):
        query = (
            select(table.c.burn_key, bytes_column)
            .ext(distinct_on(table.c.burn_key))
            .where(table.c.burn_key == any_of(sorted(keys)))
        )
        for burn_key, raw in conn.execute(query):
            _note_body(hints, raw[header:], burn_key)
    for sent in events_by_key(conn, OftSent, "guid", sorted(keys)):
        hints.payers.add(sent.from_address)
        hints.amounts.add(sent.amount_sent)


def _note_body(hints: AffectedKeys, body: bytes, burn_key: str | None) -> None:
    if burn_key is not None:
        hints.keys.add(burn_key)
    parsed = parse_burn_body(body)
    if parsed is not None:
        _note_label(hints, transfer_tag(parsed.hook_data))


def _note_label(hints: AffectedKeys, label: bytes | None) -> None:
    if label is not None:
        hints.labels.add(label.hex())


def affected_transfers(
    conn: Connection, events: Iterable[Event], keys: Collection[str] = ()
) -> set[str]:
    """Ids of the transfers that these events, and movements of these keys, are about.

    Events without anything of what transfers are made of cost no statement.
    """
    hints = affected_keys(events)
    if keys:
        _note_keys(conn, hints, keys)
    found: set[str] = set()
    if hints.labels or hints.addresses:
        named = or_(
            transfers.c.id == any_of(sorted(hints.labels)),
            transfers.c.deposit_address == any_of(sorted(hints.addresses)),
        )
        found.update(conn.scalars(select(transfers.c.id).where(named)))
    if hints.payers:
        found |= _paid_by(conn, hints)
    if hints.keys:
        wanted = bindparam(None, sorted(hints.keys), type_=ARRAY(Text))
        held = transfer_states.c["keys"].bool_op("&&")(wanted)
        found.update(conn.scalars(select(transfer_states.c.transfer).where(held)))
    return found


def _paid_by(conn: Connection, hints: AffectedKeys) -> set[str]:
    payers = any_of(sorted(hints.payers))
    # What leaves a deposit address is its transfer's whatever it is.
    query = (
        select(transfers.c.id)
        .join_from(transfers, quotes)
        .where(
            (
                (quotes.c.source_address == payers)
                & (quotes.c.amount_in == any_amount(hints.amounts))
            )
            | (transfers.c.deposit_address == payers)
        )
    )
    return set(conn.scalars(query))
