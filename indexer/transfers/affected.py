"""Which transfers a batch of events affects."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Select, select, union
from sqlalchemy.dialects.postgresql import distinct_on

from indexer.bridges.cctp.events import DepositForBurn, MessageReceived, MessageSent
from indexer.bridges.cctp.message import HEADER_SIZE, parse_burn_body, transfer_tag
from indexer.bridges.deposit_address.events import DepositRefunded
from indexer.bridges.tokens.events import AssetMovement, Erc20Transfer
from indexer.chains.events import Event
from indexer.facts.rows import EVENT_MAPPINGS
from indexer.facts.store import values_between
from indexer.movements.fold import MovementKey
from indexer.movements.mechanisms import KEY_FIELDS, UNLABELLED_SENDS, affected_movements
from indexer.transfers.terms import any_amount
from warehouse_schema.events import cctp_messages_received, cctp_messages_sent
from warehouse_schema.identifiers import ChainId, Height
from warehouse_schema.intake import quotes, transfers
from warehouse_schema.projections import transfer_states
from warehouse_schema.queries import any_of, array_of

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
        elif isinstance(event, Erc20Transfer):
            found.addresses.add(event.recipient)
        elif isinstance(event, DepositRefunded):
            found.addresses.add(event.deposit)
        elif isinstance(event, AssetMovement) and event.sender is not None:
            found.add_send(event.sender, event.amount)
    return found


def affected_transfers(
    conn: Connection, events: Collection[Event], movements: Collection[MovementKey] = ()
) -> set[str]:
    """Ids of the transfers that these events, and these movements, belong to.

    Events that concern no transfer cost no statement.
    """
    return _find_transfers(conn, affected_keys(events), movements)


def transfers_of_range(
    conn: Connection,
    chain: ChainId,
    first: Height,
    last: Height,
    events: Collection[Event],
    movements: Collection[MovementKey],
) -> set[str]:
    """As `affected_transfers`, and of the payments stored in a range, `last` included."""
    affected, place = affected_keys(events), (chain, first, last)
    affected.addresses |= values_between(conn, Erc20Transfer, "recipient", *place)
    affected.addresses |= values_between(conn, DepositRefunded, "deposit", *place)
    affected.payers |= values_between(conn, AssetMovement, "sender", *place)
    affected.amounts |= values_between(conn, AssetMovement, "amount", *place)
    return _find_transfers(conn, affected, movements)


def _find_transfers(
    conn: Connection, affected: AffectedKeys, movements: Collection[MovementKey]
) -> set[str]:
    affected.keys.update(key for _, key in movements)
    _add_labels(conn, affected, [key for mechanism, key in movements if mechanism == "cctp"])
    found = _senders_of_movements(movements)
    # Whatever leaves a deposit address belongs to its transfer.
    addresses = affected.addresses | affected.payers
    if affected.labels or addresses:
        is_labelled = transfers.c.id == any_of(sorted(affected.labels))
        is_paid = transfers.c.deposit_address == any_of(sorted(addresses))
        found.append(select(transfers.c.id).where(is_labelled | is_paid))
    if affected.payers:
        is_sent = (quotes.c.source_address == any_of(sorted(affected.payers))) & (
            quotes.c.amount_in == any_amount(affected.amounts)
        )
        found.append(_QUOTED.where(is_sent))
    if affected.keys:
        has_key = transfer_states.c["keys"].bool_op("&&")(array_of(sorted(affected.keys)))
        found.append(select(transfer_states.c.transfer).where(has_key))
    return set(conn.scalars(union(*found))) if found else set()


def _senders_of_movements(movements: Collection[MovementKey]) -> list[Select[Any]]:
    """Queries for the transfers that the stored sends of these movements may belong to.

    Joined in Postgres: a backfill folds thousands of movements at a time.
    """
    queries = []
    for kind in UNLABELLED_SENDS:
        mechanism, column = KEY_FIELDS[kind]
        keys = [key for name, key in movements if name == mechanism]
        if keys:
            sends = EVENT_MAPPINGS[kind].table
            sent = select(sends.c.from_address, sends.c.amount_sent)
            each = sent.where(sends.c[column] == any_of(keys)).cte().c
            is_sent = (quotes.c.source_address == each.from_address) & (
                quotes.c.amount_in == each.amount_sent
            )
            queries.append(_QUOTED.where(is_sent))
            queries.append(
                select(transfers.c.id).where(transfers.c.deposit_address == each.from_address)
            )
    return queries


def _add_labels(conn: Connection, affected: AffectedKeys, burn_keys: Collection[str]) -> None:
    """Add the labels of the stored messages of these keys. Burns of one key have one label."""
    if not burn_keys:
        return
    for table, bytes_column, header in (
        (cctp_messages_sent, cctp_messages_sent.c.message, HEADER_SIZE),
        (cctp_messages_received, cctp_messages_received.c.message_body, 0),
    ):
        query = (
            select(bytes_column)
            .ext(distinct_on(table.c.burn_key))
            .where(table.c.burn_key == any_of(burn_keys))
        )
        for raw in conn.scalars(query):
            affected.add_body(raw[header:])
