"""Checks of one Stellar RPC node, with the reader of the follower."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from indexer.chains.http.client import host_of
from indexer.chains.identity import check_stellar_node
from indexer.chains.raw import Block
from indexer.chains.stellar.node_version import check_software, upgrade_ahead
from indexer.chains.stellar.reader import LEDGERS_PER_CALL, StellarReader
from indexer.chains.stellar.rpc import StellarRpc, UnknownMethod, field
from indexer.chains.stellar.xdr.ledgers import NEWEST_PROTOCOL
from indexer.config.networks import StellarChain
from indexer.doctor.checks import CheckResult, DoctorContext
from indexer.doctor.node_checks import (
    ANSWERS,
    CHAIN_ID,
    HEALTHY,
    HISTORY,
    LOGS,
    PROTOCOL,
    REQUEST_SECONDS,
    VERSION,
    check_clock,
)
from indexer.errors import (
    ConfigurationError,
    IndexerError,
    WrongChain,
)
from warehouse_schema.identifiers import Height


@dataclass
class StellarNodeChecks:
    """One node; what the checks of the whole chain need is kept."""

    chain: StellarChain
    url: str
    start: Height
    """Next ledger that is read."""
    has_lake: bool
    """Ledgers that the node no longer has are read from a data lake."""
    head: Block | None = None
    """None until the node has proven to be of use."""

    @property
    def subject(self) -> str:
        """Chain and host."""
        return f"{self.chain.id} {host_of(self.url)}"

    def run(self, context: DoctorContext) -> Iterator[CheckResult]:
        """Every check of the node alone."""
        context.begin(ANSWERS.id, self.subject)
        with closing(StellarRpc(self.url, timeout=REQUEST_SECONDS)) as node:
            try:
                protocol = check_stellar_node(node, self.chain)
                health = node.call("getHealth", {})
                oldest = field({"oldestLedger": 1, **health}, "oldestLedger", int)
            except WrongChain as error:
                yield ANSWERS.ok(self.subject)
                yield CHAIN_ID.failed(self.subject, str(error))
                return
            except IndexerError as error:
                yield ANSWERS.failed(self.subject, str(error))
                return
            yield ANSWERS.ok(self.subject)
            yield CHAIN_ID.ok(self.subject, self.chain.passphrase)
            if health.get("status") != "healthy":
                yield HEALTHY.failed(self.subject, f"it says that it is {health.get('status')!r}")
                return
            yield HEALTHY.ok(self.subject)
            software = list(self._check_software(node, protocol))
        yield from software
        yield self._check_history(oldest)
        # With another finding about its software than an upgrade ahead, the reader asks it nothing.
        if protocol <= NEWEST_PROTOCOL and not any(
            result.is_finding and result.check == VERSION.id for result in software
        ):
            yield from self._check_ledgers(context, oldest)

    def block_hash(self, height: Height) -> str:
        """Hash of its ledger of a height. Raises the errors of `indexer.errors`."""
        with closing(self._reader()) as reader:
            return reader.block(height).hash

    def _reader(self) -> StellarReader:
        return StellarReader(self.chain, [self.url], timeout=REQUEST_SECONDS)

    def _check_software(self, node: StellarRpc, protocol: int) -> Iterator[CheckResult]:
        try:
            check_software(node, self.chain)
            ahead = upgrade_ahead(node)
            yield VERSION.ok(self.subject)
        except ConfigurationError as error:
            ahead = None
            yield VERSION.failed(self.subject, str(error))
        except UnknownMethod:
            # A proxy may hide the method; the follower accepts that too.
            ahead = None
            yield VERSION.ok(self.subject, "the node does not tell its version")
        except IndexerError as error:
            ahead = None
            yield VERSION.failed(self.subject, str(error), ANSWERS.fix)
        if protocol > NEWEST_PROTOCOL:
            problem = f"it runs protocol {protocol}; this build reads up to {NEWEST_PROTOCOL}"
            yield PROTOCOL.failed(self.subject, problem)
        elif ahead is not None:
            yield PROTOCOL.failed(self.subject, ahead.detail)
        else:
            yield PROTOCOL.ok(self.subject, f"runs protocol {protocol}")

    def _check_history(self, oldest: int) -> CheckResult:
        if oldest <= self.start:
            return HISTORY.ok(self.subject, f"has ledger {self.start}; its oldest is {oldest}")
        if self.has_lake:
            return HISTORY.ok(self.subject, f"its oldest is {oldest}; older ones are in the lake")
        problem = f"ledger {self.start} is gone: its oldest is {oldest}"
        return HISTORY.failed(self.subject, problem)

    def _check_ledgers(self, context: DoctorContext, oldest: int) -> Iterator[CheckResult]:
        """The newest ledgers and their events, as the follower reads them."""
        context.begin(LOGS.id, self.subject)
        with closing(self._reader()) as reader:
            try:
                head = reader.head()
                first = Height(max(oldest, head.height - LEDGERS_PER_CALL + 1))
                reader.read(first, head.height, ())
            except IndexerError as error:
                yield LOGS.failed(self.subject, str(error), ANSWERS.fix)
                return
            else:
                yield LOGS.ok(self.subject, f"ledgers {first} to {head.height}")
        self.head = head
        yield check_clock(self.chain, self.subject, head)
