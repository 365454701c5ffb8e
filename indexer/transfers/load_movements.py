"""Loads the burns, sends and payments of transfers, and what became of each."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    LargeBinary,
    and_,
    bindparam,
    func,
    or_,
    select,
)

from indexer.bridges.cctp.events import DepositForBurn, MessageReceived
from indexer.bridges.cctp.message import TRANSFER_TAG_SIZE, transfer_tag
from indexer.bridges.oft.events import OftReceived, OftSent, PacketSent, PacketVerified
from indexer.bridges.tokens.events import AssetMovement
from indexer.config.networks import Network
from indexer.facts.messages import attested_at
from indexer.facts.proofs import BlockKey, find_unproven
from indexer.facts.rows import EVENT_MAPPINGS
from indexer.facts.store import events_by_key, events_of_transactions, events_where
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
from indexer.movements.store import rows_by_key
from indexer.transfers import matching
from indexer.transfers.inputs import ChainPosition, DeliveryReceipt, MatchedMovement, TransferTerms
from indexer.transfers.terms import any_amount
from warehouse_schema.columns import last_16_bytes
from warehouse_schema.facts import cursors
from warehouse_schema.identifiers import (
    BaseUnits,
    Bytes32,
    ChainId,
    Height,
    TxHash,
    UnixSeconds,
)
from warehouse_schema.queries import any_of


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
) -> Mapping[str, TransferMovements]:
    """Transfer id → its movements.

    `together`: transfers that may share sends with these (`terms.load_interchangeable`);
    `named`: source transaction → the transfers that it was submitted or signed for.
    """
    found: dict[str, TransferMovements] = defaultdict(TransferMovements)
    columns = cursors.c
    query = select(columns.chain, columns.final_height).where(columns.final_height.is_not(None))
    finals: dict[ChainId, Height] = {row.chain: row.final_height for row in conn.execute(query)}
    labelled = {bytes.fromhex(each.id): each for each in terms if each.mechanism == "cctp"}
    if labelled:
        _add_burns(conn, network, labelled, finals, found)
    if any(each.mechanism == "oft" for each in together):
        _add_sends(conn, network, together, named, finals, found)
    if any(each.mechanism == "payment" for each in together):
        _add_payments(conn, network, together, named, found)
    return found


# CCTP: by label.


def _add_burns(
    conn: Connection,
    network: Network,
    labelled: Mapping[bytes, TransferTerms],
    finals: Mapping[ChainId, Height],
    found: dict[str, TransferMovements],
) -> None:
    burns = list(_burns(conn, network, labelled))
    mints = list(_mints(conn, network, labelled))
    keys = {burn.message.burn_key for _, burn, _ in burns}
    keys |= {mint.message.burn_key for _, mint in mints}
    rows, unproven = _proven_rows(
        conn, MessageReceived, "burn_key", {key for key in keys if key is not None}
    )
    delivering = (row for of_key in rows.values() for row in of_key if row.stage == "DELIVERING")
    nonces = [Bytes32(row.message_id) for row in delivering if row.message_id is not None]
    ready = attested_at(conn, nonces)
    for terms, burn, match in burns:
        seen = burn.message.seen
        row = _take(rows, burn.message.burn_key, source_tx=seen.tx_hash)
        if row is None:
            continue
        own = found[terms.id]
        own.keys.add(row.group_key)
        if match == "extra":
            own.extras.append(row.id)
        else:
            own.matched.append(_matched(row, ChainPosition.of(seen), finals, ready))
            own.unproven |= unproven[row.id]
    for terms, mint in mints:
        row = _take(rows, mint.message.burn_key, source_tx=None, message_id=mint.message.nonce)
        if row is not None and unproven[row.id]:
            found[terms.id].unproven |= unproven[row.id]
        elif row is not None:
            found[terms.id].matched.append(_matched(row, None, finals, ready))
            found[terms.id].keys.add(row.group_key)


def _burns(
    conn: Connection, network: Network, labelled: Mapping[bytes, TransferTerms]
) -> Iterator[tuple[TransferTerms, Burn, matching.BurnMatch]]:
    """The transfers' own burns and their extra burns, in chain order.

    Reads burns of the payer with the agreed amount, and other burns of at least the minimum of an
    extra burn: each of those costs its sender that much. Other copies of a label are not read.
    """
    columns = EVENT_MAPPINGS[DepositForBurn].table.c
    terms = labelled.values()
    minima = {each.id: matching.min_extra_amount(network, each) for each in terms}
    is_agreed = and_(
        columns.depositor == any_of(sorted({matching.payer(each) for each in terms})),
        columns.amount == any_amount([matching.cctp_amount(network, each) for each in terms]),
    )
    seen = events_where(
        conn,
        DepositForBurn,
        last_16_bytes("hook_data") == _any_bytes(labelled),
        or_(is_agreed, columns.amount >= min(minima.values())),
    )
    events = events_of_transactions(conn, BURN_EVENTS, [event.seen for event in seen])
    for of_transaction in group_by_transaction(events):
        for burn in pair_burns(of_transaction):
            each = labelled.get(transfer_tag(burn.deposit.hook_data) or b"")
            if each is None:
                continue
            match = matching.match_burn(network, each, burn)
            if match == "own" or (match == "extra" and burn.deposit.amount >= minima[each.id]):
                yield each, burn, match


def _mints(
    conn: Connection, network: Network, labelled: Mapping[bytes, TransferTerms]
) -> Iterator[tuple[TransferTerms, Mint]]:
    """Deliveries of what one of the transfers issued, by their attested bodies."""
    body = EVENT_MAPPINGS[MessageReceived].table.c.message_body
    seen = events_where(
        conn,
        MessageReceived,
        last_16_bytes("message_body") == _any_bytes(labelled),
        # `bool_op`, because `==` would put `ANY` on the left, which Postgres does not accept.
        func.substring(body, matching.BODY_START + 1, matching.BODY_SIZE).bool_op("=")(
            _any_bytes(matching.amount_and_sender(network, each) for each in labelled.values())
        ),
    )
    events = events_of_transactions(conn, MINT_EVENTS, [event.seen for event in seen])
    for of_transaction in group_by_transaction(events):
        for mint in pair_mints(of_transaction):
            each = labelled.get(mint.message.message_body[-TRANSFER_TAG_SIZE:])
            if each is not None and matching.match_mint(network, each, mint) == "own":
                yield each, mint


def _any_bytes(words: Iterable[bytes]) -> ColumnElement[bytes]:
    """`ANY` over byte strings, for a column of bytes."""
    return func.any(bindparam(None, sorted(set(words)), type_=ARRAY(LargeBinary)))


_Rows = Mapping[str, list[Movement]]
_Unproven = Mapping[str, set[BlockKey]]
"""Movement → the block of its delivery, if its logs are not proven."""


def _proven_rows(
    conn: Connection,
    delivery: type[MessageReceived] | type[OftReceived],
    column: str,
    keys: Collection[str],
) -> tuple[_Rows, _Unproven]:
    """The movements of these keys; a delivery in an unproven block is taken as not delivered.

    `delivery`: the event of a delivery, and the column of its key.
    """
    rows = rows_by_key(conn, keys)
    delivered = {(row.dest_chain, row.dest_tx) for own in rows.values() for row in own}
    seen = [
        event.seen
        for event in events_by_key(conn, delivery, column, sorted(keys))
        if (event.seen.chain, event.seen.tx_hash) in delivered
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


def _add_sends(
    conn: Connection,
    network: Network,
    together: Sequence[TransferTerms],
    named: Mapping[TxHash, Collection[str]],
    finals: Mapping[ChainId, Height],
    found: dict[str, TransferMovements],
) -> None:
    columns = EVENT_MAPPINGS[OftSent].table.c
    sent = events_where(
        conn,
        OftSent,
        columns.from_address == any_of(sorted({matching.payer(each) for each in together})),
        columns.amount_sent == any_amount([each.amount_in for each in together]),
    )
    packets = {
        (packet.seen.chain, packet.guid): packet
        for packet in events_by_key(conn, PacketSent, "guid", [each.guid for each in sent])
    }
    paired = ((each, packets.get((each.seen.chain, each.guid))) for each in sent)
    moved = (matching.oft_movement(network, each, packet) for each, packet in paired if packet)
    sends = [each for each in moved if each is not None]
    given = matching.assign_movements(together, sends, named)
    guids = [each.id.removeprefix("oft:") for own in given.values() for each in own]
    rows, unproven = _proven_rows(conn, OftReceived, "guid", guids)
    verified = events_by_key(conn, PacketVerified, "guid", guids)
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
    columns = EVENT_MAPPINGS[AssetMovement].table.c
    moved = events_where(
        conn,
        AssetMovement,
        columns.sender == any_of(sorted({matching.payer(each) for each in together})),
        columns.amount == any_amount([each.amount_in for each in together]),
    )
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
