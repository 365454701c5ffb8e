"""Reads blocks and our logs of an EVM chain over JSON-RPC, and checks them against each other.

Nodes answer `[]` for blocks they do not have yet, mix in logs of replaced blocks, and drop some
(public indexers have met all of it). So a range is one batch to one node, headers first and the
last header again at the end, and every log must belong to a header of that batch. Where the chain's
blooms can be relied on, logs and blooms are checked against each other; what they leave open, the
block's receipts settle.

One node can still lie about what no other answer of its own contradicts. What cannot be undone
rests on several (`indexer.chains.evm.quorum`).
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from indexer.chains.evm.blooms import BLOOM_BITS, bloom_of, may_hold
from indexer.chains.evm.heads import HeadWatcher
from indexer.chains.evm.jsonrpc import MethodNotFound, parse_quantity
from indexer.chains.evm.log_filters import (
    MAX_RECIPIENTS,
    EventTopics,
    LogFilter,
    header_call,
    recipient_topics,
    transfer_filters,
    union_filter,
)
from indexer.chains.evm.node import EvmNode
from indexer.chains.evm.responses import EvmHeader, EvmReceipt, EvmResponseParser
from indexer.chains.finality import Finality
from indexer.chains.http.client import MAX_RESPONSE_BYTES, NodeTimeout, ResponseTooLarge
from indexer.chains.http.node_pool import NodePool
from indexer.chains.http.operators import http_urls
from indexer.chains.ports import Range
from indexer.chains.raw import Block, EvmLog
from indexer.chains.watchlist import Watched, Watchlist, as_watchlist
from indexer.config.networks import EvmChain
from indexer.errors import (
    InconsistentAnswer,
    NodeBehind,
    NodeUnavailable,
    RangeTooWide,
    ReorgDuringRead,
    UnsupportedProtocol,
)
from warehouse_schema.identifiers import Bytes32, EvmAddress, Height, TxHash, parse_evm_address

logger = logging.getLogger(__name__)

T = TypeVar("T")

LogKey: TypeAlias = tuple[str, Sequence[str]]
"""Address and topics of a log. Topics that are not looked up in blooms may be empty."""

_STUCK_BLOCKS = 20
_MIN_STUCK_SECONDS = 30.0
"""Time without a new head, or that many block times, after which the next node is asked."""

_ZERO = "0x" + "00" * 20


class EvmReader:
    """Reads one EVM chain (`indexer.chains.ports.ChainReader`). For one thread.

    The current node is asked, by `NodePool.failover_on_permanent`. A `ws(s)` URL among `urls`
    pushes new heads; without one they are polled for. `event_topics` tells which events of which
    contracts are read. `timeout` is seconds for each piece of a response, which has at most
    `max_bytes`.

    `stuck_after`: seconds without a new head before the next node is asked.
    """

    def __init__(
        self,
        chain: EvmChain,
        urls: Sequence[str],
        event_topics: EventTopics,
        *,
        timeout: float = 10.0,
        max_bytes: int = MAX_RESPONSE_BYTES,
        stuck_after: float | None = None,
    ) -> None:
        self.chain = chain.id
        self.config = chain
        self.event_topics = event_topics
        self.nodes = NodePool(
            chain.id,
            [EvmNode(chain, url, timeout=timeout, max_bytes=max_bytes) for url in http_urls(urls)],
        )
        self._has_tags = False
        self._parser = EvmResponseParser(chain)
        self._watcher = HeadWatcher(chain, urls, self._head_above, self._parser.pushed_block)
        self._without_receipts: set[EvmNode] = set()
        self._listed: tuple[Collection[str] | None, frozenset[Bytes32]] = None, frozenset()
        self._emitters = [
            LogFilter(frozenset({contract}), frozenset(topics))
            for contract, topics in event_topics(chain).items()
        ]
        # One query for all contracts, which may bring a few pairs too many; none without contracts,
        # because a query without addresses is for every contract there is.
        self._events = [union_filter(self._emitters)] if self._emitters else []
        if stuck_after is None:
            stuck_after = max(_STUCK_BLOCKS * chain.block_seconds, _MIN_STUCK_SECONDS)
        self._stuck_after = stuck_after
        self._last_head_at = time.monotonic()

    @property
    def urls(self) -> list[str]:
        """The `http(s)` URLs of its nodes."""
        return [node.url for node in self.nodes.nodes]

    def close(self) -> None:
        """Close every connection."""
        self._watcher.close()
        self.nodes.close()

    def check_identity(self) -> None:
        """Raise `WrongChain` unless a node has the configured chain id; others are removed.

        Records whether the nodes name final blocks.
        """
        for node in self.nodes.nodes:
            node.invalidate()
        self._has_tags = self.nodes.failover_on_permanent(self._tags) is not None

    # Blocks

    def head(self) -> Block:
        """The node's `latest` block."""
        return self.nodes.failover_on_permanent(lambda node: self.header_from(node, "latest").block)

    def block(self, height: Height) -> Block:
        """One block of the node's current chain."""
        return self.nodes.failover_on_permanent(lambda node: self.header_from(node, height).block)

    def header_from(self, node: EvmNode, requested: Height | str) -> EvmHeader:
        """The header at a height or tag, from this node."""
        tag = requested if isinstance(requested, str) else hex(requested)
        return self._parser.header(node.call(*header_call(tag)), requested)

    def finality(self) -> Finality | None:
        """The node's safe and finalized blocks; None where it has no such tags.

        Once a node had them (`check_identity`), a node without them is not believed.
        """

        def ask(node: EvmNode) -> Finality:
            tags = self._tags(node)
            if tags is None:
                raise NodeUnavailable(f"{node.host} does not name final blocks, others did")
            return tags

        return self.nodes.failover_on_permanent(ask) if self._has_tags else None

    def _tags(self, node: EvmNode) -> Finality | None:
        tags = ("safe", "finalized")
        replies = node.batch([header_call(tag) for tag in tags])
        if any(reply.is_unknown_tag for reply in replies):
            return None
        safe, final = (
            self._parser.header(reply.value(), tag).block
            for reply, tag in zip(replies, tags, strict=True)
        )
        if final.height > safe.height:
            raise InconsistentAnswer(
                f"{self.chain}: {node.host} calls {final.height} final and only {safe.height} safe"
            )
        return Finality(safe=safe, final=final)

    def wait_for_head(self, above: Height, timeout: float) -> Block | None:
        """The head once it is above `above`; None after `timeout` seconds.

        A node whose head stands still for too long gives way to the next one.
        """
        head = self._watcher.wait(above, timeout)
        now = time.monotonic()
        if head is not None:
            self._last_head_at = now
        elif now - self._last_head_at >= self._stuck_after and len(self.nodes.nodes) > 1:
            node = self.nodes.current
            logger.warning("no new head chain=%s node=%s", self.chain, node.host)
            self.nodes.end_turn(node)
            self._last_head_at = now
        return head

    def _head_above(self, above: Height) -> Block | None:
        """The head if it is above that height. Asks for the number first: headers are larger."""
        height = self.nodes.failover_on_permanent(
            lambda node: parse_quantity(node.call("eth_blockNumber", []), "block number")
        )
        if height <= above:
            return None
        head = self.head()
        return head if head.height > above else None

    # Ranges

    def read(self, first: Height, last: Height, watched: Watched) -> Range:
        """Blocks `first … last` and our logs in them, from one node.

        A range of up to some 90 blocks is one request. A range whose response times out or is too
        large is `RangeTooWide`; for a single block, that is the node's fault.
        """
        return self._read_from_one(
            first, last, lambda node: self.range_from(node, first, last, watched)
        )

    def _read_from_one(self, first: Height, last: Height, ask: Callable[[EvmNode], T]) -> T:
        # What one node cannot give of a single block, another may.
        refusals = (RangeTooWide,) if first == last else ()
        try:
            return self.nodes.failover_on_permanent(ask, *refusals)
        except (NodeTimeout, ResponseTooLarge) as error:
            if first == last:
                raise
            raise RangeTooWide(f"{self.chain}: blocks {first} to {last}: {error}") from error

    def range_from(self, node: EvmNode, first: Height, last: Height, watched: Watched) -> Range:
        """As `read`, from this node."""
        if isinstance(watched, Collection):
            watched = frozenset(parse_evm_address(each) for each in watched)
        heights, watchlist = range(first, last + 1), as_watchlist(watched)
        # At the head all transfers of the tokens are read: it costs the same however many addresses
        # are watched, and the node does not learn which.
        recipients = None if first == last else watchlist.addresses_up_to(MAX_RECIPIENTS)
        transfers = transfer_filters(self.config, recipients)
        filters = [*self._events, *transfers]
        where = {"fromBlock": hex(first), "toBlock": hex(last)}
        replies = node.batch(
            [
                *(header_call(hex(height)) for height in heights),
                *(each.query(where) for each in filters),
                header_call(hex(last)),
            ]
        )
        # Headers first: a node that lags may have said so there, and nonsense about the logs.
        headers = self._parser.headers(heights, replies[: len(heights)])
        # Then reorgs: the logs may be of other blocks.
        self._check_not_replaced(headers[-1], replies[-1].value())
        logs = self._parser.logs(headers, filters, replies[len(heights) : -1])
        if self.config.bloom_is_reliable:
            found: dict[Height, list[EvmLog]] = defaultdict(list)
            for log in logs:
                found[log.seen.height].append(log)
            self._check_blooms(
                node,
                headers,
                {at: [(each.address, each.topics) for each in found[at]] for at in found},
                lambda at: [log.seen.position for log in found[at]],
                [*self._emitters, *transfers],
                self._listed_recipients(watchlist) if first == last else frozenset(),
            )
        if recipients is None:
            # These are the transfers to anybody.
            to_anybody = union_filter(transfers)
            to = {
                log.seen: EvmAddress("0x" + log.topics[2][26:] if len(log.topics) > 2 else _ZERO)
                for log in logs
                if to_anybody.wants(log.address, log.topics)
            }
            listed = frozenset(watchlist.intersection(frozenset(to.values())))
            logs = [log for log in logs if log.seen not in to or to[log.seen] in listed]
        return Range(tuple(header.block for header in headers), tuple(logs))

    def _check_not_replaced(self, header: EvmHeader, answer: Any) -> None:
        """Raise `ReorgDuringRead` if the last header, requested again, is another one."""
        last = header.block.height
        if self._parser.header(answer, last).block.hash != header.block.hash:
            raise ReorgDuringRead(f"{self.chain}: block {last} was replaced while reading")

    # Receipts

    def proven_receipt_from(self, node: EvmNode, tx: TxHash) -> EvmReceipt | None:
        """Receipt of a transaction, checked against its block; None while it is not mined.

        The block is the one of the node's current chain at that height, what the chain's
        `log_proof` proves checks out, and the same receipt is among the block's.
        """
        answer = node.call("eth_getTransactionReceipt", [tx])
        if answer is None:
            return None
        receipt = self._parser.receipt(answer, tx)
        header = self.header_from(node, receipt.height)
        if header.block.hash != receipt.block_hash:
            raise InconsistentAnswer(
                f"{self.chain}: the receipt of {tx} is of block {receipt.block_hash}, block"
                f" {receipt.height} is {header.block.hash}"
            )
        found = [each for each in self._receipts(node, header) if each["transactionHash"] == tx]
        if [self._parser.receipt(each, tx) for each in found] != [receipt]:
            raise InconsistentAnswer(
                f"{self.chain}: the receipt of {tx} is not the one among its block's"
            )
        return receipt

    def logs_of_receipts(self, block: Block) -> tuple[EvmLog, ...]:
        """Every log of this very block, in order, out of all its receipts.

        Where the chain's `log_proof` is `receipts`, the block's hash proves them. Raises
        `NodeBehind` while no node has this block at its height.
        """

        def ask(node: EvmNode) -> tuple[EvmLog, ...]:
            header = self.header_from(node, block.height)
            if header.block != block:
                raise NodeBehind(f"{node.host} has {header.block.hash} at {block.height}")
            return tuple(self._parser.logs_of_receipts(self._receipts(node, header), block))

        return self.nodes.failover_on_permanent(ask)

    def _receipts(self, node: EvmNode, header: EvmHeader) -> list[dict[str, Any]]:
        answers = node.call("eth_getBlockReceipts", [hex(header.block.height)])
        return self._parser.receipts(answers, header)

    # Blooms

    def _check_blooms(
        self,
        node: EvmNode,
        headers: Sequence[EvmHeader],
        keys: Mapping[Height, Collection[LogKey]],
        positions: Callable[[Height], Collection[int]],
        filters: Sequence[LogFilter],
        recipients: Collection[Bytes32] = (),
    ) -> None:
        """Check logs against blooms, and where a bloom asks for more of them, against receipts.

        `keys` and `positions` are those of the logs at a height. `recipients` are watched, beside
        the filters.
        """
        for header in headers:
            height = header.block.height
            here = keys.get(height, [])
            items = {item for address, topics in here for item in (address, *topics) if item}
            # Some nodes give no bloom at all.
            if header.bloom and bloom_of(items) & ~header.bloom:
                raise InconsistentAnswer(
                    f"{self.chain}: block {height} has logs that are not in its bloom"
                )
            if _may_lack_logs(
                header, here, filters, is_single=len(headers) == 1
            ) or self._may_lack_transfer(header, items, recipients):
                self._check_complete(node, header, positions(height), filters)

    def _listed_recipients(self, watchlist: Watchlist) -> frozenset[Bytes32]:
        """Third topics of transfers to watched addresses, if these are few."""
        listed = watchlist.recent_up_to(MAX_RECIPIENTS)
        if listed is not self._listed[0]:
            self._listed = listed, recipient_topics(listed or ())
        return self._listed[1]

    def _may_lack_transfer(
        self, header: EvmHeader, items: Collection[str], recipients: Collection[Bytes32]
    ) -> bool:
        """Whether a bloom has a watched recipient, and a transfer, that the items do not explain.

        `items`: addresses and topics of the logs that were found. A bloom fuller than half has many
        recipients by chance.
        """
        return (
            2 * header.bloom.bit_count() <= BLOOM_BITS
            and any(each.may_be_in(header.bloom) for each in transfer_filters(self.config, None))
            and any(each not in items and may_hold(header.bloom, each) for each in recipients)
        )

    def _check_complete(
        self,
        node: EvmNode,
        header: EvmHeader,
        positions: Collection[int],
        filters: Sequence[LogFilter],
    ) -> None:
        """Raise `InconsistentAnswer` unless the block has logs of ours at these positions alone.

        The block's receipts settle it, since a bloom may match by chance. A node that does not
        offer `eth_getBlockReceipts`, or whose receipts have a type that we cannot encode, is asked
        for the block's logs once more, by its hash: that finds what the range's answer left out
        since the block was new, but not what the node's index of logs lacks, and blooms cannot be
        settled there. It is believed, with a warning once for each node.
        """
        height = header.block.height
        try:
            receipts = self._receipts(node, header)
        except (MethodNotFound, UnsupportedProtocol) as error:
            replies = node.batch([each.query({"blockHash": header.block.hash}) for each in filters])
            for each, reply in zip(filters, replies, strict=True):
                for log in self._parser.logs([header], [each], [reply]):
                    if log.seen.position not in positions:
                        raise InconsistentAnswer(
                            f"{self.chain}: block {height} has logs of {log.address} by its hash"
                            " and bloom, the node's logs by height leave them out"
                        ) from error
            if node not in self._without_receipts:
                self._without_receipts.add(node)
                logger.warning("blooms cannot be settled chain=%s: %s", self.chain, error)
            return
        for answer in receipts:
            for receipt_log in self._parser.receipt_logs(answer, f"receipts of block {height}"):
                wanted = any(
                    each.wants(receipt_log.address, receipt_log.topics) for each in filters
                )
                if wanted and receipt_log.position not in positions:
                    raise InconsistentAnswer(
                        f"{self.chain}: block {height} has logs of {receipt_log.address} in its"
                        " receipts and bloom, the node's logs leave them out"
                    )


def _may_lack_logs(
    header: EvmHeader,
    found: Collection[LogKey],
    filters: Sequence[LogFilter],
    *,
    is_single: bool,
) -> bool:
    """Whether a bloom matches a filter that no log found, by (address, topics), does.

    A bloom fuller than half matches most filters: it is no evidence. In a longer range it is passed
    over, because most blocks of a busy chain are like that; a single block, as at the head where
    nodes are most often wrong, is worth its receipts.
    """
    is_sparse = 2 * header.bloom.bit_count() <= BLOOM_BITS
    return (is_sparse or is_single) and any(
        each.may_be_in(header.bloom) and not any(each.wants(*key) for key in found)
        for each in filters
    )
