"""An EVM chain over JSON-RPC: blocks and the logs of ours in them, checked before they are given.

Nodes answer `[]` for blocks they do not have yet, mix in logs of replaced blocks, and drop some
(public indexers have met all of it). So a range is one batch to one node, headers first and the
last header again at the end, and every log must belong to a header of that batch. Where the chain's
blooms can be relied on, logs and blooms are held against each other; what they leave open, the
block's receipts settle.

One node can still lie about what no other answer of its own contradicts. What cannot be undone
rests on several (`indexer.chains.evm.quorum`).
"""

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from indexer.chains.evm.jsonrpc import HeadsLost, JsonRpc, MethodNotFound, NewHeads
from indexer.chains.evm.log_filters import (
    MAX_RECIPIENTS,
    EventTopics,
    LogFilter,
    emitter_filters,
    header_call,
    recipient_of,
    transfer_filters,
    union_filter,
)
from indexer.chains.evm.responses import EvmAnswers, EvmHeader, EvmReceipt, number
from indexer.chains.finality import Finality
from indexer.chains.http.client import NodeTimeout, ResponseTooLarge
from indexer.chains.http.node_pool import asked_of_all, node_of_chain
from indexer.chains.identity import check_evm_node
from indexer.chains.ports import Range
from indexer.chains.raw import Block, EvmLog
from indexer.chains.watchlist import Watched, Watchlist, as_watchlist
from indexer.config.networks import EvmChain
from indexer.errors import (
    ConfigurationError,
    InconsistentAnswer,
    NodeBehind,
    NodeUnavailable,
    PermanentChainError,
    RangeTooWide,
    UnsupportedProtocol,
)
from warehouse_schema.identifiers import Height, TxHash

logger = logging.getLogger(__name__)

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


