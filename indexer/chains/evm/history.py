"""Reads wide ranges of an EVM chain as columns, with the queries and the checks of `EvmReader`.

No log becomes an object here: JSON text is parsed into one frame, and each check of the logs is one
expression over a column. A range proves what `EvmReader.read` proves: headers join by their
parents; every log is of one of these headers by its hash and of one of their transactions, was
requested, comes once and is not marked removed; logs and blooms agree; and the last header is the
same after the logs as before them.

One check is narrower than the reader's. Contract, first topic and recipient of a log must be in its
block's bloom, the other topics are not looked up: they are new in each log, and hashing them would
cost more than all other work on a log.
"""

import io
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import polars as pl

from indexer.chains.events import Provenance
from indexer.chains.evm.abi import TRANSFER_TOPIC
from indexer.chains.evm.log_filters import (
    MAX_RECIPIENTS,
    LogFilter,
    header_call,
    transfer_filters,
    union_filter,
)
from indexer.chains.evm.node import EvmNode
from indexer.chains.evm.reader import EvmReader, LogKey
from indexer.chains.evm.responses import ROUND_CAPS, EvmHeader
from indexer.chains.raw import Block, EvmLog
from indexer.chains.watchlist import Watched, Watchlist, as_watchlist
from indexer.errors import InconsistentAnswer, RangeTooWide
from warehouse_schema.identifiers import ChainId, EvmAddress, Height

REQUEST_SECONDS = 20.0
"""Timeout of each piece of a response; a whole one may take three times as long."""
MAX_RESPONSE_BYTES = 16 * 1024 * 1024
"""Beyond it the range is halved, so that memory has a bound."""

LOG_COLUMNS: dict[str, Any] = {
    "height": pl.Int64,
    "block_hash": pl.String,
    "tx_hash": pl.String,
    "position": pl.Int64,
    "block_time": pl.Int64,
    "address": pl.String,
    "topics": pl.List(pl.String),
    "data": pl.String,
}
"""An `EvmLog` but for its chain. All hex is lower-case behind `0x`, that of `data` too."""

_RESPONSE_COLUMNS: dict[str, Any] = {
    "address": pl.String,
    "topics": pl.List(pl.String),
    "data": pl.String,
    "blockHash": pl.String,
    "blockNumber": pl.String,
    "transactionHash": pl.String,
    "transactionIndex": pl.String,
    "logIndex": pl.String,
    "removed": pl.Boolean,
}
_REQUIRED = tuple(name for name in _RESPONSE_COLUMNS if name not in ("transactionIndex", "removed"))

_HEADER_COLUMNS: dict[str, Any] = {
    "height": pl.Int64,
    "read_hash": pl.String,
    "block_time": pl.Int64,
    "transactions_before": pl.Int64,
    "transaction_count": pl.Int64,
}
"""Of a list of headers; with the number of transactions before each and in it, null if unknown."""

_QUANTITY = "^0x[0-9a-f]{1,15}$"
"""At most 60 bits: heights and indexes that a signed 64-bit column holds."""
_WORD = "^0x[0-9a-f]{64}$"
_BYTES = "^0x(?:[0-9a-f]{2})*$"
_IS_WELL_FORMED = pl.all_horizontal(
    *(pl.col(name).is_not_null() for name in _REQUIRED),
    pl.col("address").str.contains("^0x[0-9a-f]{40}$"),
    pl.col("transactionHash").str.contains(_WORD),
    pl.col("blockNumber").str.contains(_QUANTITY),
    pl.col("logIndex").str.contains(_QUANTITY),
    pl.col("transactionIndex").fill_null("0x0").str.contains(_QUANTITY),
    pl.col("data").str.contains(_BYTES),
)


@dataclass(frozen=True, slots=True)
class EvmColumns:
    """Blocks `first … last` without a gap, and our logs in them by height and position."""

    blocks: tuple[Block, ...]
    logs: pl.DataFrame
    """`LOG_COLUMNS`."""


def logs_from_frame(frame: pl.DataFrame, chain: ChainId) -> Iterator[EvmLog]:
    """The rows of a frame of `LOG_COLUMNS` as `EvmLog`s."""
    for row in frame.iter_rows(named=True):
        yield EvmLog(
            seen=Provenance(
                chain,
                row["height"],
                row["block_hash"],
                row["tx_hash"],
                row["position"],
                row["block_time"],
            ),
            address=EvmAddress(row["address"]),
            topics=tuple(row["topics"]),
            data=bytes.fromhex(row["data"][2:]),
        )


