"""Proves the blocks that a deposit or a delivery of a transfer rests on.

The follower of a chain does it after each range, outside of any transaction of facts: the head does
not wait for it, the transfer does. Until then its stage is what it would be without the block.
"""

import logging
import time
from dataclasses import dataclass, field
from typing import Self

from sqlalchemy import Connection

from indexer.chains.evm import EvmReader
from indexer.chains.log_proofs import LogProver
from indexer.chains.ports import ChainReader
from indexer.errors import ConfigurationError, PermanentChainError, RetryableChainError
from indexer.events.raw import Block, EvmLog
from indexer.facts import proofs, store
from indexer.facts.rows import EVENT_SHELVES
from indexer.networks import Network
from indexer.projections.stages.store import refold_touched
from indexer.projections.transfer_store import touched_movements
from warehouse_schema.identifiers import BlockHash

logger = logging.getLogger(__name__)

_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 60.0
"""Seconds before a block is tried again; twice as long each time."""
_TRIES_BEFORE_ALARM = 6
"""A second operator is often a block or two behind: some 8 s of that is no news."""


@dataclass(slots=True)
class _Tries:
    failed: int = 0
    not_before: float = 0.0


@dataclass(slots=True)
class Proving:
    """The proofs of one chain. For the thread of its follower."""

    prover: LogProver
    network: Network
    _tries: dict[BlockHash, _Tries] = field(default_factory=dict)

    @classmethod
    def beside(cls, reader: ChainReader, network: Network) -> Self | None:
        """With the nodes of a reader; None where one node is believed, or nothing needs a proof."""
        if not isinstance(reader, EvmReader) or reader.config.log_proof == "none":
            return None
        return cls(LogProver.beside(reader), network)

    def prove_wanted(self, conn: Connection) -> None:
        """Try each wanted block whose time has come. A block that cannot be proven is alarmed."""
        with conn.begin():
            wanted = proofs.wanted_blocks(conn, self.prover.chain)
        self._tries = {each.hash: self._tries.get(each.hash, _Tries()) for each in wanted}
        for block in wanted:
            if time.monotonic() >= self._tries[block.hash].not_before:
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
            self._note_failure(conn, block, str(error))
            return
        if missing:
            places = ", ".join(f"log {log.seen.position} of {log.address}" for log in missing)
            self._alarm(conn, block, f"block {block.height} does not hold what is stored: {places}")
            self._pause(block)
            return
        with conn.begin():
            events = list(
                store.read_events(conn, EVENT_SHELVES, block.chain, block.height, block.height)
            )
            burn_keys, guids = touched_movements(events)
            proofs.note_proven(conn, block)
            store.clear_alarm(conn, block.chain, proofs.ALARM, block.hash)
            refold_touched(conn, self.network, events, burn_keys | guids)
        logger.info("proven chain=%s height=%d logs=%d", block.chain, block.height, len(logs))

    def _note_failure(self, conn: Connection, block: Block, reason: str) -> None:
        logger.warning("not proven chain=%s height=%d: %s", block.chain, block.height, reason)
        if self._pause(block) == _TRIES_BEFORE_ALARM:
            self._alarm(conn, block, f"block {block.height} cannot be proven: {reason}")

    def _pause(self, block: Block) -> int:
        """Let a block rest, twice as long each time; how often it failed."""
        tries = self._tries[block.hash]
        seconds = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**tries.failed)
        tries.not_before = time.monotonic() + seconds
        tries.failed += 1
        return tries.failed

    def _alarm(self, conn: Connection, block: Block, detail: str) -> None:
        with conn.begin():
            store.raise_alarm(conn, block.chain, proofs.ALARM, block.hash, detail)
