"""Blocks whose logs rest on one node until `indexer.ingest.proving` proves them."""

from collections.abc import Collection, Iterable, Mapping

from sqlalchemy import Connection, delete, exists, func, select, tuple_, update
from sqlalchemy.dialects import postgresql

from indexer.chains.events import Provenance
from indexer.chains.raw import Block, RawEvent
from indexer.config.networks import Chain, EvmChain
from indexer.facts.queries import fetch_all, joined, rows_of
from indexer.facts.rows import RowBatch
from indexer.facts.store import block_at, read_raw, stored_blocks
from warehouse_schema.facts import blocks, unproven_blocks
from warehouse_schema.identifiers import BlockHash, ChainId, Height, is_evm
from warehouse_schema.queries import any_in

ALARM = "unproven"
"""Kind of alarm: the subject is a block's hash."""

BlockKey = tuple[ChainId, BlockHash]


def record_unproven(conn: Connection, chain: Chain, first: Height, last: Height) -> None:
    """Mark the stored blocks of `first … last` with logs as unproven."""
    if not isinstance(chain, EvmChain) or chain.log_proof == "none":
        return
    columns = blocks.c
    held = select(columns.chain, columns.hash, columns.height).where(
        columns.chain == chain.id, columns.height.between(first, last), columns.events > 0
    )
    conn.execute(
        postgresql.insert(unproven_blocks)
        .from_select(["chain", "block_hash", "height"], held)
        .on_conflict_do_nothing()
    )


def unproven_rows(chain: Chain, held: Collection[Block]) -> RowBatch:
    """Rows of `unproven_blocks` for new blocks with logs."""
    is_proven = not isinstance(chain, EvmChain) or chain.log_proof == "none"
    return RowBatch(
        [unproven_blocks.c.chain, unproven_blocks.c.block_hash, unproven_blocks.c.height],
        [] if is_proven else [(each.chain, each.hash, each.height) for each in held],
        skips_stored=True,
    )


_UNPROVEN = rows_of(
    select(unproven_blocks.c.chain, unproven_blocks.c.block_hash).where(
        unproven_blocks.c.chain == any_in("chains"),
        unproven_blocks.c.block_hash == any_in("blocks"),
    )
)


def find_unproven(conn: Connection, places: Iterable[Provenance]) -> frozenset[BlockKey]:
    """The unproven blocks among these places."""
    keys = {(place.chain, place.block_hash) for place in places}
    if not keys:
        return frozenset()
    values = {
        "chains": joined({chain for chain, _ in keys}),
        "blocks": joined({block_hash for _, block_hash in keys}),
    }
    [rows] = fetch_all(conn, [(_UNPROVEN, values)])
    return frozenset((row.chain, row.block_hash) for row in rows) & keys


def request_proofs(conn: Connection, keys: Collection[BlockKey]) -> None:
    """Request the proof of these blocks, because a transfer depends on them."""
    if keys:
        columns = unproven_blocks.c
        conn.execute(
            update(unproven_blocks)
            .where(tuple_(columns.chain, columns.block_hash).in_(sorted(keys)), ~columns.wanted)
            .values(wanted=True)
        )


def next_requested_block(
    conn: Connection, chain: ChainId, paused: Collection[BlockHash]
) -> Block | None:
    """A block whose proof is requested, except `paused`; None when there is none.

    Random order, so that blocks that cannot be proven do not starve others.
    """
    query = (
        stored_blocks(chain)
        .join(
            unproven_blocks,
            (unproven_blocks.c.chain == blocks.c.chain)
            & (unproven_blocks.c.block_hash == blocks.c.hash),
        )
        .where(
            unproven_blocks.c.chain == chain,
            unproven_blocks.c.wanted,
            unproven_blocks.c.block_hash.not_in(paused),
        )
        .order_by(func.random())
        .limit(1)
    )
    row = conn.execute(query).one_or_none()
    return None if row is None else Block(*row)


def record_proven(conn: Connection, block: Block) -> None:
    """Mark a block as proven."""
    columns = unproven_blocks.c
    conn.execute(
        delete(unproven_blocks).where(
            columns.chain == block.chain, columns.block_hash == block.hash
        )
    )


def proven_logs(
    conn: Connection, chain: ChainId, first: Height, last: Height
) -> dict[Block, list[RawEvent]]:
    """The proven blocks of `first … last` with their stored logs."""
    if not is_evm(chain):
        return {}
    is_unproven = exists().where(
        unproven_blocks.c.chain == blocks.c.chain, unproven_blocks.c.block_hash == blocks.c.hash
    )
    query = stored_blocks(chain).where(
        blocks.c.height.between(first, last), blocks.c.events > 0, ~is_unproven
    )
    held = [Block(*row) for row in conn.execute(query)]
    return {block: list(read_raw(conn, chain, block.height, block.height)) for block in held}


def restore_proven(conn: Connection, proven: Mapping[Block, list[RawEvent]]) -> None:
    """Mark blocks of `proven_logs` as proven again, where a range read again has the same logs."""
    for block, logs in proven.items():
        stored = block_at(conn, block.chain, block.height)
        if stored == block and logs == list(
            read_raw(conn, block.chain, block.height, block.height)
        ):
            record_proven(conn, block)
