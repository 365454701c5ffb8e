"""Proves the blocks that a deposit or a delivery of a transfer rests on.

The follower of a chain does it after each range, outside of any transaction of facts: the head does
not wait for it, the transfer does. Until then its stage is what it would be without the block.
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
from indexer.movements.store import affected_movements
from indexer.transfers.store import refold_affected
from warehouse_schema.identifiers import BlockHash

logger = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 60.0
"""Seconds before a block, or the nodes, are tried again; twice as long each time."""
_TRIES_BEFORE_ALARM = 6
"""A second operator is often a block or two behind: some 8 s of that is no news."""
_TURN_SECONDS = 1.0
"""No further proof begins in a turn after this: the next range waits for it."""
_REMEMBERED_SECONDS = 600.0
"""A block that was not tried for so long is forgotten: a reorganisation may have removed it."""


@dataclass(slots=True)
class _Pause:
    failed: int = 0
    until: float = 0.0

    def begin(self) -> None:
        """Pause for twice as long as the last time."""
        # The exponent is bounded, or a float overflows after some 1,000 failures.
        seconds = _FIRST_PAUSE * 2 ** min(self.failed, 16)
        self.until = time.monotonic() + min(_LONGEST_PAUSE, seconds)
        self.failed += 1

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.until


@dataclass(slots=True)
class BlockProver:
    """The proofs of one chain. For the thread of its follower.

    A failure of the nodes ends a turn and pauses all proofs: nodes that do not answer delay the
    next range by one request's timeout at most (of each operator, where two are needed).
    """

    prover: LogProver
    network: Network
    _nodes: _Pause = field(default_factory=_Pause)
    _blocks: dict[BlockHash, _Pause] = field(default_factory=dict)

    @classmethod
    def beside(cls, reader: ChainReader, network: Network) -> Self | None:
        """With the nodes of a reader; None where one node is believed, or nothing needs a proof."""
        if not isinstance(reader, EvmReader) or reader.config.log_proof == "none":
            return None
        return cls(LogProver.for_reader(reader), network)

    def prove_wanted(self, conn: Connection) -> None:
        """Prove wanted blocks for a second. A block that cannot be proven is alarmed."""
        deadline = time.monotonic() + _TURN_SECONDS
        while self._nodes.is_over and time.monotonic() < deadline:
            paused = [block for block, pause in self._blocks.items() if not pause.is_over]
            with conn.begin():
                block = proofs.next_requested_block(conn, self.prover.chain, paused)
            if block is None:
                return
            self._prove(conn, block)

    def close(self) -> None:
        """Let go of every connection."""
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
            self._note_failure(conn, block, str(error))
            return
        self._nodes = _Pause()
        if missing:
            places = ", ".join(f"log {log.seen.position} of {log.address}" for log in missing)
            self._alarm(conn, block, f"block {block.height} does not hold what is stored: {places}")
            self._pause(block)
            return
        with conn.begin():
            events = list(
                store.read_events(conn, EVENT_MAPPINGS, block.chain, block.height, block.height)
            )
            burn_keys, guids = affected_movements(events)
            proofs.record_proven(conn, block)
            clear_alarm(conn, block.chain, proofs.ALARM, block.hash)
            refold_affected(conn, self.network, events, burn_keys | guids)
        self._blocks.pop(block.hash, None)
        logger.info("proven chain=%s height=%d logs=%d", block.chain, block.height, len(logs))

    def _note_failure(self, conn: Connection, block: Block, reason: str) -> None:
        logger.warning("not proven chain=%s height=%d: %s", block.chain, block.height, reason)
        if self._pause(block) == _TRIES_BEFORE_ALARM:
            self._alarm(conn, block, f"block {block.height} cannot be proven: {reason}")

    def _pause(self, block: Block) -> int:
        """Pause a block's proof. Returns how often it failed."""
        old = time.monotonic() - _REMEMBERED_SECONDS
        self._blocks = {key: pause for key, pause in self._blocks.items() if pause.until > old}
        pause = self._blocks.setdefault(block.hash, _Pause())
        pause.begin()
        return pause.failed

    def _alarm(self, conn: Connection, block: Block, detail: str) -> None:
        with conn.begin():
            raise_alarm(conn, block.chain, proofs.ALARM, block.hash, detail)
