"""Loads the burns, sends and payments of transfers, and what became of each."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    LargeBinary,
    Numeric,
    and_,
    bindparam,
    func,
    or_,
)

from indexer.bridges.cctp.events import DepositForBurn, MessageReceived
from indexer.bridges.cctp.message import TRANSFER_TAG_SIZE, transfer_tag
from indexer.bridges.oft.events import OftReceived, OftSent, PacketSent, PacketVerified
from indexer.bridges.tokens.events import AssetMovement
from indexer.chains.events import Event
from indexer.config.networks import Network
from indexer.facts.messages import attested_at
from indexer.facts.proofs import BlockKey, find_unproven
from indexer.facts.queries import CompiledQuery, fetch_all, joined
from indexer.facts.rows import EVENT_MAPPINGS
from indexer.facts.store import (
    events_by_column,
    events_of_transaction_groups,
    events_query,
)
from indexer.movements.fold import (
    BURN_EVENTS,
    MINT_EVENTS,
    Burn,
    Mint,
    Movement,
    group_by_transaction,
    pair_burns,
    pair_mints,
)
from indexer.movements.store import MOVEMENTS_BY_KEY, group_by_key
from indexer.transfers import matching
from indexer.transfers.inputs import ChainPosition, DeliveryReceipt, MatchedMovement, TransferTerms
from indexer.transfers.terms import any_amount_in
from warehouse_schema.columns import last_16_bytes
from warehouse_schema.identifiers import (
    BaseUnits,
    Bytes32,
    ChainId,
    Height,
    TxHash,
    UnixSeconds,
)
from warehouse_schema.queries import any_in


@dataclass(slots=True)
class TransferMovements:
    """What moves a transfer's money, and the keys by which it is refolded."""

    matched: list[MatchedMovement] = field(default_factory=list)
    extras: list[str] = field(default_factory=list)
    """Movements that pay the recipient otherwise than agreed."""
    keys: set[str] = field(default_factory=set)
    unproven: set[BlockKey] = field(default_factory=set)
    """Blocks of deliveries that count once their logs are proven."""


def load_movements(
    conn: Connection,
    network: Network,
    terms: Sequence[TransferTerms],
    together: Sequence[TransferTerms],
    named: Mapping[TxHash, Collection[str]],
    finals: Mapping[ChainId, Height],
) -> Mapping[str, TransferMovements]:
    """Transfer id → its movements.

    `together`: transfers that may share sends with these (`terms.INTERCHANGEABLE`); `named`: source
    transaction → the transfers that it was submitted or signed for; `finals`: final heights.
    """
    found: dict[str, TransferMovements] = defaultdict(TransferMovements)
    labelled = {bytes.fromhex(each.id): each for each in terms if each.mechanism == "cctp"}
    if labelled:
        _add_burns(conn, network, labelled, finals, found)
    if any(each.mechanism == "oft" for each in together):
        _add_sends(conn, network, together, named, finals, found)
    if any(each.mechanism == "payment" for each in together):
        _add_payments(conn, network, together, named, found)
    return found


# CCTP: by label.


def _any_bytes_in(parameter: str) -> ColumnElement[bytes]:
    """`ANY` over byte strings, for a column of bytes."""
    return func.any(bindparam(parameter, type_=ARRAY(LargeBinary)))


_burn_columns = EVENT_MAPPINGS[DepositForBurn].table.c
_LABELLED_BURNS = events_query(
    DepositForBurn,
    last_16_bytes("hook_data") == _any_bytes_in("labels"),
    or_(
        and_(
            _burn_columns.depositor == any_in("payers"),
            _burn_columns.amount == any_amount_in("amounts"),
        ),
        _burn_columns.amount >= bindparam("minimum", type_=Numeric(78, 0)),
    ),
)
"""Burns of the payers with an agreed amount, and other burns of at least the minimum of an extra
burn: each of those costs its sender that much. Other copies of a label are not read."""
_LABELLED_MINTS = events_query(
    MessageReceived,
    last_16_bytes("message_body") == _any_bytes_in("labels"),
    # `bool_op`, because `==` would put `ANY` on the left, which Postgres does not accept.
    func.substring(
        EVENT_MAPPINGS[MessageReceived].table.c.message_body,
        matching.BODY_START + 1,
        matching.BODY_SIZE,
    ).bool_op("=")(_any_bytes_in("amounts_and_senders")),
)


_RECEIVED = events_by_column(MessageReceived, "burn_key")


