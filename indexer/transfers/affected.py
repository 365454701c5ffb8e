"""Which transfers a batch of events affects."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from sqlalchemy import ARRAY, Connection, Text, bindparam, or_, select
from sqlalchemy.dialects.postgresql import distinct_on

from indexer.bridges.cctp.events import DepositForBurn, MessageReceived, MessageSent
from indexer.bridges.cctp.message import HEADER_SIZE, parse_burn_body, transfer_tag
from indexer.bridges.deposit_address.events import DepositRefunded
from indexer.bridges.oft.events import OftSent
from indexer.bridges.tokens.events import AssetMovement, Erc20Transfer
from indexer.chains.events import Event
from indexer.facts.store import events_by_key
from indexer.movements.fold import OFT_EVENTS
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
    """Burn keys and guids."""
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

    def add_body(self, body: bytes, burn_key: str | None) -> None:
        """Add the burn key and the label of a message body."""
        if burn_key is not None:
            self.keys.add(burn_key)
        parsed = parse_burn_body(body)
        if parsed is not None:
            self.add_hook(parsed.hook_data)


def affected_keys(events: Iterable[Event]) -> AffectedKeys:
    """Keys of the events' transfers."""
    found = AffectedKeys()
    for event in events:
        if isinstance(event, DepositForBurn):
            found.add_hook(event.hook_data)
        elif isinstance(event, MessageSent):
            found.add_body(event.message[HEADER_SIZE:], event.burn_key)
        elif isinstance(event, MessageReceived):
            found.add_body(event.message_body, event.burn_key)
        elif isinstance(event, OFT_EVENTS):
            found.keys.add(event.guid)
            if isinstance(event, OftSent):
                found.add_send(event.from_address, event.amount_sent)
        elif isinstance(event, Erc20Transfer):
            found.addresses.add(event.recipient)
        elif isinstance(event, DepositRefunded):
            found.addresses.add(event.deposit)
        elif isinstance(event, AssetMovement) and event.sender is not None:
            found.add_send(event.sender, event.amount)
    return found


def affected_transfers(
    conn: Connection, events: Iterable[Event], keys: Collection[str] = ()
) -> set[str]:
    """Ids of the transfers that these events, and movements of these keys, belong to.

    Events that concern no transfer cost no statement.
    """
    affected = affected_keys(events)
    if keys:
        _add_stored_events(conn, affected, keys)
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


def _add_stored_events(conn: Connection, affected: AffectedKeys, keys: Collection[str]) -> None:
    """Add what the stored events of these movements say. Burns of one key have one label."""
    affected.keys.update(keys)
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
            affected.add_body(raw[header:], burn_key)
    for sent in events_by_key(conn, OftSent, "guid", sorted(keys)):
        affected.add_send(sent.from_address, sent.amount_sent)
