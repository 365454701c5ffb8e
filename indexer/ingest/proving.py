"""Proofs of the blocks that a deposit or a delivery of a transfer depends on.

A chain's follower proves blocks after each range, outside the transaction of facts: the head does
not wait for a proof, the transfer does.
"""

import logging
import time
from dataclasses import dataclass, field
from typing import Self

from sqlalchemy import Connection

from indexer.chains.evm.log_proofs import LogProver
from indexer.chains.evm.reader import EvmReader
from indexer.chains.ports import ChainReader
from indexer.chains.raw import Block, EvmLog
from indexer.config.networks import Network
from indexer.errors import ConfigurationError, PermanentChainError, RetryableChainError
from indexer.facts import proofs, store
from indexer.facts.alarms import clear_alarm, raise_alarm
from indexer.facts.rows import EVENT_MAPPINGS
from indexer.facts.sessions import reading
from indexer.movements.mechanisms import affected_movements
from indexer.tracing import Attributes, transfer_changes
from indexer.transfers.store import refold_affected
from warehouse_schema.identifiers import BlockHash

logger = logging.getLogger(__name__)

_FIRST_BACKOFF, _MAX_BACKOFF = 0.25, 60.0
"""Seconds before a retry of a block, or of the nodes; doubled each time."""
_FAILURES_BEFORE_ALARM = 6
"""Some 8 s of failures: a second operator is often a block or two behind."""
_BUDGET_SECONDS = 1.0
"""No further proof begins after this, because the next range waits."""
_FORGET_SECONDS = 600.0
"""A block that was not tried for so long is forgotten: a reorg may have removed it."""


@dataclass(slots=True)
class _Backoff:
    failed: int = 0
    until: float = 0.0

    def begin(self) -> None:
        """Back off for twice as long as the last time."""
        # The exponent is bounded: a float overflows after some 1,000 failures.
        seconds = _FIRST_BACKOFF * 2 ** min(self.failed, 16)
        self.until = time.monotonic() + min(_MAX_BACKOFF, seconds)
        self.failed += 1

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.until


@dataclass(slots=True)
class BlockProver:
    """Proves blocks of one chain, in the thread of its follower.

    A failing node ends the round and pauses all proofs, so it delays the next range by at most one
    request's timeout (of each operator, where two are needed).
    """

    prover: LogProver
    network: Network
    _nodes: _Backoff = field(default_factory=_Backoff)
    _blocks: dict[BlockHash, _Backoff] = field(default_factory=dict)

    @classmethod
    def for_reader(cls, reader: ChainReader, network: Network) -> Self | None:
        """With the reader's nodes; None where one node is trusted or nothing needs a proof."""
        if not isinstance(reader, EvmReader) or reader.config.log_proof == "none":
            return None
        return cls(LogProver(reader), network)

    def prove_requested(self, conn: Connection) -> None:
        """Prove requested blocks for a second. A block that cannot be proven is alarmed."""
        deadline = time.monotonic() + _BUDGET_SECONDS
        while self._nodes.is_over and time.monotonic() < deadline:
            paused = [block for block, backoff in self._blocks.items() if not backoff.is_over]
            with reading(conn):
                block = proofs.next_requested_block(conn, self.prover.chain, paused)
            if block is None:
                return
            self._prove(conn, block)

    def close(self) -> None:
        """Close the prover's connections."""
        self.prover.close()

    def _prove(self, conn: Connection, block: Block) -> None:
        with conn.begin():
            logs = [
                event
                for event in store.read_raw(conn, block.chain, block.height, block.height)
                if isinstance(event, EvmLog) and event.seen.block_hash == block.hash
            ]
        try:
            missing = self.prover.missing(block, logs)
        except (RetryableChainError, PermanentChainError, ConfigurationError) as error:
            if isinstance(error, RetryableChainError):
                self._nodes.begin()
            logger.warning("not proven chain=%s height=%d: %s", block.chain, block.height, error)
            if self._back_off(block) == _FAILURES_BEFORE_ALARM:
                self._alarm(conn, block, f"block {block.height} cannot be proven: {error}")
            return
        self._nodes = _Backoff()
        if missing:
            places = ", ".join(f"log {log.seen.position} of {log.address}" for log in missing)
            self._alarm(conn, block, f"block {block.height} does not hold what is stored: {places}")
            self._back_off(block)
            return
        span: Attributes = {"chain": block.chain, "height": block.height}
        with transfer_changes("follower proof", span), conn.begin():
            events = list(
                store.read_events(conn, EVENT_MAPPINGS, block.chain, block.height, block.height)
            )
            proofs.record_proven(conn, block)
            clear_alarm(conn, block.chain, proofs.ALARM, block.hash)
            refold_affected(conn, self.network, events, affected_movements(events))
        self._blocks.pop(block.hash, None)
        logger.info("proven chain=%s height=%d logs=%d", block.chain, block.height, len(logs))

    def _back_off(self, block: Block) -> int:
        """Back off from a block. Returns its number of failures."""
        oldest = time.monotonic() - _FORGET_SECONDS
        self._blocks = {key: each for key, each in self._blocks.items() if each.until > oldest}
        backoff = self._blocks.setdefault(block.hash, _Backoff())
        backoff.begin()
        return backoff.failed

    def _alarm(self, conn: Connection, block: Block, detail: str) -> None:
        with conn.begin():
            raise_alarm(conn, block.chain, proofs.ALARM, block.hash, detail)
