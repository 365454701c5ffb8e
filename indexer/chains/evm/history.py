"""Wide ranges of an EVM chain, read as columns: the questions and the checks of `EvmReader`.

No log becomes an object here. A node's answer goes from JSON text into one frame, and each check
of the logs is one expression over a column. What a range proves is what `EvmReader.read` proves:
headers join by their parents; every log is of one of these headers by its hash and of one of their
transactions, was asked for, stands once and is not marked removed; logs and blooms agree; and the
last header is the same after the logs as before them.

One check is narrower than the reader's. Contract, first topic and recipient of a log must be in its
block's bloom, the other topics are not looked up: they are new in each log, and hashing them would
cost more than all else that happens to a log here.
"""

import io
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import orjson
import polars as pl

from indexer.chains.events import Provenance
from indexer.chains.evm.abi import TRANSFER_TOPIC
from indexer.chains.evm.jsonrpc import JsonRpc, RpcCall, classified
from indexer.chains.evm.log_filters import (
    MAX_RECIPIENTS,
    EventTopics,
    LogFilter,
    header_call,
    transfer_filters,
    union_filter,
)
from indexer.chains.evm.reader import EvmReader
from indexer.chains.evm.receipts import bloom_of
from indexer.chains.evm.responses import ROUND_CAPS, EvmHeader
from indexer.chains.http.client import NodeTimeout, ResponseTooLarge
from indexer.chains.http.node_pool import asked_of_all
from indexer.chains.raw import Block, EvmLog
from indexer.chains.watchlist import Watched, Watchlist, as_watchlist
from indexer.config.networks import EvmChain
from indexer.errors import InconsistentAnswer, RangeTooWide
from warehouse_schema.identifiers import ChainId, EvmAddress, Height

