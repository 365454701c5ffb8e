"""Checks of one node of an EVM chain, with the reader of the follower."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from indexer.chains.evm.heads import HeadsLost, HeadSubscription
from indexer.chains.evm.reader import EvmReader
from indexer.chains.http.client import NodeTimeout, host_of
from indexer.chains.raw import Block
from indexer.config.networks import EvmChain
from indexer.decode.evm import event_topics
from indexer.doctor.checks import CheckResult, DoctorContext
from indexer.doctor.node_checks import (
    ANSWERS,
    CHAIN_ID,
    FINALITY,
    HISTORY,
    LOGS,
    REQUEST_SECONDS,
    WEB_SOCKET,
    check_clock,
)
from indexer.errors import IndexerError, RangeTooWide, WrongChain
from indexer.ingest.ranges import MAX_BLOCKS
from warehouse_schema.identifiers import Height


@dataclass
class EvmNodeChecks:
    """One node; what the checks of the whole chain need is kept."""

    chain: EvmChain
    url: str
    start: Height
    """Next block that is read."""
    head: Block | None = None
    """None until the node has proven to be of use."""
    has_tags: bool | None = None
    """None until it is known."""

    @property
    def subject(self) -> str:
        """Chain and host."""
        return f"{self.chain.id} {host_of(self.url)}"

    def run(self, context: DoctorContext) -> Iterator[CheckResult]:
        """Every check of the node alone."""
        context.begin(ANSWERS.id, self.subject)
        with closing(self._reader()) as reader:
            try:
                reader.check_identity()
                head = reader.head()
                tags = reader.finality()
            except WrongChain as error:
                yield ANSWERS.ok(self.subject)
                yield CHAIN_ID.failed(self.subject, str(error))
                return
            except IndexerError as error:
                yield ANSWERS.failed(self.subject, str(error))
                return
            self.head, self.has_tags = head, tags is not None
            yield ANSWERS.ok(self.subject)
            yield CHAIN_ID.ok(self.subject, self.chain.id)
            yield check_clock(self.chain, self.subject, head)
            if head.height >= self.chain.first_height:
                context.begin(LOGS.id, self.subject)
                logs, can_read = self._check_logs(reader, head)
                yield logs
                if can_read:
                    context.begin(HISTORY.id, self.subject)
                    # A follower that has caught up has read the newest block.
                    yield self._check_history(reader, min(self.start, head.height))

    def block_hash(self, height: Height) -> str:
        """Hash of its block at a height. Raises the errors of `indexer.errors`."""
        with closing(self._reader()) as reader:
            return reader.block(height).hash

    def _reader(self) -> EvmReader:
        return EvmReader(self.chain, [self.url], event_topics, timeout=REQUEST_SECONDS)

    def _check_logs(self, reader: EvmReader, head: Block) -> tuple[CheckResult, bool]:
        """The follower's widest request, and whether any width works."""
        widest = blocks = min(MAX_BLOCKS, head.height - self.chain.first_height + 1)
        refusal: IndexerError | None = None
        while True:
            first = Height(head.height - blocks + 1)
            try:
                reader.read(first, head.height, ())
                break
            except (RangeTooWide, NodeTimeout) as error:
                if blocks == 1:
                    return LOGS.failed(self.subject, f"logs of one block: {error}"), False
                blocks, refusal = blocks // 2, error
            except IndexerError as error:
                return LOGS.failed(self.subject, f"blocks {first} to {head.height}: {error}"), False
        if refusal is None:
            return LOGS.ok(self.subject, f"{blocks} blocks at once"), True
        problem = f"{refusal}; {blocks} blocks at once work, the follower asks for {widest}"
        return LOGS.failed(self.subject, problem), True

    def _check_history(self, reader: EvmReader, height: Height) -> CheckResult:
        try:
            reader.read(height, height, ())
        except IndexerError as error:
            return HISTORY.failed(self.subject, f"block {height} cannot be read: {error}")
        return HISTORY.ok(self.subject, f"has block {height}")


def check_tags(nodes: list[EvmNodeChecks]) -> Iterator[CheckResult]:
    """Finality of a chain's nodes: all by tags, or all by depth."""
    known = [node for node in nodes if node.has_tags is not None]
    have_tags = any(node.has_tags for node in known)
    for node in known:
        if node.has_tags:
            yield FINALITY.ok(node.subject, "by its tags")
        elif have_tags:
            yield FINALITY.failed(node.subject, "it does not know `safe` and `finalized` blocks")
        else:
            depth = f"no tags; final after {node.chain.confirmations} blocks"
            yield FINALITY.ok(node.subject, depth)


def check_web_socket(context: DoctorContext, chain: EvmChain, url: str) -> CheckResult:
    """Whether a `ws(s)` URL takes a subscription."""
    subject = f"{chain.id} {host_of(url)}"
    context.begin(WEB_SOCKET.id, subject)
    with closing(HeadSubscription(url)) as subscription:
        try:
            subscription.open()
        except HeadsLost as error:
            return WEB_SOCKET.failed(subject, str(error))
    return WEB_SOCKET.ok(subject)
