"""A node of a chain that has events of ours in each block, made as they are asked for.

    python -m tests.system.engine.node ADDRESS PORT BLOCKS

The logs are those of `tests.system.bench.log_chain`, one movement a block; a mined chain of so many
blocks would take hours. Blooms are empty, which readers take for a node without blooms.
"""

import sys
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

import orjson

from devnet.local_server import Handler, Server
from indexer.chains.evm.abi import topic_of
from indexer.config.networks import EvmChain, load_network
from tests.system.bench.log_chain import LOGS_OF_FIVE, traffic, word

PORT = 8545
GENESIS = 1_735_689_600
"""2025-01-01."""
BLOCK_SECONDS = 60
_CACHED_BLOCKS = 8_192
_BLOOM = "0x" + "00" * 256


def events_of(blocks: int) -> int:
    """Logs in blocks 1 … `blocks`, a multiple of five."""
    return blocks * LOGS_OF_FIVE // 5


def _hash(kind: str, height: int) -> str:
    return "0x" + sha256(f"{kind}/{height}".encode()).hexdigest()


class GeneratedNode:
    """Answers what readers of history ask."""

    def __init__(self, chain: EvmChain, top: int) -> None:
        self._chain = chain
        self._top = top
        self._logs = lru_cache(_CACHED_BLOCKS)(self._logs_of)

    def call(self, method: str, params: Any) -> Any:
        """The result of one call; None for an unknown block or method."""
        match method, params:
            case "eth_chainId", _:
                return hex(int(self._chain.id.partition(":")[2]))
            case "eth_getBlockByNumber", [str(number), _] if number.startswith("0x"):
                return self._header(int(number, 16))
            case "eth_getBlockByNumber", _:
                return self._header(self._top)
            case "eth_getLogs", [wanted]:
                return self._found(wanted)
        return None

    def _header(self, height: int) -> Any:
        if height > self._top:
            return None
        return {
            "number": hex(height),
            "hash": _hash("block", height),
            "parentHash": _hash("block", height - 1),
            "timestamp": hex(GENESIS + height * BLOCK_SECONDS),
            "logsBloom": _BLOOM,
            "transactions": [_hash("tx", height)],
        }

    def _logs_of(self, height: int) -> list[dict[str, Any]]:
        return [
            {
                "address": log.emitter.lower(),
                "topics": [
                    topic_of(log.signature),
                    *("0x" + word(each).hex() for each in log.indexed),
                ],
                "data": "0x" + log.data.hex(),
                "blockNumber": hex(height),
                "blockHash": _hash("block", height),
                "transactionHash": _hash("tx", height),
                "transactionIndex": "0x0",
                "logIndex": hex(index),
                "removed": False,
            }
            for index, log in enumerate(traffic(self._chain, height))
        ]

    def _found(self, wanted: Any) -> list[dict[str, Any]]:
        first, last = int(wanted["fromBlock"], 16), int(wanted["toBlock"], 16)
        address = wanted["address"]
        addresses = {each.lower() for each in ([address] if isinstance(address, str) else address)}
        topics: list[Any] = [
            each if each is None else set([each] if isinstance(each, str) else each)
            for each in wanted["topics"]
        ]
        return [
            log
            for height in range(max(first, 1), min(last, self._top) + 1)
            for log in self._logs(height)
            if log["address"] in addresses
            and all(
                among is None or (place < len(log["topics"]) and log["topics"][place] in among)
                for place, among in enumerate(topics)
            )
        ]


def main(arguments: Sequence[str]) -> None:
    """Serve until killed."""
    address, port, blocks = arguments
    (chain,) = load_network("devnet").evm
    node = GeneratedNode(chain, int(blocks))

    def answered(request: Any) -> Any:
        if isinstance(request, list):
            return [answered(each) for each in request]
        result = node.call(request["method"], request.get("params", []))
        return {"jsonrpc": "2.0", "id": request["id"], "result": result}

    class RequestHandler(Handler):
        def do_POST(self) -> None:
            self.answer(200, orjson.dumps(answered(orjson.loads(self.body()))))

    with Server((address, int(port)), RequestHandler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
