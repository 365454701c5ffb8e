"""Which transfers a batch of events affects."""

from collections.abc import Collection
from dataclasses import dataclass, field

from sqlalchemy import ARRAY, Connection, Text, bindparam, or_, select
from sqlalchemy.dialects.postgresql import distinct_on

from indexer.bridges.cctp.events import DepositForBurn, MessageReceived, MessageSent
from indexer.bridges.cctp.message import HEADER_SIZE, parse_burn_body, transfer_tag
from indexer.bridges.deposit_address.events import DepositRefunded
from indexer.bridges.tokens.events import AssetMovement, Erc20Transfer
from indexer.chains.events import Event
from indexer.facts.store import events_by_key
from indexer.movements.fold import MovementKey
from indexer.movements.mechanisms import KEY_FIELDS, UNLABELLED_SENDS, affected_movements
from indexer.transfers.terms import any_amount
from warehouse_schema.events import cctp_messages_received, cctp_messages_sent
from warehouse_schema.intake import quotes, transfers
from warehouse_schema.projections import transfer_states
from warehouse_schema.queries import any_of

PAYMENT_EVENTS: tuple[type[Event], ...] = (Erc20Transfer, DepositRefunded, AssetMovement)
"""Events that affect transfers without a movement between chains."""


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
    affected = affected_keys(events)
    if movements:
        _add_stored_events(conn, affected, movements)
    found: set[str] = set()
    if affected.labels or affected.addresses:
        named = or_(
            transfers.c.id == any_of(sorted(affected.labels)),
            transfers.c.deposit_address == any_of(sorted(affected.addresses)),
        )
        found.update(conn.scalars(select(transfers.c.id).where(named)))
    if affected.payers:
        payers = any_of(sorted(affected.payers))
        is_sent = (quotes.c.source_address == payers) & (
            quotes.c.amount_in == any_amount(affected.amounts)
        )
        # Whatever leaves a deposit address belongs to its transfer.
        query = select(transfers.c.id).join_from(transfers, quotes)
        paid_by = query.where(is_sent | (transfers.c.deposit_address == payers))
        found.update(conn.scalars(paid_by))
    if affected.keys:
        wanted = bindparam(None, sorted(affected.keys), type_=ARRAY(Text))
        has_key = transfer_states.c["keys"].bool_op("&&")(wanted)
        found.update(conn.scalars(select(transfer_states.c.transfer).where(has_key)))
    return found


def _add_stored_events(
    conn: Connection, affected: AffectedKeys, movements: Collection[MovementKey]
) -> None:
    """Add what the stored events of these movements say. Burns of one key have one label."""
    affected.keys.update(key for _, key in movements)
    burn_keys = sorted(key for mechanism, key in movements if mechanism == "cctp")
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
    for kind in UNLABELLED_SENDS:
        name, column = KEY_FIELDS[kind]
        keys = sorted(key for mechanism, key in movements if mechanism == name)
        for sent in events_by_key(conn, kind, column, keys):
            affected.add_send(sent.from_address, sent.amount_sent)