SECONDS = 20.0
"""For each piece of an answer; a whole one may take three times as long."""
MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""Of one answer of logs; beyond it the range is halved, so that memory has a bound."""

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

_ANSWERED: dict[str, Any] = {
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
_REQUIRED = tuple(name for name in _ANSWERED if name not in ("transactionIndex", "removed"))

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
    """The rows of a frame of logs as `EvmLog`s, for what has to be looked at one by one."""
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
    """Reads ranges of one EVM chain as columns. For one thread: make one for each."""

    def __init__(
        self,
        chain: EvmChain,
        urls: Sequence[str],
        event_topics: EventTopics,
        *,
        timeout: float = SECONDS,
    ) -> None:
        super().__init__(chain, urls, event_topics, timeout=timeout)
        for node in self._nodes:
            node.close()
        self._nodes = deque(_TextRpc(node.url, timeout=timeout) for node in self._nodes)

    @classmethod
    def for_reader(cls, reader: EvmReader) -> Self:
        """One for the same chain and nodes, with connections of its own."""
        return cls(reader.config, reader.urls, reader.event_topics)

    def read_columns(self, first: Height, last: Height, watched: Watched) -> EvmColumns:
        """Blocks `first … last` and our logs in them, from one node.

        `RangeTooWide` asks the caller to halve the range; an answer that is too large, or takes too
        long, is that too. `InconsistentAnswer` asks to try again.
        """
        # What one node cannot give of a single block, another may.
        too_much = (RangeTooWide,) if first == last else ()
        try:
            return asked_of_all(
                self._nodes, lambda: self._read_columns(first, last, watched), *too_much
            )
        except (NodeTimeout, ResponseTooLarge) as error:
            if first == last:
                raise
            raise RangeTooWide(f"{self.chain}: blocks {first} to {last}: {error}") from error

    def _read_columns(self, first: Height, last: Height, watched: Watched) -> EvmColumns:
        heights, watchlist = range(first, last + 1), as_watchlist(watched)
        listed = watchlist.addresses_up_to(MAX_RECIPIENTS)
        transfers = transfer_filters(self._chain, listed)
        with self._node() as node:
            headers = self._answers.headers(
                heights, node.batch([header_call(hex(h)) for h in heights])
            )
            logs = self._ordered(
                [self._columns(node, each, headers) for each in (*self._events, *transfers)]
            )
            again = self._answers.header(node.call(*header_call(hex(last))), last)
            if again.block.hash != headers[-1].block.hash:
                raise InconsistentAnswer(f"{self.chain}: block {last} was replaced while reading")
            if self._chain.bloom_is_reliable:
                self._check_bloom_columns(node, headers, logs, [*self._emitters, *transfers])
        if listed is None:
            logs = self._columns_to_watched(logs, watchlist)
        return EvmColumns(tuple(header.block for header in headers), logs)

    def _columns(
        self, node: JsonRpc, asked: LogFilter, headers: Sequence[EvmHeader]
    ) -> pl.DataFrame:
        """`LOG_COLUMNS` of one query's logs, each of them checked."""
        first, last = headers[0].block.height, headers[-1].block.height
        answers = self._parsed(cast(_TextRpc, node).array(asked.query(first, last)))
        if answers.height in ROUND_CAPS and first != last:
            raise RangeTooWide(f"{self.chain}: exactly {answers.height} logs; some may be cut")
        logs = self._placed(self._well_formed(answers), headers)
        self._refuse(logs, ~_was_asked_for(asked), "was not asked for")
        return logs.select(*LOG_COLUMNS)

    def _columns_to_watched(self, logs: pl.DataFrame, watchlist: Watchlist) -> pl.DataFrame:
        """`_to_watched`, over the columns."""
        is_transfer = _was_asked_for(union_filter(transfer_filters(self._chain, None)))
        recipient = pl.lit("0x") + pl.col("topics").list.get(2, null_on_oob=True).str.slice(26)
        recipients = logs.filter(is_transfer).select(recipient).to_series().drop_nulls().unique()
        watched = watchlist.intersection(recipients.to_list())
        is_watched = recipient.is_in(sorted(watched)).fill_null(value=False)
        return logs.filter(~is_transfer | is_watched)

    def _parsed(self, array: bytes) -> pl.DataFrame:
        if not array[1:-1].strip():
            return pl.DataFrame(schema=_ANSWERED)
        try:
            return pl.read_json(io.BytesIO(array), schema=_ANSWERED)
        except pl.exceptions.PolarsError as error:
            raise InconsistentAnswer(f"{self.chain}: logs are malformed: {error}") from error

    def _well_formed(self, answers: pl.DataFrame) -> pl.DataFrame:
        if _are_well_formed(answers):
            return answers
        lower = answers.with_columns(
            pl.col(pl.String).str.to_lowercase(),
            pl.col("topics").list.eval(pl.element().str.to_lowercase()),
        )
        if not _are_well_formed(lower):
            bad = lower.filter(~_IS_WELL_FORMED.fill_null(value=False))
            example = bad.row(0, named=True) if bad.height else "a topic is not 32 bytes"
            raise InconsistentAnswer(f"{self.chain}: a log is malformed: {example}")
        return lower

    def _placed(self, answers: pl.DataFrame, headers: Sequence[EvmHeader]) -> pl.DataFrame:
        """The logs with the time of their blocks, which must be of those that were read."""
        read = pl.DataFrame(
            [(each.block.height, each.block.hash, each.block.time) for each in headers],
            schema={"height": pl.Int64, "read_hash": pl.String, "block_time": pl.Int64},
            orient="row",
        )
        logs = answers.select(
            height=_quantity("blockNumber"),
            block_hash="blockHash",
            tx_hash="transactionHash",
            tx_index=_quantity("transactionIndex").fill_null(0),
            position=_quantity("logIndex"),
            address="address",
            topics="topics",
            data="data",
            removed="removed",
        ).join(read, on="height", how="left", maintain_order="left")
        self._refuse(logs, pl.col("read_hash").is_null(), "lies outside the range")
        self._refuse(logs, pl.col("removed").fill_null(value=False), "is marked removed")
        self._refuse(logs, pl.col("block_hash") != pl.col("read_hash"), "is of another block")
        if self._chain.bloom_is_reliable:
            self._check_transactions(logs, headers)
        return logs

    def _check_transactions(self, logs: pl.DataFrame, headers: Sequence[EvmHeader]) -> None:
        """A log's transaction stands in its block where the log says."""
        with_logs = set(logs["height"].unique())
        listed = [
            (header.block.height, header.transactions)
            for header in headers
            if header.transactions is not None and header.block.height in with_logs
        ]
        transactions = (
            pl.DataFrame(
                listed,
                schema={"height": pl.Int64, "listed": pl.List(pl.String)},
                orient="row",
            )
            .with_columns(tx_index=pl.int_ranges(pl.col("listed").list.len()))
            .explode("listed", "tx_index", empty_as_null=False)
        )
        placed = logs.filter(pl.col("height").is_in([height for height, _ in listed])).join(
            transactions, on=["height", "tx_index"], how="left", maintain_order="left"
        )
        stands = (pl.col("listed") == pl.col("tx_hash")).fill_null(value=False)
        self._refuse(placed, ~stands, "is of another transaction than it says")

    def _refuse(self, logs: pl.DataFrame, is_bad: pl.Expr, problem: str) -> None:
        """Raise `InconsistentAnswer` that quotes the first log that is bad."""
        bad = logs.filter(is_bad)
        if bad.height:
            log = bad.row(0, named=True)
            raise InconsistentAnswer(
                f"{self.chain}: log {log['position']} of block {log['height']}"
                f" ({log['block_hash']}) of {log['address']} {problem}"
            )

    def _ordered(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        place = ["height", "position"]
        logs = pl.concat([pl.DataFrame(schema=LOG_COLUMNS), *frames]).sort(place)
        self._refuse(logs, pl.struct(place).is_duplicated(), "came twice")
        return logs

    def _check_bloom_columns(
        self,
        node: JsonRpc,
        headers: Sequence[EvmHeader],
        logs: pl.DataFrame,
        filters: Sequence[LogFilter],
    ) -> None:
        """`_check_blooms`, of what was asked for in each block rather than of each log."""
        kinds = _kinds(logs)
        for header in headers:
            here = kinds.get(header.block.height, [])
            items = {item for kind in here for item in kind if item}
            # No bloom at all is one that the node does not give.
            if header.bloom and bloom_of(items) & ~header.bloom:
                raise InconsistentAnswer(
                    f"{self.chain}: block {header.block.height} has logs that are not in its bloom"
                )
            if (header.is_sparse or len(headers) == 1) and any(
                each.may_be_in(header.bloom) and not any(each.wants(k[0], k[1:]) for k in here)
                for each in filters
            ):
                of_block = logs.filter(pl.col("height") == header.block.height)
                self._check_complete(
                    node, header, list(logs_from_frame(of_block, self.chain)), filters
                )


class _TextRpc(JsonRpc):
    """A node whose answer may be had as text, up to `MAX_ANSWER_BYTES` of it."""

    def array(self, call: RpcCall) -> bytes:
        """The JSON text of one call's result, which must be an array, brackets included."""
        method, params = call
        body = orjson.dumps({"jsonrpc": "2.0", "id": 0, "method": method, "params": params})
        response = self._post(body)
        if not response.is_success:
            raise self._refusal(response)
        content = response.content
        start, end = content.find(b"["), content.rfind(b"]") + 1
        # An answer has no brackets but its result's, or an error's.
        envelope = self._envelope(content[:start] + b"[]" + content[end:] if end else content)
        if envelope is None or "error" in envelope:
            whole = self._envelope(content)
            if whole is None or whole.get("error") is None:
                raise InconsistentAnswer(f"{self.host} sent broken JSON for {method}")
            raise classified(whole["error"], f"{method} at {self.host}")
        if envelope.get("id") != 0 or envelope.get("result") != []:
            raise InconsistentAnswer(f"{self.host} did not answer {method} with a list")
        return content[start:end]

    def _envelope(self, content: bytes) -> dict[str, Any] | None:
        try:
            answer = orjson.loads(content)
        except orjson.JSONDecodeError:
            return None
        return answer if isinstance(answer, dict) else None

    @property
    def _most_bytes(self) -> int:
        return MAX_ANSWER_BYTES


def _are_well_formed(answers: pl.DataFrame) -> bool:
    topics = answers["topics"].explode(empty_as_null=False)
    return bool(
        answers.select(_IS_WELL_FORMED.fill_null(value=False).all()).item()
        and topics.str.contains(_WORD).fill_null(value=False).all()
    )


def _was_asked_for(asked: LogFilter) -> pl.Expr:
    """`LogFilter.wants`, over the columns."""
    topic = pl.col("topics").list
    wanted = [
        pl.col("address").is_in(sorted(asked.contracts)),
        topic.get(0, null_on_oob=True).is_in(sorted(asked.first_topics)),
    ]
    if asked.recipients is not None:
        wanted.append(topic.get(2, null_on_oob=True).is_in(sorted(asked.recipients)))
    return pl.all_horizontal(each.fill_null(value=False) for each in wanted)


def _quantity(name: str) -> pl.Expr:
    return pl.col(name).str.slice(2).str.to_integer(base=16, dtype=pl.Int64)


def _kinds(logs: pl.DataFrame) -> dict[int, list[tuple[str, str, str, str]]]:
    """Height → the different contracts, first topics and (of transfers) third topics in its logs.

    As address and topics; what is not looked at is empty.
    """
    topic = pl.col("topics").list
    first = topic.get(0, null_on_oob=True)
    kinds = logs.select(
        "height",
        "address",
        first=first,
        third=pl.when(first == TRANSFER_TOPIC).then(topic.get(2, null_on_oob=True)).fill_null(""),
    ).unique()
    found: dict[int, list[tuple[str, str, str, str]]] = defaultdict(list)
    for height, address, first_topic, third in kinds.iter_rows():
        found[height].append((address, first_topic, "", third))
    return found
