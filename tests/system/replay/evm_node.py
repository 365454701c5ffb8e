"""An EVM node that knows recorded logs, and nothing of their blocks but numbers and hashes.

GENUINE: the logs, and the hash of a block where it was recorded with a log of it.
MADE UP: every other hash, so each parent, and every timestamp, which is 0. Blooms are left out.
Made-up hashes join from block to block as far as anyone asks; a genuine block's parent is made up.
"""

from collections.abc import Callable, Sequence
from typing import Any

from indexer.config.networks import EvmChain
from tests.system.replay.recordings import EvmRecord
from tests.system.replay.scaffolding import UNKNOWN_TIME, made_up_hash


class RecordedEvmNode:
    """Answers eth_chainId, eth_blockNumber, eth_getBlockByNumber and eth_getLogs from records."""

    def __init__(self, chain: EvmChain, records: Sequence[EvmRecord]) -> None:
        self._chain = chain
        self._records = sorted(records, key=lambda each: (each.height, each.log_index))
        self._hashes: dict[int, str | None] = {each.height: each.block_hash for each in records}
        self._head = max(each.height for each in records)
        self._methods: dict[str, Callable[..., Any]] = {
            "eth_chainId": lambda: hex(chain.number),
            "eth_blockNumber": lambda: hex(self._head),
            "eth_getBlockByNumber": self._block,
            "eth_getLogs": self._logs,
        }

    def call(self, method: str, params: list[Any]) -> Any:
        """The result of one call."""
        return self._methods[method](*params)

    def _block(self, name: str, _full: bool) -> dict[str, str] | None:
        height = self._head if name in ("latest", "safe", "finalized") else int(name, 16)
        if height > self._head:
            return None
        return {
            "number": hex(height),
            "hash": self._hash(height),
            "parentHash": self._hash(height - 1),
            "timestamp": hex(UNKNOWN_TIME),
        }

    def _logs(self, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        first, last = int(wanted["fromBlock"], 16), int(wanted["toBlock"], 16)
        return [
            self._rpc_log(record)
            for record in self._records
            if first <= record.height <= last
            and record.address in wanted["address"]
            and _matches(record, wanted["topics"])
        ]

    def _rpc_log(self, record: EvmRecord) -> dict[str, Any]:
        return {
            "address": record.address,
            "topics": list(record.topics),
            "data": record.data,
            "blockNumber": hex(record.height),
            "blockHash": self._hash(record.height),
            "transactionHash": record.tx_hash,
            "logIndex": hex(record.log_index),
            "removed": False,
        }

    def _hash(self, height: int) -> str:
        return self._hashes.get(height) or "0x" + made_up_hash(self._chain.id, height)


def _matches(record: EvmRecord, topics: list[Any]) -> bool:
    """Whether a log passes a topic filter: None is anything, a list is any of these."""
    return len(topics) <= len(record.topics) and all(
        wanted is None or topic in wanted
        for wanted, topic in zip(topics, record.topics, strict=False)
    )
