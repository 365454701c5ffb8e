"""The burns, sends and payments of some transfers, with what became of each."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    LargeBinary,
    bindparam,
    func,
    select,
)

from indexer.bridges.cctp.events import DepositForBurn, MessageReceived
from indexer.bridges.cctp.message import TRANSFER_TAG_SIZE, transfer_tag
from indexer.bridges.oft.events import OftReceived, OftSent, PacketSent, PacketVerified
from indexer.bridges.tokens.events import AssetMovement
from indexer.chains.events import Provenance
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
    pair_burns,
    pair_mints,
)
from indexer.movements.store import group_by_transaction, rows_by_key
from indexer.transfers import matching
from indexer.transfers.inputs import ChainPosition, DeliveryReceipt, MatchedMovement, TransferTerms
from indexer.transfers.matching import UnlabelledMovement
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

    def add(self, row: Movement, carried: MatchedMovement) -> None:
        """One more movement between chains."""
        self.matched.append(carried)
        self.keys.add(row.group_key)

    def add_beside(self, row: Movement) -> None:
        """One more that carries nothing of the transfer, and is to arrive as well."""
        self.extras.append(row.id)
        self.keys.add(row.group_key)


def movements_of(
    conn: Connection,
    network: Network,
    terms: Sequence[TransferTerms],
    together: Sequence[TransferTerms],
    named: Mapping[TxHash, Collection[str]],
) -> Mapping[str, TransferMovements]:
    """Transfer id → its movements.

    `together`: transfers that may share their sends with these (`terms.alike`); `named`: source
    transaction → the transfers that it was submitted or signed for.
    """
    found: dict[str, TransferMovements] = defaultdict(TransferMovements)
    finals = _final_heights(conn)
    bridged = [each for each in terms if each.mechanism == "cctp"]
    if bridged:
        _add_burns(conn, network, bridged, finals, found)
    if any(each.mechanism == "oft" for each in together):
        sends = _sends(conn, network, together)
        _add_sends(conn, matching.assign_movements(together, sends, named), finals, found)
    if any(each.mechanism == "payment" for each in together):
        payments = _payments(conn, network, together)
        _add_payments(matching.assign_movements(together, payments, named), found)
    return found


def _final_heights(conn: Connection) -> dict[ChainId, Height]:
    query = select(cursors.c.chain, cursors.c.final_height).where(
        cursors.c.final_height.is_not(None)
    )
    return {row.chain: row.final_height for row in conn.execute(query)}


# CCTP: by label.


def _add_burns(
    conn: Connection,
    network: Network,
    terms: Sequence[TransferTerms],
    finals: Mapping[ChainId, Height],
    found: dict[str, TransferMovements],
) -> None:
    labelled = {bytes.fromhex(each.id): each for each in terms}
    burns = list(_burns(conn, network, labelled))
    beside = list(_burns_beside(conn, network, labelled))
    mints = list(_mints(conn, network, labelled))
    keys = {burn.message.burn_key for _, burn in burns}
    keys |= {burn.message.burn_key for _, burn in beside}
    keys |= {mint.message.burn_key for _, mint in mints}
    rows, unproven = _proven_rows(
        conn, MessageReceived, "burn_key", {key for key in keys if key is not None}
    )
    ready = attested_at(conn, _awaited(rows.values()))
    for each, burn in burns:
        source = _place(burn.message.seen)
        row = _take(rows, burn.message.burn_key, source_tx=source.tx)
        if row is not None:
            found[each.id].add(row, _carried(row, source, finals, ready))
            found[each.id].unproven |= unproven[row.id]
    for each, burn in beside:
        other = _take(rows, burn.message.burn_key, source_tx=burn.message.seen.tx_hash)
        if other is not None:
            found[each.id].add_beside(other)
    for each, mint in mints:
        nonce = mint.message.nonce
        alone = _take(rows, mint.message.burn_key, source_tx=None, message_id=nonce)
        if alone is not None and unproven[alone.id]:
            found[each.id].unproven |= unproven[alone.id]
        elif alone is not None:
            found[each.id].add(alone, _carried(alone, None, finals, ready))


def _burns(
    conn: Connection, network: Network, labelled: Mapping[bytes, TransferTerms]
) -> Iterator[tuple[TransferTerms, Burn]]:
    """Burns that are in every point what one of the transfers issued, in chain order.

    Who copies a label costs us nothing: only burns by who is to pay, of the amount, are read.
    """
    columns = EVENT_MAPPINGS[DepositForBurn].table.c
    terms = labelled.values()
    return _labelled_burns(
        *(conn, network, labelled, "own"),
        columns.depositor == any_of(sorted({matching.payer(each) for each in terms})),
        columns.amount == any_amount([matching.cctp_amount(network, each) for each in terms]),
    )


def _burns_beside(
    conn: Connection, network: Network, labelled: Mapping[bytes, TransferTerms]
) -> Iterator[tuple[TransferTerms, Burn]]:
    """Burns that bear a transfer's label and pay its recipient otherwise than agreed.

    Whoever has them read gives that recipient each time what is worth sending back.
    """
    amount = EVENT_MAPPINGS[DepositForBurn].table.c.amount
    least = {each.id: matching.min_extra_amount(network, each) for each in labelled.values()}
    for each, burn in _labelled_burns(
        conn, network, labelled, "extra", amount >= min(least.values())
    ):
        if burn.deposit.amount >= least[each.id]:
            yield each, burn


def _labelled_burns(
    conn: Connection,
    network: Network,
    labelled: Mapping[bytes, TransferTerms],
    verdict: matching.BurnMatch,
    *conditions: ColumnElement[bool],
) -> Iterator[tuple[TransferTerms, Burn]]:
    is_labelled = last_16_bytes("hook_data") == any_bytes(labelled)
    seen = events_where(conn, DepositForBurn, is_labelled, *conditions)
    events = events_of_transactions(conn, BURN_EVENTS, [event.seen for event in seen])
    for of_transaction in group_by_transaction(events):
        for burn in pair_burns(of_transaction):
            each = labelled.get(transfer_tag(burn.deposit.hook_data) or b"")
            if each is not None and matching.match_burn(network, each, burn) == verdict:
                yield each, burn


def _mints(
    conn: Connection, network: Network, labelled: Mapping[bytes, TransferTerms]
) -> Iterator[tuple[TransferTerms, Mint]]:
    """Deliveries of what one of the transfers issued, by their attested bodies."""
    body = EVENT_MAPPINGS[MessageReceived].table.c.message_body
    seen = events_where(
        conn,
        MessageReceived,
        last_16_bytes("message_body") == any_bytes(labelled),
        # Not `==`: Python would ask `any` first, and Postgres wants it on the right.
        func.substring(body, matching.BODY_START + 1, matching.BODY_SIZE).bool_op("=")(
            any_bytes(matching.amount_and_sender(network, each) for each in labelled.values())
        ),
    )
    events = events_of_transactions(conn, MINT_EVENTS, [event.seen for event in seen])
    for of_transaction in group_by_transaction(events):
        for mint in pair_mints(of_transaction):
            each = labelled.get(mint.message.message_body[-TRANSFER_TAG_SIZE:])
            if each is not None and matching.match_mint(network, each, mint) == "own":
                yield each, mint


def any_bytes(words: Iterable[bytes]) -> ColumnElement[bytes]:
    """What a column of bytes equals if it is one of these."""
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
    """The movements of these keys; a delivery that is not proven did not happen so far.

    `delivery`: what a delivery is seen by, and the column of its key.
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
        for at, row in enumerate(own):
            block = blocks.get((row.dest_chain, row.dest_tx))
            if block is not None:
                found[row.id].add(block)
                own[at] = _undelivered(row)
    return rows, found


