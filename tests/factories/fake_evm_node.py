"""A `FakeChain` behind JSON-RPC, for readers that ask a node."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from indexer.chains.evm.blooms import bloom_of
from indexer.chains.raw import Block, EvmLog
from tests.factories.fake_chain import FakeChain
from tests.system.replay.serving import Refused
from warehouse_schema.identifiers import evm_chain_number


@dataclass
class FakeEvmNode:
    """Answers what readers ask; served by `tests.system.replay.serving`."""

    chain: FakeChain
    most_logs: int = 10_000
    """Of one answer; more are refused."""
    ranges: list[tuple[int, int]] = field(default_factory=list)
    """Of the logs that were asked for."""

    def call(self, method: str, params: Any) -> Any:
        """The result of one call. Raises `Refused`."""
        match method, params:
            case "eth_chainId", []:
                return hex(evm_chain_number(self.chain.chain))
            case "eth_blockNumber", []:
                return hex(len(self.chain.blocks) - 1)
            case "eth_getBlockByNumber", ["safe" | "finalized", _]:
                raise Refused(-32602, "unknown tag")
            case "eth_getBlockByNumber", [str(number), _]:
                return self._header(
                    len(self.chain.blocks) - 1 if number == "latest" else int(number, 16)
                )
            case "eth_getLogs", [wanted]:
                return self._logs(wanted)
        raise Refused(-32601, f"no method {method}")

    def _header(self, height: int) -> Any:
        if height >= len(self.chain.blocks):
            return None
        block = self.chain.blocks[height]
        logs = self.chain.logs[block.hash]
        bloom = bloom_of(item for log in logs for item in (log.address, *log.topics))
        return {
            "number": hex(height),
            "hash": block.hash,
            "parentHash": block.parent_hash,
            "timestamp": hex(block.time),
            "logsBloom": f"0x{bloom:0512x}",
            "transactions": [log.seen.tx_hash for log in logs],
        }

    def _logs(self, wanted: Any) -> list[dict[str, Any]]:
        found = [
            self._log(block, index, log)
            for block in self._blocks(wanted)
            for index, log in enumerate(self.chain.logs[block.hash])
            if log.address in wanted["address"] and _passes(log.topics, wanted["topics"])
        ]
        if len(found) > self.most_logs:
            raise Refused(-32005, f"query returned more than {self.most_logs} results")
        return found

    def _blocks(self, wanted: Any) -> list[Block]:
        if "blockHash" in wanted:
            return [each for each in self.chain.blocks if each.hash == wanted["blockHash"]]
        first, last = int(wanted["fromBlock"], 16), int(wanted["toBlock"], 16)
        self.ranges.append((first, last))
        return self.chain.blocks[first : last + 1]

    def _log(self, block: Block, index: int, log: EvmLog) -> dict[str, Any]:
        return {
            "address": log.address,
            "topics": list(log.topics),
            "data": "0x" + log.data.hex(),
            "blockNumber": hex(block.height),
            "blockHash": block.hash,
            "transactionHash": log.seen.tx_hash,
            "transactionIndex": hex(index),
            "logIndex": hex(log.seen.position),
            "removed": False,
        }


def _passes(topics: Sequence[str], wanted: Sequence[Sequence[str] | None]) -> bool:
    """Whether a log's topics are among those wanted in each place; None wants any."""
    return all(
        among is None or (topics[place : place + 1] and topics[place] in among)
        for place, among in enumerate(wanted)
    )
