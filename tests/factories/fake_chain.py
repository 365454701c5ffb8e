"""An EVM chain in memory, read through the port that `drain` reads real nodes by.

It grows, reorganises and fails on command. Its logs are OFT sends of Ethereum's adapter, encoded
as the chain encodes them, so that they pass the real decoders.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from indexer.chains.events import Provenance
from indexer.chains.ports import Block, EvmLog, Range
from indexer.chains.watchlist import Watched
from indexer.config.networks import EvmChain, LogProof, Network, load_network
from indexer.errors import NodeBehind, RangeTooWide
from warehouse_schema.identifiers import (
    BlockHash,
    Bytes32,
    ChainId,
    Height,
    TxHash,
    UnixSeconds,
)

ETHEREUM = ChainId("eip155:1")
GENESIS_TIME = 1_700_000_000
PACKET_SENT = "0x" + keccak(b"PacketSent(bytes,bytes,address)").hex()
OFT_RECEIVED = "0x" + keccak(b"OFTReceived(bytes32,uint32,address,uint256)").hex()
OFT_SENT = "0x" + keccak(b"OFTSent(bytes32,uint32,address,uint256,uint256)").hex()


def fake_network(
    *, confirmations: int = 8, start_height: int = 1, log_proof: LogProof = "none"
) -> Network:
    """Mainnet with a short Ethereum. No `log_proof` by hashes: those of the chain are made up."""
    network = load_network("mainnet")
    (ethereum,) = (chain for chain in network.evm if chain.id == ETHEREUM)
    short = replace(
        ethereum,
        confirmations=confirmations,
        start_height=Height(start_height),
        log_proof=log_proof,
    )
    return replace(network, evm=(short,))


def guid_of(number: int, fork: str = "") -> Bytes32:
    """The guid of the n-th send on a fork."""
    return Bytes32("0x" + keccak(f"guid {fork} {number}".encode()).hex())


@dataclass
class FakeChain:
    """A `ChainReader` over blocks in memory. Block 0 exists and holds nothing."""

    network: Network
    max_range: int = 10_000
    before_read: Callable[[Height, Height], None] = lambda first, last: None
    """Called at the start of each read: raise from it to make the node fail."""
    blocks: list[Block] = field(default_factory=list)
    logs: dict[BlockHash, list[EvmLog]] = field(default_factory=dict)
    chain: ChainId = ETHEREUM
    block_seconds: int = 12

    def __post_init__(self) -> None:
        self._append("main", [])

    @property
    def _config(self) -> EvmChain:
        (chain,) = self.network.evm
        return chain

    def grow(self, count: int, *, sends: int = 1, fork: str = "main") -> None:
        """Mine blocks, each with so many OFT sends."""
        for _ in range(count):
            height = len(self.blocks)
            guids = [guid_of(height * 100 + index, fork) for index in range(sends)]
            self._append(fork, guids)

    def mine(self, guids: Sequence[Bytes32], *, fork: str = "main") -> None:
        """Mine one block with exactly these sends."""
        self._append(fork, guids)

    def drop(self, count: int) -> None:
        """Take the newest blocks back."""
        del self.blocks[-count:]

    def spoil(self, height: int) -> None:
        """Cut the data of the first log of a block short, so that it no longer decodes."""
        logs = self.logs[self.blocks[height].hash]
        logs[0] = replace(logs[0], data=logs[0].data[:-1])

    def deliver(self, *heights: int) -> None:
        """Add the deliveries of these blocks' sends to them: no send there is alone."""
        for height in heights:
            logs = self.logs[self.blocks[height].hash]
            for sent in list(logs):
                at = self._send(self.blocks[height], len(logs), Bytes32(sent.topics[1]))
                words = (word.to_bytes(32, "big") for word in (30600, 5_000_000))
                topics = (OFT_RECEIVED, *at.topics[1:])
                logs.append(replace(at, topics=topics, data=b"".join(words)))

    def overhear(self, height: int) -> None:
        """Add packets of another application to a block, at the endpoint that it shares with us.

        One is as small as a header, which no decoder by columns decides.
        """
        assert self._config.lz_endpoint is not None
        logs = self.logs[self.blocks[height].hash]
        for size in (160, 81):
            packet = encode(["bytes", "bytes", "address"], [b"\x07" * size, b"", "0x" + "5e" * 20])
            plain = self._send(self.blocks[height], len(logs), guid_of(0))
            logs.append(
                replace(plain, address=self._config.lz_endpoint, topics=(PACKET_SENT,), data=packet)
            )

    def _append(self, fork: str, guids: Sequence[Bytes32]) -> None:
        height = len(self.blocks)
        parent = self.blocks[-1].hash if self.blocks else BlockHash("0x" + "00" * 32)
        digest = keccak(f"{fork} {height} {parent}".encode()).hex()
        block = Block(
            chain=self.chain,
            height=Height(height),
            hash=BlockHash("0x" + digest),
            parent_hash=parent,
            time=UnixSeconds(GENESIS_TIME + self.block_seconds * height),
        )
        self.blocks.append(block)
        self.logs[block.hash] = [self._send(block, i, guid) for i, guid in enumerate(guids)]

    def _send(self, block: Block, index: int, guid: Bytes32) -> EvmLog:
        assert self._config.oft is not None
        return EvmLog(
            seen=Provenance(
                chain=self.chain,
                height=block.height,
                block_hash=block.hash,
                tx_hash=TxHash("0x" + keccak(f"tx {block.hash} {index}".encode()).hex()),
                position=index,
                block_time=block.time,
            ),
            address=self._config.oft,
            topics=(OFT_SENT, guid, "0x" + "00" * 12 + "5e" * 20),
            data=b"".join(word.to_bytes(32, "big") for word in (30600, 5_000_000, 5_000_000)),
        )

    # The port.

    def check_identity(self) -> None:
        """Always the right chain."""

    def head(self) -> Block:
        """The newest block."""
        return self.blocks[-1]

    def block(self, height: Height) -> Block:
        """A block of the current chain."""
        if height >= len(self.blocks):
            raise NodeBehind(f"no block {height}")
        return self.blocks[height]

    def read(self, first: Height, last: Height, watched: Watched) -> Range:
        """Blocks and logs of a range."""
        self.before_read(first, last)
        if last - first + 1 > self.max_range:
            raise RangeTooWide(f"{last - first + 1} blocks; at most {self.max_range}")
        blocks = tuple(self.block(Height(height)) for height in range(first, last + 1))
        return Range(blocks, tuple(log for block in blocks for log in self.logs[block.hash]))

    def wait_for_head(self, above: Height, timeout: float) -> Block | None:
        """The head, if it is above; never waits."""
        return self.head() if self.head().height > above else None

    def close(self) -> None:
        """Nothing to let go of."""