def _add_burns(
    conn: Connection,
    network: Network,
    labelled: Mapping[bytes, TransferTerms],
    finals: Mapping[ChainId, Height],
    found: dict[str, TransferMovements],
) -> None:
    terms, names = labelled.values(), sorted(labelled)
    minima = {each.id: matching.min_extra_amount(network, each) for each in terms}
    seen_burns, seen_mints = fetch_all(
        conn,
        [
            (
                _LABELLED_BURNS,
                {
                    "labels": names,
                    "payers": joined({matching.payer(each) for each in terms}),
                    "amounts": sorted({matching.cctp_amount(network, each) for each in terms}),
                    "minimum": min(minima.values()),
                },
            ),
            (
                _LABELLED_MINTS,
                {
                    "labels": names,
                    "amounts_and_senders": [
                        matching.amount_and_sender(network, each) for each in terms
                    ],
                },
            ),
        ],
    )
    burn_events, mint_events = events_of_transaction_groups(
        conn,
        [
            (BURN_EVENTS, [event.seen for event in seen_burns]),
            (MINT_EVENTS, [event.seen for event in seen_mints]),
        ],
    )
    burns = list(_burns(network, labelled, burn_events, minima))
    mints = list(_mints(network, labelled, mint_events))
    keys = {burn.message.burn_key for _, burn, _ in burns}
    keys |= {mint.message.burn_key for _, mint in mints}
    rows, unproven = _proven_rows(conn, _RECEIVED, {key for key in keys if key is not None})
    delivering = (row for of_key in rows.values() for row in of_key if row.stage == "DELIVERING")
    nonces = [Bytes32(row.message_id) for row in delivering if row.message_id is not None]
    ready = attested_at(conn, nonces)
    for transfer, burn, match in burns:
        seen = burn.message.seen
        row = _take(rows, burn.message.burn_key, source_tx=seen.tx_hash)
        if row is None:
            continue
        own = found[transfer.id]
        own.keys.add(row.group_key)
        if match == "extra":
            own.extras.append(row.id)
        else:
            own.matched.append(_matched(row, ChainPosition.of(seen), finals, ready))
            own.unproven |= unproven[row.id]
    for transfer, mint in mints:
        row = _take(rows, mint.message.burn_key, source_tx=None, message_id=mint.message.nonce)
        if row is not None and unproven[row.id]:
            found[transfer.id].unproven |= unproven[row.id]
        elif row is not None:
            found[transfer.id].matched.append(_matched(row, None, finals, ready))
            found[transfer.id].keys.add(row.group_key)


def _burns(
    network: Network,
    labelled: Mapping[bytes, TransferTerms],
    events: Iterable[Event],
    minima: Mapping[str, int],
) -> Iterator[tuple[TransferTerms, Burn, matching.BurnMatch]]:
    """The transfers' own burns and their extra burns, in chain order.

    `minima`: the smallest extra burn by transfer.
    """
    for of_transaction in group_by_transaction(events):
        for burn in pair_burns(of_transaction):
            each = labelled.get(transfer_tag(burn.deposit.hook_data) or b"")
            if each is None:
                continue
            match = matching.match_burn(network, each, burn)
            if match == "own" or (match == "extra" and burn.deposit.amount >= minima[each.id]):
                yield each, burn, match


def _mints(
    network: Network, labelled: Mapping[bytes, TransferTerms], events: Iterable[Event]
) -> Iterator[tuple[TransferTerms, Mint]]:
    """Deliveries of what one of the transfers issued, by their attested bodies."""
    for of_transaction in group_by_transaction(events):
        for mint in pair_mints(of_transaction):
            each = labelled.get(mint.message.message_body[-TRANSFER_TAG_SIZE:])
            if each is not None and matching.match_mint(network, each, mint) == "own":
                yield each, mint


_Rows = Mapping[str, list[Movement]]
_Unproven = Mapping[str, set[BlockKey]]
"""Movement → the block of its delivery, if its logs are not proven."""


def _proven_rows(
    conn: Connection,
    delivery: CompiledQuery[MessageReceived] | CompiledQuery[OftReceived],
    keys: Collection[str],
) -> tuple[_Rows, _Unproven]:
    """The movements of these keys; a delivery in an unproven block is taken as not delivered.

    `delivery`: query of the events of deliveries by key.
    """
    if not keys:
        return {}, {}
    values = {"values": joined(sorted(keys))}
    moved, deliveries = fetch_all(conn, [(MOVEMENTS_BY_KEY, values), (delivery, values)])
    rows = group_by_key(moved)
    delivered = {(row.dest_chain, row.dest_tx) for row in moved}
    seen = [
        event.seen for event in deliveries if (event.seen.chain, event.seen.tx_hash) in delivered
    ]
    unproven = find_unproven(conn, seen)
    blocks: dict[tuple[str | None, str | None], BlockKey] = {
        (each.chain, each.tx_hash): (each.chain, each.block_hash)
        for each in seen
        if (each.chain, each.block_hash) in unproven
    }
    found: dict[str, set[BlockKey]] = defaultdict(set)
    for own in rows.values():
        for index, row in enumerate(own):
            block = blocks.get((row.dest_chain, row.dest_tx))
            if block is not None:
                found[row.id].add(block)
                own[index] = replace(
                    row,
                    stage="DELIVERING",
                    stage_reason="the block of its delivery is not proven yet",
                    dest_tx=None,
                    delivered_at=None,
                    amount_out=None,
                )
    return rows, found