class EvmHistory(EvmReader):
    """Reads ranges of one EVM chain as columns. For one thread."""

    @classmethod
    def for_reader(cls, reader: EvmReader) -> Self:
        """For the same chain and nodes, with connections of its own."""
        return cls(
            reader.config,
            reader.urls,
            reader.event_topics,
            timeout=REQUEST_SECONDS,
            max_bytes=MAX_RESPONSE_BYTES,
        )

    def read_columns(self, first: Height, last: Height, watched: Watched) -> EvmColumns:
        """Blocks `first … last` and our logs in them, from one node. Raises as `read`."""
        return self._read_from_one(
            first, last, lambda node: self._columns_from(node, first, last, as_watchlist(watched))
        )

    def _columns_from(
        self, node: EvmNode, first: Height, last: Height, watchlist: Watchlist
    ) -> EvmColumns:
        heights = range(first, last + 1)
        recipients = watchlist.addresses_up_to(MAX_RECIPIENTS)
        transfers = transfer_filters(self.config, recipients)
        replies = node.batch([header_call(hex(height)) for height in heights])
        headers = self._parser.headers(heights, replies)
        place = ["height", "position"]
        logs = pl.concat(
            [
                pl.DataFrame(schema=LOG_COLUMNS),
                *(self._logs(node, each, headers) for each in (*self._events, *transfers)),
            ]
        ).sort(place)
        self._check(logs, {"came twice": pl.struct(place).is_duplicated()})
        self._check_not_replaced(headers[-1], node.call(*header_call(hex(last))))
        if self.config.bloom_is_reliable:
            self._check_blooms(
                node,
                headers,
                _keys_by_height(logs),
                lambda at: logs.filter(pl.col("height") == at)["position"].to_list(),
                [*self._emitters, *transfers],
            )
        if recipients is None:
            is_transfer = _is_requested(union_filter(transfer_filters(self.config, None)))
            recipient = pl.lit("0x") + pl.col("topics").list.get(2, null_on_oob=True).str.slice(26)
            found = logs.filter(is_transfer).select(recipient).to_series().drop_nulls().unique()
            is_watched = recipient.is_in(sorted(watchlist.intersection(found.to_list())))
            logs = logs.filter(~is_transfer | is_watched.fill_null(value=False))
        return EvmColumns(tuple(header.block for header in headers), logs)

    def _logs(
        self, node: EvmNode, requested: LogFilter, headers: Sequence[EvmHeader]
    ) -> pl.DataFrame:
        """`LOG_COLUMNS` of one query's logs, each of them checked."""
        first, last = headers[0].block.height, headers[-1].block.height
        answers = self._parsed(
            node.list_text(requested.query({"fromBlock": hex(first), "toBlock": hex(last)}))
        )
        if answers.is_empty():
            return pl.DataFrame(schema=LOG_COLUMNS)
        if answers.height in ROUND_CAPS and first != last:
            raise RangeTooWide(f"{self.chain}: exactly {answers.height} logs; some may be cut")
        with_logs = {int(height, 16) for height in answers["blockNumber"].unique()}
        blocks, transactions = _columns_of(
            [header for header in headers if header.block.height in with_logs]
        )
        logs = (
            answers.lazy()
            .select(
                height=_quantity("blockNumber"),
                block_hash="blockHash",
                tx_hash="transactionHash",
                tx_index=_quantity("transactionIndex").fill_null(0),
                position=_quantity("logIndex"),
                address="address",
                topics="topics",
                data="data",
                removed="removed",
            )
            .join(blocks.lazy(), on="height", how="left", maintain_order="left")
            .collect()
        )
        problems = {
            "lies outside the range": pl.col("read_hash").is_null(),
            "is marked removed": pl.col("removed"),
            "is of another block": pl.col("block_hash") != pl.col("read_hash"),
            "was not asked for": ~_is_requested(requested),
        }
        if self.config.bloom_is_reliable:
            problems["is of another transaction than it says"] = _is_of_another_transaction(
                transactions
            )
        self._check(logs, problems)
        return logs.select(*LOG_COLUMNS)

    def _parsed(self, text: bytes) -> pl.DataFrame:
        """`_RESPONSE_COLUMNS` of a JSON list of logs, well-formed and in lower case."""
        if not text[1:-1].strip():
            return pl.DataFrame(schema=_RESPONSE_COLUMNS)
        try:
            logs = pl.read_json(io.BytesIO(text), schema=_RESPONSE_COLUMNS)
        except pl.exceptions.PolarsError as error:
            raise InconsistentAnswer(f"{self.chain}: logs are malformed: {error}") from error
        if _are_well_formed(logs):
            return logs
        lower = logs.with_columns(
            pl.col(pl.String).str.to_lowercase(),
            pl.col("topics").list.eval(pl.element().str.to_lowercase()),
        )
        if not _are_well_formed(lower):
            bad = lower.filter(~_IS_WELL_FORMED.fill_null(value=False))
            example = bad.row(0, named=True) if bad.height else "a topic is not 32 bytes"
            raise InconsistentAnswer(f"{self.chain}: a log is malformed: {example}")
        return lower

    def _check(self, logs: pl.DataFrame, problems: Mapping[str, pl.Expr]) -> None:
        """Raise `InconsistentAnswer` that names a log with one of the problems, if there is one."""
        found = logs.select(is_bad.any().alias(problem) for problem, is_bad in problems.items())
        for problem, is_bad in problems.items():
            if found[problem].item():
                log = logs.filter(is_bad).row(0, named=True)
                raise InconsistentAnswer(
                    f"{self.chain}: log {log['position']} of block {log['height']}"
                    f" ({log['block_hash']}) of {log['address']} {problem}"
                )


