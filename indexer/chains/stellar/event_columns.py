"""Events of full ledgers as columns: a frame of them in place of an object for each.

A frame is made of what a node gave, without an error of its own: whatever is not as expected gives
no frame, and the events are read one by one, which says what is wrong.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from polars.exceptions import PolarsError

from indexer.chains.events import Provenance
from indexer.chains.layouts import topic
from indexer.chains.polars_errors import polars_errors_as_value_errors
from indexer.chains.raw import Block, StellarEvent
from indexer.chains.stellar.filters import PARTIES, requested_contracts
from indexer.chains.stellar.rpc import field, unix_seconds
from indexer.chains.stellar.xdr.event_ids import INDEX_BITS
from indexer.chains.stellar.xdr.scval_columns import is_account, strkey_of_digits
from indexer.chains.watchlist import Watched, as_watchlist
from indexer.config.networks import StellarChain
from indexer.errors import InconsistentAnswer
from warehouse_schema.identifiers import ChainId, StellarAddress, TxHash

_TEXTS = ("ledgerClosedAt", "txHash", "id", "contractId", "value")
"""Members of a record that are texts."""
_PLACES = sorted({place for places in PARTIES.values() for place in places})
"""Topics of tokens' events that may name an account."""


@dataclass(frozen=True, slots=True)
class LedgerColumns:
    """Ledgers without a gap, and our events in them in order."""

    blocks: Sequence[Block]
    events: pl.DataFrame
    """The columns of a `StellarEvent`, except its chain. XDR is lower-case hex behind `0x`."""


def record_frame(records: Sequence[Mapping[str, Any]]) -> pl.DataFrame | None:
    """Records of getEvents as a frame: ledger, texts and topics, each event once, XDR as hex.

    None when they are not all well-formed.
    """
    try:
        listed = [field(each, "topic", list) for each in records]
        # By column: by row it takes several times as long, and so do lists of topics.
        frame = pl.DataFrame(
            {
                "ledger": pl.Series([each["ledger"] for each in records], dtype=pl.Int64),
                **{
                    name: pl.Series([each[name] for each in records], dtype=pl.String)
                    for name in _TEXTS
                },
                "topic": [" ".join(topics) for topics in listed],
                "topics": [len(topics) for topics in listed],
            }
        ).with_columns(
            value=_hex(pl.col("value")),
            topic=pl.col("topic").str.split(" ").list.eval(_hex(pl.element())),
        )
    except (LookupError, TypeError, ValueError, OverflowError, InconsistentAnswer, PolarsError):
        return None
    # Two filters may give an event twice, but not in two ways.
    unique = frame.unique()
    is_well_formed = unique.select(
        pl.all_horizontal(
            pl.all().is_not_null(),
            # A topic with a space would be two, and no topic an empty one.
            (pl.col("topic").list.len() == pl.col("topics")),
            pl.col("txHash").str.contains("^[0-9a-f]{64}$"),
            pl.col("id").str.contains("^[0-9]{19}-[0-9]{10}$"),
            pl.col("id").is_unique(),
        ).all()
    )
    return unique if is_well_formed.item() else None


def _hex(text: pl.Expr) -> pl.Expr:
    return pl.lit("0x") + text.str.decode("base64").bin.encode("hex")


@polars_errors_as_value_errors()
def ledger_columns(
    chain: StellarChain, blocks: Sequence[Block], records: pl.DataFrame, watched: Watched
) -> LedgerColumns | None:
    """The wanted events (`filters.requested_events`) of a `record_frame`.

    Those of later ledgers are left out. None when a record is of an earlier one, or was not asked
    for. Raises `ValueError`, `TypeError` or `LookupError` only for a fault of ours.
    """
    toid = pl.col("id").str.slice(0, 19).str.to_integer(dtype=pl.Int64, strict=False)
    index = pl.col("id").str.slice(20).str.to_integer(dtype=pl.Int64)
    is_expected = pl.all_horizontal(
        pl.col("ledger") >= blocks[0].height,
        toid // 2**32 == pl.col("ledger"),
        index < 2**INDEX_BITS,
        pl.col("contractId").is_in(sorted(requested_contracts(chain))),
    ).fill_null(value=False)
    if not records.select(is_expected.all()).item():
        return None
    records = records.filter(pl.col("ledger") <= blocks[-1].height)
    if not _are_closed_in(blocks, records):
        return None
    hashes = pl.DataFrame(
        [(block.height, block.hash, block.time) for block in blocks],
        schema={"ledger": pl.Int64, "block_hash": pl.String, "block_time": pl.Int64},
        orient="row",
    )
    events = (
        records.join(hashes, on="ledger")
        .sort("id")
        .select(
            "block_hash",
            "block_time",
            height="ledger",
            tx_hash="txHash",
            position=(toid % 2**32) * 2**INDEX_BITS + index,
            event_id="id",
            contract="contractId",
            topics="topic",
            value="value",
        )
    )
    return LedgerColumns(blocks, _wanted(chain, events, watched))


def _are_closed_in(blocks: Sequence[Block], records: pl.DataFrame) -> bool:
    """Whether each event was given with the close time of its ledger."""
    times = {block.height: block.time for block in blocks}
    given = records.select("ledger", "ledgerClosedAt").unique()
    try:
        return all(unix_seconds(text) == times[height] for height, text in given.iter_rows())
    except ValueError:
        return False


def _wanted(chain: StellarChain, events: pl.DataFrame, watched: Watched) -> pl.DataFrame:
    parties = events.select(_party(place).alias(str(place)) for place in _PLACES)
    named = pl.concat(parties.get_columns()).drop_nulls().unique()
    accounts = {digits: strkey_of_digits(digits) for digits in named}
    found = frozenset(as_watchlist(watched).intersection(accounts.values()))
    watched_digits = [digits for digits, account in accounts.items() if account in found]
    is_watched = parties.select(
        pl.any_horizontal(pl.all().is_in(watched_digits).fill_null(value=False)).alias("is_watched")
    ).to_series()
    return events.filter(pl.col("contract").is_in(sorted(chain.event_contracts)) | is_watched)


def _party(place: int) -> pl.Expr:
    """The digits of the topic at a place, where it is an account that the event is about."""
    of_events = [
        (pl.col("topics").list.first() == f"0x{name.hex()}")
        & (pl.col("topics").list.len() == count)
        for (name, count), places in PARTIES.items()
        if place in places
    ]
    return pl.when(pl.any_horizontal(*of_events) & is_account(topic(place))).then(topic(place))


def events_from_frame(frame: pl.DataFrame, chain: ChainId) -> Iterator[StellarEvent]:
    """The rows of a frame of `LedgerColumns` as `StellarEvent`s."""
    for row in frame.iter_rows(named=True):
        yield StellarEvent(
            seen=Provenance(
                chain,
                row["height"],
                row["block_hash"],
                TxHash(row["tx_hash"]),
                row["position"],
                row["block_time"],
            ),
            event_id=row["event_id"],
            contract=StellarAddress(row["contract"]),
            topics=tuple(bytes.fromhex(each[2:]) for each in row["topics"]),
            value=bytes.fromhex(row["value"][2:]),
        )