def _undelivered(row: Movement) -> Movement:
    return replace(
        row,
        stage="DELIVERING",
        stage_reason="the block of its delivery is not proven yet",
        dest_tx=None,
        delivered_at=None,
        amount_out=None,
    )


def _take(rows: _Rows, key: str | None, **wanted: str | None) -> Movement | None:
    """The first row of a key that is so, taken out: identical burns of one transaction in order."""
    own = rows.get(key or "", [])
    alike = (row for row in own if all(getattr(row, name) == wanted[name] for name in wanted))
    chosen = next(alike, None)
    if chosen is not None:
        own.remove(chosen)
    return chosen


def _awaited(rows: Iterable[Sequence[Movement]]) -> list[Bytes32]:
    """Nonces of messages that wait for their delivery."""
    waiting = (row for own in rows for row in own if row.stage == "DELIVERING")
    return [Bytes32(row.message_id) for row in waiting if row.message_id is not None]


def _carried(
    row: Movement,
    source: ChainPosition | None,
    finals: Mapping[ChainId, Height],
    ready: Mapping[Bytes32, UnixSeconds],
) -> MatchedMovement:
    is_final = source is not None and finals.get(source.chain, -1) >= source.height
    landed = None
    if row.dest_chain is not None and row.dest_tx is not None and row.delivered_at is not None:
        landed = DeliveryReceipt(row.dest_chain, TxHash(row.dest_tx), UnixSeconds(row.delivered_at))
    return MatchedMovement(
        movement=row.id,
        source=source,
        is_final=is_final,
        stage=row.stage,
        why=row.stage_reason,
        ready_at=None if row.message_id is None else ready.get(Bytes32(row.message_id)),
        delivered=landed,
        amount_out=None if row.amount_out is None else BaseUnits(row.amount_out),
        message_id=None if row.message_id is None else Bytes32(row.message_id),
    )


