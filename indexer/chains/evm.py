"""An EVM chain over JSON-RPC: blocks and the logs of ours in them, checked before they are given.

Nodes answer `[]` for blocks they do not have yet, mix in logs of replaced blocks, and drop some
(public indexers have met all of it). So a range is one batch to one node, headers first and the
last header again at the end, and every log must belong to a header of that batch.
"""

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from eth_utils.crypto import keccak

from indexer.addresses import evm_as_bytes32
from indexer.chains.jsonrpc import Call, HeadsLost, JsonRpc, NewHeads, NodeTimedOut, Reply
from indexer.chains.ports import Range
from indexer.decode.evm import TRANSFER_TOPIC, topics_of_interest
from indexer.errors import (
    ConfigurationError,
    InconsistentAnswer,
    NodeBehind,
    NodeUnavailable,
    RangeTooWide,
    WrongChain,
)
from indexer.events.common import Provenance
from indexer.events.raw import Block, EvmLog
from indexer.networks import EvmChain
from warehouse_schema.identifiers import (
    BlockHash,
    Bytes32,
    EvmAddress,
    Height,
    TxHash,
    UnixSeconds,
    parse_bytes32,
    parse_evm_address,
)

logger = logging.getLogger(__name__)

RECIPIENTS_PER_QUERY = 500
"""Watched recipients of one transfer query; nodes bound the size of a filter."""
ROUND_CAPS = frozenset({1_000, 2_000, 5_000, 10_000, 20_000})
"""Exactly that many logs: a provider may have cut the rest off without a word."""

_BLOOM_BITS = 2048
_FASTEST_POLL = 0.05
_SLOWEST_POLL = 1.0
_POLLS_PER_BLOCK = 10
_DEAD_AFTER = 2
"""Heads that a subscription may leave out in a row."""
_PUSH_PAUSE = 30.0
"""Seconds of polling before a socket that would not open is tried again."""


@dataclass(frozen=True, slots=True)
class EvmReceipt:
    """What became of a transaction that was mined."""

    tx_hash: TxHash
    height: Height
    block_hash: BlockHash
    succeeded: bool


@dataclass(frozen=True, slots=True)
class _Header:
    block: Block
    bloom: int
    """logsBloom as one integer; 0 where the node gives none."""


@dataclass(frozen=True, slots=True)
class _Filter:
    """Logs of these contracts with these first topics; for transfers, to these recipients."""

    contracts: frozenset[EvmAddress]
    first_topics: frozenset[str]
    recipients: frozenset[Bytes32] | None = None
    """Third topics; None takes any log."""

    def query(self, first: Height, last: Height) -> Call:
        topics: list[Any] = [sorted(self.first_topics)]
        if self.recipients is not None:
            topics += [None, sorted(self.recipients)]
        where = {"fromBlock": hex(first), "toBlock": hex(last)}
        return "eth_getLogs", [{**where, "address": sorted(self.contracts), "topics": topics}]

    def wants(self, address: str, topics: Sequence[str]) -> bool:
        """Whether a log is one that is asked for."""
        if address not in self.contracts or not topics or topics[0] not in self.first_topics:
            return False
        return self.recipients is None or (len(topics) > 2 and topics[2] in self.recipients)

    def may_be_in(self, bloom: int) -> bool:
        """Whether a block with that bloom may hold a log that is asked for."""
        return (
            any(_holds(bloom, contract) for contract in self.contracts)
            and any(_holds(bloom, topic) for topic in self.first_topics)
            and (self.recipients is None or any(_holds(bloom, word) for word in self.recipients))
        )


