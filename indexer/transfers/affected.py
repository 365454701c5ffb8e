"""Which transfers a batch of events affects."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Connection, Select, select
from sqlalchemy.dialects.postgresql import distinct_on

from indexer.bridges.cctp.events import DepositForBurn, MessageReceived, MessageSent
from indexer.bridges.cctp.message import HEADER_SIZE, parse_burn_body, transfer_tag
from indexer.bridges.deposit_address.events import DepositRefunded
from indexer.bridges.tokens.events import AssetMovement, Erc20Transfer
from indexer.chains.events import Event
from indexer.config.routes import Bridge
from indexer.facts.queries import CompiledQuery, QueryCall, fetch_all, joined
from indexer.facts.rows import EVENT_MAPPINGS
from indexer.movements.fold import MovementKey
from indexer.movements.mechanisms import KEY_FIELDS, UNLABELLED_SENDS, affected_movements
from indexer.transfers.terms import any_amount_in
from warehouse_schema.events import cctp_messages_received, cctp_messages_sent
from warehouse_schema.intake import quotes, transfers
from warehouse_schema.projections import transfer_states
from warehouse_schema.queries import any_in, array_in

if TYPE_CHECKING:
    import polars as pl

_QUOTED = select(transfers.c.id).join_from(transfers, quotes)


@dataclass(slots=True)
class AffectedKeys:
    """What events say of the transfers they belong to."""

    labels: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    """Burn keys and guids of movements."""
    payers: set[str] = field(default_factory=set)
    amounts: set[int] = field(default_factory=set)
    """Sent by the payers."""
    addresses: set[str] = field(default_factory=set)
    """Paid, or refunding: deposit addresses among them."""

    def add_send(self, payer: str, amount: int) -> None:
        """Add a send without a label."""
        self.payers.add(payer)
        self.amounts.add(amount)

    def add_payment(self, event: Event) -> None:
        """Add a payment, or what a deposit address gave back; other events say nothing here."""
        if isinstance(event, Erc20Transfer):
            self.addresses.add(event.recipient)
        elif isinstance(event, DepositRefunded):
            self.addresses.add(event.deposit)
        elif isinstance(event, AssetMovement) and event.sender is not None:
            self.add_send(event.sender, event.amount)

    def add_hook(self, hook_data: bytes) -> None:
        """Add the label in a burn's hook data, if there is one."""
        label = transfer_tag(hook_data)
        if label is not None:
            self.labels.add(label.hex())

    def add_body(self, body: bytes) -> None:
        """Add the label of a message body."""
        parsed = parse_burn_body(body)
        if parsed is not None:
            self.add_hook(parsed.hook_data)


def affected_keys(events: Collection[Event]) -> AffectedKeys:
    """Keys of the events' transfers."""
    found = AffectedKeys(keys={key for _, key in affected_movements(events)})
    for event in events:
        if isinstance(event, DepositForBurn):
            found.add_hook(event.hook_data)
        elif isinstance(event, MessageSent):
            found.add_body(event.message[HEADER_SIZE:])
        elif isinstance(event, MessageReceived):
            found.add_body(event.message_body)
        elif isinstance(event, UNLABELLED_SENDS):
            found.add_send(event.from_address, event.amount_sent)
        else:
            found.add_payment(event)
    return found


def payments_among(events: Iterable[Event], columns: Mapping[str, "pl.DataFrame"]) -> AffectedKeys:
    """What payments say of their transfers, of events and of frames of events by type."""
    found = AffectedKeys()
    for event in events:
        found.add_payment(event)
    for kind, column in ((Erc20Transfer, "recipient"), (DepositRefunded, "deposit")):
        if (frame := columns.get(kind.__name__)) is not None:
            found.addresses.update(frame[column].unique().to_list())
    if (moved := columns.get(AssetMovement.__name__)) is not None:
        sends = moved.filter(moved["sender"].is_not_null())
        found.payers.update(sends["sender"].unique().to_list())
        found.amounts.update(sends["amount"].unique().to_list())
    return found