def _place(seen: Provenance) -> ChainPosition:
    return ChainPosition(seen.height, seen.position, seen.chain, seen.tx_hash, seen.block_time)


# Sends and payments: by what they move.


def _sends(
    conn: Connection, network: Network, together: Sequence[TransferTerms]
) -> list[UnlabelledMovement]:
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
    return [each for each in moved if each is not None]


def _add_sends(
    conn: Connection,
    given: Mapping[str, Sequence[UnlabelledMovement]],
    finals: Mapping[ChainId, Height],
    found: dict[str, TransferMovements],
) -> None:
    guids = [each.id.removeprefix("oft:") for own in given.values() for each in own]
    rows, unproven = _proven_rows(conn, OftReceived, "guid", guids)
    verified = events_by_key(conn, PacketVerified, "guid", guids)
    # Anybody may have a message verified anew; what counts is since when it could be delivered.
    ready = {each.guid: each.seen.block_time for each in reversed(verified)}
    for transfer, own in given.items():
        for each in own:
            for row in rows.get(each.id.removeprefix("oft:"), []):
                found[transfer].add(row, _carried(row, each.place, finals, ready))
                found[transfer].unproven |= unproven[row.id]


def _payments(
    conn: Connection, network: Network, together: Sequence[TransferTerms]
) -> list[UnlabelledMovement]:
    columns = EVENT_MAPPINGS[AssetMovement].table.c
    moved = events_where(
        conn,
        AssetMovement,
        columns.sender == any_of(sorted({matching.payer(each) for each in together})),
        columns.amount == any_amount([each.amount_in for each in together]),
    )
    payments = (matching.payment_movement(network.stellar, each) for each in moved)
    return [each for each in payments if each is not None]


def _add_payments(
    given: Mapping[str, Sequence[UnlabelledMovement]], found: dict[str, TransferMovements]
) -> None:
    for transfer, own in given.items():
        for each in own:
            landed = DeliveryReceipt(each.destination, each.tx, each.at)
            amount = BaseUnits(each.amount)
            found[transfer].matched.append(
                MatchedMovement(
                    each.id, each.place, True, "COMPLETED", None, None, landed, amount, None
                )
            )