class EvmReader:
    """Reads one EVM chain (`indexer.chains.ports.ChainReader`). For one thread.

    All questions go to one node, the first `http(s)` URL; when it fails the next takes over, and
    must name the right chain id first. A `ws(s)` URL among `urls` pushes new heads; without one
    they are polled for. `timeout`, in seconds, bounds each request.
    """

    def __init__(self, chain: EvmChain, urls: Sequence[str], *, timeout: float = 10.0) -> None:
        self.chain = chain.id
        self._chain = chain
        self._nodes = deque(
            JsonRpc(url, timeout=timeout) for url in urls if url.startswith(("http://", "https://"))
        )
        if not self._nodes:
            raise ConfigurationError(f"{chain.id} needs a node with an http(s) URL")
        self._identified: JsonRpc | None = None
        sockets = [url for url in urls if url.startswith(("ws://", "wss://"))]
        self._new_heads = NewHeads(sockets[0]) if sockets else None
        self._push_again_at = 0.0
        self._unpushed = 0
        topics = topics_of_interest(chain)
        self._emitters = [
            _Filter(frozenset({contract}), frozenset(firsts)) for contract, firsts in topics.items()
        ]
        # Asked for in one query, which may bring a few pairs too many; none without contracts,
        # because a query without addresses is for every contract there is.
        self._events = [_union(self._emitters)] if self._emitters else []
        self._poll_seconds = min(
            max(chain.block_seconds / _POLLS_PER_BLOCK, _FASTEST_POLL), _SLOWEST_POLL
        )

    def check_identity(self) -> None:
        """Raise `WrongChain` unless the node has the configured chain id."""
        self._identified = None
        with self._node():
            pass

    def head(self) -> Block:
        """The node's `latest` block."""
        with self._node() as node:
            return self._header(node.call(*_header_call("latest")), "latest").block

    def block(self, height: Height) -> Block:
        """One block of the node's current chain."""
        with self._node() as node:
            answer = node.call(*_header_call(hex(height)))
            return self._header(answer, height).block

    def read(self, first: Height, last: Height, watched: Sequence[str]) -> Range:
        """Blocks `first … last` and our logs in them, from one node.

        A range of up to some 90 blocks is one request. A range whose answer does not come in time
        is `RangeTooWide`; a single block's is the node's fault.
        """
        try:
            return self._read(first, last, watched)
        except NodeTimedOut as error:
            if first == last:
                raise
            raise RangeTooWide(f"{self.chain}: blocks {first} to {last}: {error}") from error

    def _read(self, first: Height, last: Height, watched: Sequence[str]) -> Range:
        heights = range(first, last + 1)
        transfers = self._transfer_filters(watched)
        filters = [*self._events, *transfers]
        calls = [
            *(_header_call(hex(height)) for height in heights),
            *(each.query(first, last) for each in filters),
            _header_call(hex(last)),
        ]
        with self._node() as node:
            replies = node.batch(calls)
            # Headers first: a node that lags may have said so there, and nonsense about the logs.
            headers = self._headers(heights, replies[: len(heights)])
            logs = self._logs(headers, filters, replies[len(heights) : -1])
            again = self._header(replies[-1].value(), last)
            if again.block.hash != headers[-1].block.hash:
                raise InconsistentAnswer(f"{self.chain}: block {last} was replaced while reading")
            self._check_blooms(node, headers, logs, [*self._emitters, *transfers])
        return Range(tuple(header.block for header in headers), tuple(logs))

    def wait_for_head(self, above: Height, timeout: float) -> Block | None:
        """Block until the head is above `above`, at most `timeout` seconds; then the head or None.

        A socket that is lost is opened again once; while it cannot be, the head is polled for.
        """
        deadline = time.monotonic() + timeout
        if self._new_heads is not None and time.monotonic() >= self._push_again_at:
            was_open = self._new_heads.is_open
            try:
                return self._pushed_head(self._new_heads, above, deadline)
            except HeadsLost as error:
                if was_open:
                    return self.wait_for_head(above, max(0.0, deadline - time.monotonic()))
                self._push_again_at = time.monotonic() + _PUSH_PAUSE
                logger.warning("polling for heads chain=%s: %s", self.chain, error)
        return self._polled_head(above, deadline)

    def transaction_receipt(self, tx: TxHash) -> EvmReceipt | None:
        """What became of a transaction; None while the node knows of none that was mined."""
        with self._node() as node:
            answer = node.call("eth_getTransactionReceipt", [tx])
            return None if answer is None else self._receipt(answer, tx)

    def close(self) -> None:
        """Let go of every connection."""
        if self._new_heads is not None:
            self._new_heads.close()
        for node in self._nodes:
            node.close()

    # Nodes

    @contextmanager
    def _node(self) -> Iterator[JsonRpc]:
        """The node to ask, known to serve our chain; the next one's turn comes if it fails."""
        node = self._nodes[0]
        try:
            self._identify(node)
            yield node
        except (NodeUnavailable, InconsistentAnswer):
            self._nodes.rotate(-1)
            self._identified = None
            raise

    def _identify(self, node: JsonRpc) -> None:
        if node is self._identified:
            return
        number = _number(node.call("eth_chainId", []), "chain id")
        if number != self._chain.number:
            raise WrongChain(f"{node.host} serves eip155:{number}, {self.chain} is configured")
        self._identified = node

    # Heads

    def _pushed_head(self, pushed: NewHeads, above: Height, deadline: float) -> Block | None:
        if not pushed.is_open:
            pushed.open()
            self._unpushed = 0
            head = self._head_above(above)
            if head is not None:
                return head
        while (left := deadline - time.monotonic()) > 0:
            answer = pushed.next(left)
            if answer is not None:
                self._unpushed = 0
                block = self._header(answer, "newHeads").block
                if block.height > above:
                    return block
        head = self._head_above(above)
        if head is not None:
            # Once it may be on its way. Twice without a word between: the subscription is dead.
            self._unpushed += 1
            if self._unpushed == _DEAD_AFTER:
                pushed.close()
        return head

    def _polled_head(self, above: Height, deadline: float) -> Block | None:
        while True:
            head = self._head_above(above)
            left = deadline - time.monotonic()
            if head is not None or left <= 0:
                return head
            time.sleep(min(self._poll_seconds, left))

    def _head_above(self, above: Height) -> Block | None:
        """The head if it is above that height. Asks for the number first: headers are larger."""
        with self._node() as node:
            if _number(node.call("eth_blockNumber", []), "block number") <= above:
                return None
        head = self.head()
        return head if head.height > above else None

    # Headers

    def _headers(self, heights: Sequence[int], replies: Sequence[Reply]) -> list[_Header]:
        headers = [
            self._header(reply.value(), height)
            for height, reply in zip(heights, replies, strict=True)
        ]
        for before, after in pairwise(headers):
            if after.block.parent_hash != before.block.hash:
                raise InconsistentAnswer(
                    f"{self.chain}: block {after.block.height} has parent"
                    f" {after.block.parent_hash}, but block {before.block.height} is"
                    f" {before.block.hash}"
                )
        return headers

    def _header(self, answer: Any, asked: int | str) -> _Header:
        if answer is None:
            raise NodeBehind(f"{self.chain}: the node has no block {asked} yet")
        try:
            header = _Header(
                Block(
                    chain=self.chain,
                    height=Height(int(answer["number"], 16)),
                    hash=BlockHash(parse_bytes32(answer["hash"])),
                    parent_hash=BlockHash(parse_bytes32(answer["parentHash"])),
                    time=UnixSeconds(int(answer["timestamp"], 16)),
                ),
                bloom=int(answer.get("logsBloom") or "0x0", 16),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InconsistentAnswer(
                f"{self.chain}: block {asked} is malformed: {error}"
            ) from error
        if isinstance(asked, int) and header.block.height != asked:
            raise InconsistentAnswer(
                f"{self.chain}: block {header.block.height} came for block {asked}"
            )
        return header

    # Logs

    def _transfer_filters(self, watched: Sequence[str]) -> list[_Filter]:
        tokens, transfer = frozenset(self._chain.tokens), frozenset({TRANSFER_TOPIC})
        recipients = sorted({evm_as_bytes32(parse_evm_address(each)) for each in watched})
        if not tokens:
            return []
        return [
            _Filter(tokens, transfer, frozenset(recipients[start : start + RECIPIENTS_PER_QUERY]))
            for start in range(0, len(recipients), RECIPIENTS_PER_QUERY)
        ]

    def _logs(
        self, headers: Sequence[_Header], filters: Sequence[_Filter], replies: Sequence[Reply]
    ) -> list[EvmLog]:
        blocks = {header.block.height: header.block for header in headers}
        logs: dict[tuple[Height, int], EvmLog] = {}
        for each, reply in zip(filters, replies, strict=True):
            answers = reply.value()
            if not isinstance(answers, list):
                raise InconsistentAnswer(f"{self.chain}: logs came as {type(answers).__name__}")
            if len(answers) in ROUND_CAPS and len(blocks) > 1:
                raise RangeTooWide(f"{self.chain}: exactly {len(answers)} logs; some may be cut")
            for answer in answers:
                log = self._log(answer, each, blocks)
                key = log.seen.height, log.seen.position
                if key in logs:
                    raise InconsistentAnswer(f"{self.chain}: block {key[0]} has log {key[1]} twice")
                logs[key] = log
        return [logs[key] for key in sorted(logs)]

    def _log(self, answer: Any, asked: _Filter, blocks: Mapping[Height, Block]) -> EvmLog:
        try:
            block = blocks[Height(int(answer["blockNumber"], 16))]
            log = EvmLog(
                seen=Provenance(
                    chain=self.chain,
                    height=block.height,
                    block_hash=BlockHash(parse_bytes32(answer["blockHash"])),
                    tx_hash=TxHash(parse_bytes32(answer["transactionHash"])),
                    position=int(answer["logIndex"], 16),
                    block_time=block.time,
                ),
                address=parse_evm_address(answer["address"]),
                topics=tuple(parse_bytes32(topic) for topic in answer["topics"]),
                data=bytes.fromhex(answer["data"].removeprefix("0x")),
            )
            removed = answer.get("removed", False)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InconsistentAnswer(
                f"{self.chain}: a log is malformed or outside the range: {error!r}"
            ) from error
        where = f"{self.chain}: log {log.seen.position} of block {block.height}"
        if removed is not False:
            raise InconsistentAnswer(f"{where} is marked removed")
        if log.seen.block_hash != block.hash:
            raise InconsistentAnswer(f"{where} is of {log.seen.block_hash}, not {block.hash}")
        if not asked.wants(log.address, log.topics):
            raise InconsistentAnswer(f"{where} of {log.address} was not asked for")
        return log

    # Blooms

    def _check_blooms(
        self,
        node: JsonRpc,
        headers: Iterable[_Header],
        logs: Iterable[EvmLog],
        filters: Sequence[_Filter],
    ) -> None:
        """Hold the blooms of blocks without logs of ours against the node."""
        if not self._chain.bloom_is_reliable:
            return
        answered = {log.seen.height for log in logs}
        for header in headers:
            # A bloom that is fuller than half says yes to most questions: it is no evidence.
            sparse = 2 * header.bloom.bit_count() <= _BLOOM_BITS
            if sparse and header.block.height not in answered:
                suspects = [each for each in filters if each.may_be_in(header.bloom)]
                if suspects:
                    self._check_receipts(node, header, suspects)

    def _check_receipts(self, node: JsonRpc, header: _Header, filters: Sequence[_Filter]) -> None:
        """Settle whether the block has no log of ours: a bloom may say yes by chance.

        The receipts must be all there, which is when their logs make up the header's bloom.
        """
        height = header.block.height
        found = 0
        try:
            receipts = node.call("eth_getBlockReceipts", [hex(height)])
            for log in (log for receipt in receipts for log in receipt["logs"]):
                address, topics = parse_evm_address(log["address"]), log["topics"]
                found |= _bloom_of([address, *topics])
                if any(each.wants(address, topics) for each in filters):
                    raise InconsistentAnswer(
                        f"{self.chain}: block {height} has logs of {address} in its receipts and"
                        " bloom, the node's logs leave them out"
                    )
        except (KeyError, TypeError, ValueError) as error:
            raise InconsistentAnswer(
                f"{self.chain}: receipts of block {height} are malformed: {error!r}"
            ) from error
        if found != header.bloom:
            raise InconsistentAnswer(
                f"{self.chain}: the receipts of block {height} do not make up its bloom"
            )

    # Receipts

    def _receipt(self, answer: Any, tx: TxHash) -> EvmReceipt:
        try:
            receipt = EvmReceipt(
                tx_hash=TxHash(parse_bytes32(answer["transactionHash"])),
                height=Height(int(answer["blockNumber"], 16)),
                block_hash=BlockHash(parse_bytes32(answer["blockHash"])),
                succeeded=int(answer["status"], 16) == 1,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InconsistentAnswer(f"{self.chain}: receipt of {tx} is malformed") from error
        if receipt.tx_hash != tx:
            raise InconsistentAnswer(f"{self.chain}: receipt of {receipt.tx_hash} came for {tx}")
        return receipt


def _union(filters: Sequence[_Filter]) -> _Filter:
    return _Filter(
        frozenset(contract for each in filters for contract in each.contracts),
        frozenset(topic for each in filters for topic in each.first_topics),
    )


def _header_call(block: str) -> Call:
    return "eth_getBlockByNumber", [block, False]


def _number(answer: Any, what: str) -> int:
    try:
        return int(answer, 16)
    except (TypeError, ValueError) as error:
        raise InconsistentAnswer(f"{answer!r} came for a {what}") from error


def _holds(bloom: int, item: str) -> bool:
    mask = _bloom_mask(item)
    return bloom & mask == mask


def _bloom_of(items: Iterable[str]) -> int:
    bloom = 0
    for item in items:
        bloom |= _bloom_mask(item)
    return bloom


@lru_cache(maxsize=65_536)
def _bloom_mask(item: str) -> int:
    """The three bits of an address or topic in a block's bloom (Ethereum Yellow Paper, 4.3.1)."""
    digest = keccak(hexstr=item)
    bits = (int.from_bytes(digest[i : i + 2], "big") % _BLOOM_BITS for i in (0, 2, 4))
    return sum({1 << bit for bit in bits})