def _columns_of(headers: Sequence[EvmHeader]) -> tuple[pl.DataFrame, pl.Series]:
    """`_HEADER_COLUMNS` of headers, and the hashes of all their transactions in order."""
    rows: list[tuple[Any, ...]] = []
    hashes: list[str] = []
    for header in headers:
        count = None if header.transactions is None else len(header.transactions)
        rows.append((header.block.height, header.block.hash, header.block.time, len(hashes), count))
        hashes += header.transactions or ()
    frame = pl.DataFrame(rows, schema=_HEADER_COLUMNS, orient="row")
    return frame, pl.Series(hashes, dtype=pl.String)


def _is_of_another_transaction(hashes: pl.Series) -> pl.Expr:
    """Whether a log's block has another transaction, or none, at the index that the log names.

    Over logs joined with `_HEADER_COLUMNS`; null where the block's transactions are unknown.
    `hashes` as by `_columns_of`.
    """
    index, count = pl.col("tx_index"), pl.col("transaction_count")
    place = pl.when(index < count).then(pl.col("transactions_before") + index)
    is_other = pl.lit(hashes).gather(place).ne_missing(pl.col("tx_hash"))
    return pl.when(count.is_not_null()).then(is_other)


def _are_well_formed(logs: pl.DataFrame) -> bool:
    topics = pl.col("topics").explode(empty_as_null=False)
    return all(
        logs.select(
            fields=_IS_WELL_FORMED.fill_null(value=False).all(),
            topics=topics.str.contains(_WORD).fill_null(value=False).all(),
        ).row(0)
    )


def _is_requested(requested: LogFilter) -> pl.Expr:
    """`LogFilter.wants`, over the columns."""
    topic = pl.col("topics").list
    wanted = [
        pl.col("address").is_in(sorted(requested.contracts)),
        topic.get(0, null_on_oob=True).is_in(sorted(requested.first_topics)),
    ]
    if requested.recipients is not None:
        wanted.append(topic.get(2, null_on_oob=True).is_in(sorted(requested.recipients)))
    return pl.all_horizontal(each.fill_null(value=False) for each in wanted)


def _quantity(name: str) -> pl.Expr:
    return pl.col(name).str.slice(2).str.to_integer(base=16, dtype=pl.Int64)


def _keys_by_height(logs: pl.DataFrame) -> dict[Height, list[LogKey]]:
    """Height → distinct (address, topics) of its logs.

    First topics, and third topics of transfers; topics that are not looked up are empty.
    """
    topic = pl.col("topics").list
    first = topic.get(0, null_on_oob=True)
    third = pl.when(first == TRANSFER_TOPIC).then(topic.get(2, null_on_oob=True)).fill_null("")
    keys = logs.lazy().select("height", "address", first=first, third=third).unique().collect()
    found: dict[Height, list[LogKey]] = defaultdict(list)
    for height, address, first_topic, third in keys.iter_rows():
        found[height].append((address, (first_topic, "", third)))
    return found