def affected_transfers(
    conn: Connection,
    events: Collection[Event],
    movements: Collection[MovementKey] = (),
    payments: AffectedKeys | None = None,
) -> set[str]:
    """Ids of the transfers that these events, movements and `payments_among` others belong to.

    Events that concern no transfer cost no statement.
    """
    affected = affected_keys(events)
    if payments is not None:
        affected.addresses |= payments.addresses
        affected.payers |= payments.payers
        affected.amounts |= payments.amounts
    affected.keys.update(key for _, key in movements)
    _add_labels(conn, affected, [key for mechanism, key in movements if mechanism == "cctp"])
    calls = _senders_of_movements(movements)
    # Whatever leaves a deposit address belongs to its transfer.
    addresses = affected.addresses | affected.payers
    if affected.labels or addresses:
        words = {"labels": joined(affected.labels), "addresses": joined(addresses)}
        calls.append((_LABELLED_OR_PAID, words))
    if affected.payers:
        sent = {"payers": joined(affected.payers), "amounts": sorted(affected.amounts)}
        calls.append((_SENT_BY_PAYER, sent))
    if affected.keys:
        calls.append((_WITH_MOVEMENT, {"keys": joined(affected.keys)}))
    return {transfer for found in fetch_all(conn, calls) for transfer in found}


def _ids(statement: Select[Any]) -> CompiledQuery[str]:
    return CompiledQuery(statement, itemgetter(0))


_LABELLED_OR_PAID = _ids(
    select(transfers.c.id).where(
        (transfers.c.id == any_in("labels")) | (transfers.c.deposit_address == any_in("addresses"))
    )
)
_SENT_BY_PAYER = _ids(
    _QUOTED.where(
        quotes.c.source_address == any_in("payers"), quotes.c.amount_in == any_amount_in("amounts")
    )
)
_WITH_MOVEMENT = _ids(
    select(transfer_states.c.transfer).where(
        transfer_states.c["keys"].bool_op("&&")(array_in("keys"))
    )
)


def _senders_of_movements(movements: Collection[MovementKey]) -> list[QueryCall]:
    """Calls for the transfers that the stored sends of these movements may belong to."""
    calls: list[QueryCall] = []
    for mechanism, queries in _BY_SENDS:
        keys = [key for name, key in movements if name == mechanism]
        if keys:
            calls += [(query, {"keys": joined(keys)}) for query in queries]
    return calls


def _by_send(kind: type[Event]) -> tuple[Bridge, list[CompiledQuery[str]]]:
    """A mechanism, and queries for the transfers of its stored sends, by quote and by address.

    Joined in Postgres: a backfill folds thousands of movements at a time.
    """
    mechanism, column = KEY_FIELDS[kind]
    sends = EVENT_MAPPINGS[kind].table
    sent = select(sends.c.from_address, sends.c.amount_sent)
    each = sent.where(sends.c[column] == any_in("keys")).cte().c
    is_quoted = (quotes.c.source_address == each.from_address) & (
        quotes.c.amount_in == each.amount_sent
    )
    paid = select(transfers.c.id).where(transfers.c.deposit_address == each.from_address)
    return mechanism, [_ids(_QUOTED.where(is_quoted)), _ids(paid)]


_BY_SENDS = [_by_send(kind) for kind in UNLABELLED_SENDS]


def _add_labels(conn: Connection, affected: AffectedKeys, burn_keys: Collection[str]) -> None:
    """Add the labels of the stored messages of these keys. Burns of one key have one label."""
    if not burn_keys:
        return
    keys = {"keys": joined(burn_keys)}
    for bodies in fetch_all(conn, [(query, keys) for query in _STORED_BODIES]):
        for body in bodies:
            affected.add_body(body)


def _bodies(column: Column[bytes], header: int) -> CompiledQuery[bytes]:
    key = column.table.c.burn_key
    query = select(column).ext(distinct_on(key)).where(key == any_in("keys"))
    return CompiledQuery(query, lambda row: row[0][header:])


_STORED_BODIES = [
    _bodies(cctp_messages_sent.c.message, HEADER_SIZE),
    _bodies(cctp_messages_received.c.message_body, 0),
]