class EvmReader:
    """Reads one EVM chain (`indexer.chains.ports.ChainReader`). For one thread.

    All questions go to one node, the first `http(s)` URL; when it fails the next takes over, and
    must name the right chain id first, or is dropped. An error that stops the chain is raised only
    when every node says so. A `ws(s)` URL among `urls` pushes new heads; without one
    they are polled for. `event_topics` says which events of which contracts are read. `timeout`, in
    seconds, bounds each request.

    `needs_tags`: refuse nodes that cannot name safe and finalized blocks, instead of going by
    depth. `stuck_after`: seconds without a new head before the next node is asked.
    """

    def __init__(
        self,
        chain: EvmChain,
        urls: Sequence[str],
        event_topics: EventTopics,
        *,
        timeout: float = 10.0,
        needs_tags: bool = False,
        stuck_after: float | None = None,
    ) -> None:
        self.chain = chain.id
        self._chain = chain
        self.event_topics = event_topics
        self._needs_tags = needs_tags
        self._answers = EvmAnswers(chain)
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
        self._emitters = emitter_filters(event_topics(chain))
        # Asked for in one query, which may bring a few pairs too many; none without contracts,
        # because a query without addresses is for every contract there is.
        self._events = [union_filter(self._emitters)] if self._emitters else []
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
    def config(self) -> EvmChain:
        """The chain as it is configured."""
        return self._chain

    @property
    def urls(self) -> list[str]:
        """The `http(s)` URLs of its nodes."""
        return [node.url for node in self._nodes]

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

    def read(self, first: Height, last: Height, watched: Watched) -> Range:
        """Blocks `first … last` and our logs in them, from one node.

        A range of up to some 90 blocks is one request. A range whose answer does not come in time
        or is too long is `RangeTooWide`; for a single block, that is the node's fault.
        """
        # What one node cannot give of a single block, another may.
        too_much = (RangeTooWide,) if first == last else ()
        try:
            return asked_of_all(self._nodes, lambda: self._read(first, last, watched), *too_much)
        except (NodeTimeout, ResponseTooLarge) as error:
            if first == last:
                raise
            raise RangeTooWide(f"{self.chain}: blocks {first} to {last}: {error}") from error

    def _read(self, first: Height, last: Height, watched: Watched) -> Range:
        heights, watchlist = range(first, last + 1), as_watchlist(watched)
        listed = watchlist.addresses_up_to(MAX_RECIPIENTS)
        transfers = transfer_filters(self._chain, listed)
        filters = [*self._events, *transfers]
        calls = [
            *(header_call(hex(height)) for height in heights),
            *(each.query(first, last) for each in filters),
            header_call(hex(last)),
        ]
        with self._node() as node:
            replies = node.batch(calls)
            # Headers first: a node that lags may have said so there, and nonsense about the logs.
            headers = self._answers.headers(heights, replies[: len(heights)])
            logs = self._answers.logs(headers, filters, replies[len(heights) : -1])
            again = self._answers.header(replies[-1].value(), last)
            if again.block.hash != headers[-1].block.hash:
                raise InconsistentAnswer(f"{self.chain}: block {last} was replaced while reading")
            if self._chain.bloom_is_reliable:
                self._check_blooms(node, headers, logs, [*self._emitters, *transfers])
        if listed is None:
            logs = self._to_watched(logs, watchlist)
        return Range(tuple(header.block for header in headers), tuple(logs))

    def _to_watched(self, logs: Sequence[EvmLog], watchlist: Watchlist) -> list[EvmLog]:
        """The logs without transfers of tokens to recipients that are not watched."""
        transfers = union_filter(transfer_filters(self._chain, None))
        recipients = {
            log.seen: recipient_of(log.topics)
            for log in logs
            if transfers.wants(log.address, log.topics)
        }
        watched = frozenset(watchlist.intersection(frozenset(recipients.values())))
        return [
            log for log in logs if log.seen not in recipients or recipients[log.seen] in watched
        ]

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
                return None if answer is None else self._answers.receipt(answer, tx)

        return asked_of_all(self._nodes, ask)

    def proven_receipt(self, tx: TxHash) -> EvmReceipt | None:
        """As `transaction_receipt`, held against all receipts of its block and their proofs.

        The block is the one of the node's current chain at that height, what the chain's
        `log_proof` proves checks out, and the same receipt is among its.
        """
        return asked_of_all(self._nodes, lambda: self._proven_receipt(tx))

    def _proven_receipt(self, tx: TxHash) -> EvmReceipt | None:
        receipt = self.transaction_receipt(tx)
        if receipt is None:
            return None
        with self._node() as node:
            answer = node.call(*header_call(hex(receipt.height)))
            header = self._answers.header(answer, receipt.height)
            if header.block.hash != receipt.block_hash:
                raise InconsistentAnswer(
                    f"{self.chain}: the receipt of {tx} is of block {receipt.block_hash}, block"
                    f" {receipt.height} is {header.block.hash}"
                )
            among = [each for each in self._receipts(node, header) if each["transactionHash"] == tx]
        if [self._answers.receipt(each, tx) for each in among] != [receipt]:
            raise InconsistentAnswer(
                f"{self.chain}: the receipt of {tx} is not the one among its block's"
            )
        return receipt

    def logs_of_receipts(self, block: Block) -> tuple[EvmLog, ...]:
        """Every log of this very block, in order, out of all its receipts.

        Where the chain's `log_proof` is `receipts`, the block's hash proves them. Raises
        `NodeBehind` while no node has this block at its height.
        """
        return asked_of_all(self._nodes, lambda: self._logs_of_receipts(block))

    def _logs_of_receipts(self, block: Block) -> tuple[EvmLog, ...]:
        with self._node() as node:
            header = self._answers.header(node.call(*header_call(hex(block.height))), block.height)
            if header.block != block:
                raise NodeBehind(f"{node.host} has {header.block.hash} at {block.height}")
            receipts = self._receipts(node, header)
        return tuple(self._answers.logs_of_receipts(receipts, block))

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
        check_evm_node(node, self._chain)
        self._identified.add(node)

    def _block(self, asked: Height | str) -> Block:
        """One block by its height or tag."""

        def ask() -> Block:
            with self._node() as node:
                call = header_call(asked if isinstance(asked, str) else hex(asked))
                return self._answers.header(node.call(*call), asked).block

        return asked_of_all(self._nodes, ask)

    def _tags(self, node: JsonRpc) -> Finality | None:
        replies = node.batch([header_call("safe"), header_call("finalized")])
        if any(reply.has_no_such_tag for reply in replies):
            return None
        safe, final = (
            self._answers.header(reply.value(), tag).block
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
                block = self._answers.pushed(answer)
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
            return number(node.call("eth_blockNumber", []), "block number")

    # Blooms

    def _check_blooms(
        self,
        node: JsonRpc,
        headers: Sequence[EvmHeader],
        logs: Iterable[EvmLog],
        filters: Sequence[LogFilter],
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
            self._answers.check_in_bloom(header, here)
            if (header.is_sparse or len(headers) == 1) and any(
                each.may_be_in(header.bloom)
                and not any(each.wants(log.address, log.topics) for log in here)
                for each in filters
            ):
                self._check_complete(node, header, here, filters)

    def _check_complete(
        self, node: JsonRpc, header: EvmHeader, logs: Sequence[EvmLog], filters: Sequence[LogFilter]
    ) -> None:
        """Settle whether these are all logs of ours in the block: a bloom may say yes by chance.

        The block's receipts settle it. A node that does not offer `eth_getBlockReceipts`, or whose
        receipts have a type that we cannot encode, is asked for the block's logs once more, by its
        hash: that finds what the range's answer left out since the block was new, but not what the
        node's index of logs lacks, and blooms cannot be settled there. It is believed, with a
        warning once for each node.
        """
        height = header.block.height
        ours = {log.seen.position for log in logs}
        try:
            receipts = self._receipts(node, header)
        except (MethodNotFound, UnsupportedProtocol) as error:
            self._check_by_hash(node, header, ours, filters)
            if node not in self._without_receipts:
                self._without_receipts.add(node)
                logger.warning("blooms cannot be settled chain=%s: %s", self.chain, error)
            return
        for answer in receipts:
            for log in self._answers.receipt_logs(answer, f"receipts of block {height}"):
                wanted = any(each.wants(log.address, log.topics) for each in filters)
                if wanted and log.position not in ours:
                    raise InconsistentAnswer(
                        f"{self.chain}: block {height} has logs of {log.address} in its receipts"
                        " and bloom, the node's logs leave them out"
                    )

    def _check_by_hash(
        self, node: JsonRpc, header: EvmHeader, ours: set[int], filters: Sequence[LogFilter]
    ) -> None:
        """Raise `InconsistentAnswer` if the block's hash brings logs that its height did not."""
        replies = node.batch([each.query_of(header.block.hash) for each in filters])
        blocks = {header.block.height: header}
        for each, reply in zip(filters, replies, strict=True):
            answers = reply.value()
            if not isinstance(answers, list):
                raise InconsistentAnswer(f"{self.chain}: logs came as {type(answers).__name__}")
            for answer in answers:
                log = self._answers.log(answer, each, blocks)
                if log.seen.position not in ours:
                    raise InconsistentAnswer(
                        f"{self.chain}: block {header.block.height} has logs of {log.address} by"
                        " its hash and bloom, the node's logs by height leave them out"
                    )

    def _receipts(self, node: JsonRpc, header: EvmHeader) -> list[dict[str, Any]]:
        answers = node.call("eth_getBlockReceipts", [hex(header.block.height)])
        return self._answers.receipts(answers, header)
