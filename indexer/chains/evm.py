"""An EVM chain over JSON-RPC: blocks and the logs of ours in them, checked before they are given.

Nodes answer `[]` for blocks they do not have yet, mix in logs of replaced blocks, and drop some
(public indexers have met all of it). So a range is one batch to one node, headers first and the
last header again at the end, and every log must belong to a header of that batch. Where the chain's
blooms can be relied on, logs and blooms are held against each other; what they leave open, the
block's receipts settle.

One node can still lie about what no other answer of its own contradicts. What cannot be undone
rests on several (`indexer.chains.quorum`).
"""

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from indexer.addresses import evm_as_bytes32
from indexer.chains.finality import Finality
from indexer.chains.http import AnswerTooLong, NodeTimedOut
from indexer.chains.jsonrpc import Call, HeadsLost, JsonRpc, NewHeads, NoSuchMethod, Reply
from indexer.chains.nodes import asked_of_all, node_of_chain
from indexer.chains.ports import Range
from indexer.chains.receipts import (
    BLOOM_BITS,
    UnknownReceiptType,
    bloom_of,
    header_hash,
    may_hold,
    receipts_root,
)
from indexer.decode.evm import TRANSFER_TOPIC, topics_of_interest
from indexer.errors import (
    ConfigurationError,
    InconsistentAnswer,
    NodeBehind,
    NodeUnavailable,
    PermanentChainError,
    RangeTooWide,
    UnsupportedProtocol,
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

_FASTEST_POLL = 0.05
_SLOWEST_POLL = 1.0
_POLLS_PER_BLOCK = 10
_DEAD_AFTER = 2
"""Heads that a subscription may leave out in a row."""
_PUSH_PAUSE = 30.0
"""Seconds of polling before a socket that would not open is tried again."""
_STUCK_BLOCKS = 20
_STUCK_AT_LEAST = 30.0
"""Seconds, or that many block times, without a new head: another node is asked."""


@dataclass(frozen=True, slots=True)
class ReceiptLog:
    """One log of a receipt; `position` is its index in the block."""

    position: int
    address: EvmAddress
    topics: tuple[Bytes32, ...]
    data: bytes


@dataclass(frozen=True, slots=True)
class EvmReceipt:
    """What became of a transaction that was mined."""

    tx_hash: TxHash
    height: Height
    block_hash: BlockHash
    succeeded: bool
    logs: tuple[ReceiptLog, ...]


@dataclass(frozen=True, slots=True)
class _Header:
    block: Block
    bloom: int
    """logsBloom as one integer; 0 where the node gives none."""
    transactions: tuple[str, ...] | None
    """Hashes in the order of the block; None where the node gives none."""
    receipts_root: str | None

    @property
    def is_sparse(self) -> bool:
        """Whether the bloom is evidence: fuller than half, it says yes to most questions."""
        return 2 * self.bloom.bit_count() <= BLOOM_BITS


@dataclass(frozen=True, slots=True)
class _Filter:
    """Logs of these contracts with these first topics; for transfers, to these recipients."""

    contracts: frozenset[EvmAddress]
    first_topics: frozenset[str]
    recipients: frozenset[Bytes32] | None = None
    """Third topics; None takes any log."""

    def query(self, first: Height, last: Height) -> Call:
        """Of the blocks `first … last`."""
        return self._query({"fromBlock": hex(first), "toBlock": hex(last)})

    def query_of(self, block: BlockHash) -> Call:
        """Of one block, whichever chain it is on (EIP-234)."""
        return self._query({"blockHash": block})

    def _query(self, where: Mapping[str, str]) -> Call:
        topics: list[Any] = [sorted(self.first_topics)]
        if self.recipients is not None:
            topics += [None, sorted(self.recipients)]
        return "eth_getLogs", [{**where, "address": sorted(self.contracts), "topics": topics}]

    def wants(self, address: str, topics: Sequence[str]) -> bool:
        """Whether a log is one that is asked for."""
        if address not in self.contracts or not topics or topics[0] not in self.first_topics:
            return False
        return self.recipients is None or (len(topics) > 2 and topics[2] in self.recipients)

    def may_be_in(self, bloom: int) -> bool:
        """Whether a block with that bloom may hold a log that is asked for."""
        return (
            any(may_hold(bloom, contract) for contract in self.contracts)
            and any(may_hold(bloom, topic) for topic in self.first_topics)
            and (self.recipients is None or any(may_hold(bloom, each) for each in self.recipients))
        )


class EvmReader:
    """Reads one EVM chain (`indexer.chains.ports.ChainReader`). For one thread.

    All questions go to one node, the first `http(s)` URL; when it fails the next takes over, and
    must name the right chain id first, or is dropped. An error that stops the chain is raised only
    when every node says so. A `ws(s)` URL among `urls` pushes new heads; without one
    they are polled for. `timeout`, in seconds, bounds each request.

    `needs_tags`: refuse nodes that cannot name safe and finalized blocks, instead of going by
    depth. `checks_roots`: receipts have to give the root that the header names, and headers their
    own hash; only for chains whose headers and receipts are Ethereum's or the OP Stack's.
    `stuck_after`: seconds without a new head before the next node is asked.
    """

    def __init__(
        self,
        chain: EvmChain,
        urls: Sequence[str],
        *,
        timeout: float = 10.0,
        needs_tags: bool = False,
        checks_roots: bool = False,
        stuck_after: float | None = None,
    ) -> None:
        self.chain = chain.id
        self._chain = chain
        self._needs_tags = needs_tags
        self._checks_roots = checks_roots
        self._has_tags = False
        self._nodes = deque(
            JsonRpc(url, timeout=timeout) for url in urls if url.startswith(("http://", "https://"))
        )
        if not self._nodes:
            raise ConfigurationError(f"{chain.id} needs a node with an http(s) URL")
        self._identified: set[JsonRpc] = set()
        self._without_receipts: set[JsonRpc] = set()
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
        self._stuck_after = (
            max(_STUCK_BLOCKS * chain.block_seconds, _STUCK_AT_LEAST)
            if stuck_after is None
            else stuck_after
        )
        self._last_news = time.monotonic()

    def check_identity(self) -> None:
        """Raise `WrongChain` unless a node has the configured chain id; others are dropped.

        Finds out whether it names final blocks, too. Raises `ConfigurationError` when it does not
        and has to.
        """
        self._identified.clear()
        asked_of_all(self._nodes, self._check_identity, ConfigurationError)

    def _check_identity(self) -> None:
        with self._node() as node:
            self._has_tags = self._tags(node) is not None
            if self._needs_tags and not self._has_tags:
                raise ConfigurationError(
                    f"{self.chain}: {node.host} does not name safe and finalized blocks, and the"
                    " chain is configured to need them: use another node"
                )

    def head(self) -> Block:
        """The node's `latest` block."""
        return self._block("latest")

    def block(self, height: Height) -> Block:
        """One block of the node's current chain."""
        return self._block(height)

    @property
    def has_tags(self) -> bool:
        """Whether `check_identity` found a node that names safe and final blocks."""
        return self._has_tags

    def finality(self) -> Finality | None:
        """What the node calls safe and final; None where it has no such tags.

        Once a node had them (`check_identity`), a node without them is not believed.
        """
        if not self._has_tags:
            return None
        return asked_of_all(self._nodes, self._finality)

    def _finality(self) -> Finality:
        with self._node() as node:
            tags = self._tags(node)
            if tags is None:
                raise NodeUnavailable(f"{node.host} does not name final blocks, others did")
            return tags

    def read(self, first: Height, last: Height, watched: Sequence[str]) -> Range:
        """Blocks `first … last` and our logs in them, from one node.

        A range of up to some 90 blocks is one request. A range whose answer does not come in time
        or is too long is `RangeTooWide`; for a single block, that is the node's fault.
        """
        # What one node cannot give of a single block, another may.
        too_much = (RangeTooWide,) if first == last else ()
        try:
            return asked_of_all(self._nodes, lambda: self._read(first, last, watched), *too_much)
        except (NodeTimedOut, AnswerTooLong) as error:
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
            if self._chain.bloom_is_reliable:
                self._check_blooms(node, headers, logs, [*self._emitters, *transfers])
        return Range(tuple(header.block for header in headers), tuple(logs))

    def wait_for_head(self, above: Height, timeout: float) -> Block | None:
        """Block until the head is above `above`, at most `timeout` seconds; then the head or None.

        A socket that is lost is opened again once; while it cannot be, the head is polled for. A
        node whose head stands still for too long gives way to the next one.
        """
        head = self._awaited_head(above, timeout)
        now = time.monotonic()
        if head is not None:
            self._last_news = now
        elif now - self._last_news >= self._stuck_after and len(self._nodes) > 1:
            logger.warning("no new head chain=%s node=%s", self.chain, self._nodes[0].host)
            self._nodes.rotate(-1)
            self._last_news = now
        return head

    def _awaited_head(self, above: Height, timeout: float) -> Block | None:
        deadline = time.monotonic() + timeout
        if self._new_heads is not None and time.monotonic() >= self._push_again_at:
            was_open = self._new_heads.is_open
            try:
                return self._pushed_head(self._new_heads, above, deadline)
            except HeadsLost as error:
                if was_open:
                    return self._awaited_head(above, max(0.0, deadline - time.monotonic()))
                self._push_again_at = time.monotonic() + _PUSH_PAUSE
                logger.warning("polling for heads chain=%s: %s", self.chain, error)
        return self._polled_head(above, deadline)

    def transaction_receipt(self, tx: TxHash) -> EvmReceipt | None:
        """What became of a transaction; None while the node knows of none that was mined."""

        def ask() -> EvmReceipt | None:
            with self._node() as node:
                answer = node.call("eth_getTransactionReceipt", [tx])
                return None if answer is None else self._receipt(answer, tx)

        return asked_of_all(self._nodes, ask)

    def proven_receipt(self, tx: TxHash) -> EvmReceipt | None:
        """As `transaction_receipt`, held against all receipts of its block and their proofs.

        The block is the one of the node's current chain at that height, bloom and (with
        `checks_roots`) receipts root and hash check out, and the same receipt is among its.
        """
        return asked_of_all(self._nodes, lambda: self._proven_receipt(tx))

    def _proven_receipt(self, tx: TxHash) -> EvmReceipt | None:
        receipt = self.transaction_receipt(tx)
        if receipt is None:
            return None
        with self._node() as node:
            answer = node.call(*_header_call(hex(receipt.height)))
            header = self._header(answer, receipt.height)
            if header.block.hash != receipt.block_hash:
                raise InconsistentAnswer(
                    f"{self.chain}: the receipt of {tx} is of block {receipt.block_hash}, block"
                    f" {receipt.height} is {header.block.hash}"
                )
            if self._checks_roots:
                self._check_hash(answer, header)
            among = [each for each in self._receipts(node, header) if each["transactionHash"] == tx]
        if [self._receipt(each, tx) for each in among] != [receipt]:
            raise InconsistentAnswer(
                f"{self.chain}: the receipt of {tx} is not the one among its block's"
            )
        return receipt

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
        try:
            node = node_of_chain(self._nodes, self._identify)
            yield node
        except (NodeBehind, PermanentChainError):
            self._nodes.rotate(-1)
            raise
        except (NodeUnavailable, InconsistentAnswer):
            # Whatever answers at that address when it comes back has to say again what it serves.
            self._identified.discard(self._nodes[0])
            self._nodes.rotate(-1)
            raise

    def _identify(self, node: JsonRpc) -> None:
        if node in self._identified:
            return
        number = _number(node.call("eth_chainId", []), "chain id")
        if number != self._chain.number:
            raise WrongChain(f"{node.host} serves eip155:{number}, {self.chain} is configured")
        self._identified.add(node)

    def _block(self, asked: Height | str) -> Block:
        """One block by its height or tag."""

        def ask() -> Block:
            with self._node() as node:
                call = _header_call(asked if isinstance(asked, str) else hex(asked))
                return self._header(node.call(*call), asked).block

        return asked_of_all(self._nodes, ask)

    def _tags(self, node: JsonRpc) -> Finality | None:
        replies = node.batch([_header_call("safe"), _header_call("finalized")])
        if any(reply.has_no_such_tag for reply in replies):
            return None
        safe, final = (
            self._header(reply.value(), tag).block
            for reply, tag in zip(replies, ("safe", "finalized"), strict=True)
        )
        if final.height > safe.height:
            raise InconsistentAnswer(
                f"{self.chain}: {node.host} calls {final.height} final and only {safe.height} safe"
            )
        return Finality(safe=safe, final=final)

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
        if asked_of_all(self._nodes, self._head_height) <= above:
            return None
        head = self.head()
        return head if head.height > above else None

    def _head_height(self) -> int:
        with self._node() as node:
            return _number(node.call("eth_blockNumber", []), "block number")

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
                transactions=_hashes(answer.get("transactions")),
                receipts_root=answer.get("receiptsRoot"),
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
        blocks = {header.block.height: header for header in headers}
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

    def _log(self, answer: Any, asked: _Filter, blocks: Mapping[Height, _Header]) -> EvmLog:
        try:
            header = blocks[Height(int(answer["blockNumber"], 16))]
            block = header.block
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
            index = int(answer.get("transactionIndex") or "0x0", 16)
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
        # Chains whose blooms leave logs of the system out leave out its transactions, too.
        transactions = header.transactions if self._chain.bloom_is_reliable else None
        if transactions is not None and log.seen.tx_hash not in transactions[index : index + 1]:
            raise InconsistentAnswer(f"{where} is of transaction {index}, which is another")
        return log

    # Blooms

    def _check_blooms(
        self,
        node: JsonRpc,
        headers: Sequence[_Header],
        logs: Iterable[EvmLog],
        filters: Sequence[_Filter],
    ) -> None:
        """Hold logs against blooms, and where a bloom asks for more of them, against receipts.

        A bloom that is too full is no evidence. In a longer range it is passed over, because most
        blocks of a busy chain are like that; a single block, as at the head where nodes are most
        often wrong, is worth its receipts.
        """
        found: dict[Height, list[EvmLog]] = {header.block.height: [] for header in headers}
        for log in logs:
            found[log.seen.height].append(log)
        for header in headers:
            here = found[header.block.height]
            self._check_in_bloom(header, here)
            if (header.is_sparse or len(headers) == 1) and any(
                each.may_be_in(header.bloom)
                and not any(each.wants(log.address, log.topics) for log in here)
                for each in filters
            ):
                self._check_complete(node, header, here, filters)

    def _check_in_bloom(self, header: _Header, logs: Iterable[EvmLog]) -> None:
        """A log that the block's bloom does not have is not of the block."""
        # No bloom at all is one that the node does not give.
        for log in logs if header.bloom else ():
            if bloom_of([log.address, *log.topics]) & ~header.bloom:
                raise InconsistentAnswer(
                    f"{self.chain}: log {log.seen.position} of block {header.block.height} is not"
                    " in its bloom"
                )

    def _check_complete(
        self, node: JsonRpc, header: _Header, logs: Sequence[EvmLog], filters: Sequence[_Filter]
    ) -> None:
        """Settle whether these are all logs of ours in the block: a bloom may say yes by chance.

        The block's receipts settle it. A node that does not offer `eth_getBlockReceipts` is asked
        for the block's logs once more, by its hash: that finds what the range's answer left out
        since the block was new, but not what the node's index of logs lacks, and blooms cannot be
        settled there. It is believed, with a warning once for each node.
        """
        height = header.block.height
        ours = {log.seen.position for log in logs}
        try:
            receipts = self._receipts(node, header)
        except NoSuchMethod as error:
            self._check_by_hash(node, header, ours, filters)
            if node not in self._without_receipts:
                self._without_receipts.add(node)
                logger.warning("blooms cannot be settled chain=%s: %s", self.chain, error)
            return
        for answer in receipts:
            for log in self._receipt_logs(answer, f"receipts of block {height}"):
                wanted = any(each.wants(log.address, log.topics) for each in filters)
                if wanted and log.position not in ours:
                    raise InconsistentAnswer(
                        f"{self.chain}: block {height} has logs of {log.address} in its receipts"
                        " and bloom, the node's logs leave them out"
                    )

    def _check_by_hash(
        self, node: JsonRpc, header: _Header, ours: set[int], filters: Sequence[_Filter]
    ) -> None:
        """Raise `InconsistentAnswer` if the block's hash brings logs that its height did not."""
        replies = node.batch([each.query_of(header.block.hash) for each in filters])
        blocks = {header.block.height: header}
        for each, reply in zip(filters, replies, strict=True):
            answers = reply.value()
            if not isinstance(answers, list):
                raise InconsistentAnswer(f"{self.chain}: logs came as {type(answers).__name__}")
            for answer in answers:
                log = self._log(answer, each, blocks)
                if log.seen.position not in ours:
                    raise InconsistentAnswer(
                        f"{self.chain}: block {header.block.height} has logs of {log.address} by"
                        " its hash and bloom, the node's logs by height leave them out"
                    )

    # Receipts

    def _receipts(self, node: JsonRpc, header: _Header) -> list[dict[str, Any]]:
        """All receipts of a block, as the node gives them; every one of them, and of that block."""
        height, of = header.block.height, f"receipts of block {header.block.height}"
        answers = node.call("eth_getBlockReceipts", [hex(height)])
        try:
            for receipt in answers:
                if receipt.get("blockHash", header.block.hash) != header.block.hash:
                    raise InconsistentAnswer(f"{self.chain}: {of} are of another block")
            expected = header.transactions if self._chain.bloom_is_reliable else None
            if expected is not None and [each["transactionHash"] for each in answers] != list(
                expected
            ):
                raise InconsistentAnswer(f"{self.chain}: {of} are not those of its transactions")
            logs = [log for receipt in answers for log in receipt["logs"]]
            bloom = bloom_of(item for log in logs for item in (log["address"], *log["topics"]))
            root = receipts_root(answers) if self._checks_roots else header.receipts_root
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, UnknownReceiptType):
                raise UnsupportedProtocol(f"{self.chain}: block {height} has {error}") from error
            raise InconsistentAnswer(f"{self.chain}: {of} are malformed: {error!r}") from error
        if self._chain.bloom_is_reliable and bloom != header.bloom:
            raise InconsistentAnswer(f"{self.chain}: the {of} do not make up its bloom")
        if root != header.receipts_root:
            raise InconsistentAnswer(f"{self.chain}: the {of} do not give its root")
        return list(answers)

    def _check_hash(self, answer: Mapping[str, Any], header: _Header) -> None:
        try:
            computed = header_hash(answer)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InconsistentAnswer(
                f"{self.chain}: block {header.block.height} is malformed: {error!r}"
            ) from error
        if computed != header.block.hash:
            raise InconsistentAnswer(
                f"{self.chain}: the header of block {header.block.height} hashes to {computed}, not"
                f" to {header.block.hash}"
            )

    def _receipt(self, answer: Any, tx: TxHash) -> EvmReceipt:
        try:
            receipt = EvmReceipt(
                tx_hash=TxHash(parse_bytes32(answer["transactionHash"])),
                height=Height(int(answer["blockNumber"], 16)),
                block_hash=BlockHash(parse_bytes32(answer["blockHash"])),
                succeeded=int(answer["status"], 16) == 1,
                logs=tuple(self._receipt_logs(answer, f"receipt of {tx}")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InconsistentAnswer(f"{self.chain}: receipt of {tx} is malformed") from error
        if receipt.tx_hash != tx:
            raise InconsistentAnswer(f"{self.chain}: receipt of {receipt.tx_hash} came for {tx}")
        return receipt

    def _receipt_logs(self, receipt: Mapping[str, Any], of: str) -> Iterator[ReceiptLog]:
        try:
            for log in receipt["logs"]:
                if log["blockHash"] != receipt.get("blockHash", log["blockHash"]):
                    raise InconsistentAnswer(f"{self.chain}: {of} has a log of another block")
                if log.get("removed", False) is not False:
                    raise InconsistentAnswer(f"{self.chain}: {of} has a log marked removed")
                yield ReceiptLog(
                    position=int(log["logIndex"], 16),
                    address=parse_evm_address(log["address"]),
                    topics=tuple(parse_bytes32(topic) for topic in log["topics"]),
                    data=bytes.fromhex(log["data"].removeprefix("0x")),
                )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InconsistentAnswer(f"{self.chain}: {of} is malformed: {error!r}") from error


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


def _hashes(transactions: Any) -> tuple[str, ...] | None:
    return None if transactions is None else tuple(parse_bytes32(each) for each in transactions)