def _take(rows: _Rows, key: str | None, **wanted: str | None) -> Movement | None:
    """Remove and return the key's first row with these values; identical burns go in order."""
    own = rows.get(key or "", [])
    equal = (row for row in own if all(getattr(row, name) == wanted[name] for name in wanted))
    chosen = next(equal, None)
    if chosen is not None:
        own.remove(chosen)
    return chosen


def _matched(
    row: Movement,
    source: ChainPosition | None,
    finals: Mapping[ChainId, Height],
    ready: Mapping[Bytes32, UnixSeconds],
) -> MatchedMovement:
    delivered = None
    if row.dest_chain is not None and row.dest_tx is not None and row.delivered_at is not None:
        delivered = DeliveryReceipt(
            row.dest_chain, TxHash(row.dest_tx), UnixSeconds(row.delivered_at)
        )
    return MatchedMovement(
        movement=row.id,
        source=source,
        is_final=source is not None and finals.get(source.chain, -1) >= source.height,
        stage=row.stage,
        why=row.stage_reason,
        ready_at=None if row.message_id is None else ready.get(Bytes32(row.message_id)),
        delivered=delivered,
        amount_out=None if row.amount_out is None else BaseUnits(row.amount_out),
        message_id=None if row.message_id is None else Bytes32(row.message_id),
    )


# Sends and payments: by sender, recipient, token and amount.


_send_columns = EVENT_MAPPINGS[OftSent].table.c
_SENDS = events_query(
    OftSent,
    _send_columns.from_address == any_in("payers"),
    _send_columns.amount_sent == any_amount_in("amounts"),
)
_payment_columns = EVENT_MAPPINGS[AssetMovement].table.c
_PAYMENTS = events_query(
    AssetMovement,
    _payment_columns.sender == any_in("payers"),
    _payment_columns.amount == any_amount_in("amounts"),
)
_PACKETS = events_by_column(PacketSent, "guid")
_VERIFIED = events_by_column(PacketVerified, "guid")
_OFT_RECEIVED = events_by_column(OftReceived, "guid")


def _agreed(together: Sequence[TransferTerms]) -> Mapping[str, Any]:
    """Parameters of the queries of sends and payments."""
    return {
        "payers": joined({matching.payer(each) for each in together}),
        "amounts": sorted({each.amount_in for each in together}),
    }


def _add_sends(
    conn: Connection,
    network: Network,
    together: Sequence[TransferTerms],
    named: Mapping[TxHash, Collection[str]],
    finals: Mapping[ChainId, Height],
    found: dict[str, TransferMovements],
) -> None:
    [sent] = fetch_all(conn, [(_SENDS, _agreed(together))])
    if not sent:
        return
    values = {"values": joined({each.guid for each in sent})}
    packet_events, verified = fetch_all(conn, [(_PACKETS, values), (_VERIFIED, values)])
    packets = {(packet.seen.chain, packet.guid): packet for packet in packet_events}
    paired = ((each, packets.get((each.seen.chain, each.guid))) for each in sent)
    moved = (matching.oft_movement(network, each, packet) for each, packet in paired if packet)
    sends = [each for each in moved if each is not None]
    given = matching.assign_movements(together, sends, named)
    guids = [each.id.removeprefix("oft:") for own in given.values() for each in own]
    rows, unproven = _proven_rows(conn, _OFT_RECEIVED, guids)
    # A message may be verified again by anyone; the first time counts.
    ready = {each.guid: each.seen.block_time for each in reversed(verified)}
    for transfer, own in given.items():
        for each in own:
            for row in rows.get(each.id.removeprefix("oft:"), []):
                found[transfer].matched.append(_matched(row, each.place, finals, ready))
                found[transfer].keys.add(row.group_key)
                found[transfer].unproven |= unproven[row.id]


def _add_payments(
    conn: Connection,
    network: Network,
    together: Sequence[TransferTerms],
    named: Mapping[TxHash, Collection[str]],
    found: dict[str, TransferMovements],
) -> None:
    [moved] = fetch_all(conn, [(_PAYMENTS, _agreed(together))])
    between_holders = (matching.payment_movement(network.stellar, each) for each in moved)
    payments = [each for each in between_holders if each is not None]
    for transfer, own in matching.assign_movements(together, payments, named).items():
        found[transfer].matched += [
            MatchedMovement(
                movement=each.id,
                source=each.place,
                is_final=True,
                stage="COMPLETED",
                why=None,
                ready_at=None,
                delivered=DeliveryReceipt(each.destination, each.place.tx, each.place.at),
                amount_out=BaseUnits(each.amount),
                message_id=None,
            )
            for each in own
        ]
