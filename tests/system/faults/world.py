"""A real node with a story to tell, a follower that reads it through faults, and a straight run.

Contracts are one piece of code that emits whatever it is called with, put at the addresses of the
chain's configuration: the logs are a real node's, the topics are the real contracts'.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eth_utils.crypto import keccak
from sqlalchemy import Engine, Table, select

from devnet.evm_node import AnvilProcess
from indexer.chains.evm.abi import TRANSFER_TOPIC, topic_of
from indexer.chains.evm.jsonrpc import JsonRpc
from indexer.chains.evm.reader import EvmReader
from indexer.config.networks import EvmChain, Network, load_network
from indexer.decode.evm import event_topics
from indexer.facts.checks import block_faults
from indexer.ingest.follow import follow
from indexer.ingest.ranges import RangeProgress
from indexer.ingest.rebuild import differences
from tests.factories.ingesting import ingest_once
from tests.indexer.chains.evm import chain as evm_chain
from tests.indexer.chains.evm.chain import BYSTANDER, PAYER, UNWATCHED, WATCHED, address
from tests.system.faults.proxy import FaultyNode
from warehouse_schema.events import EVENT_TABLES
from warehouse_schema.facts import blocks, cursors, evm_logs
from warehouse_schema.identifiers import Height
from warehouse_schema.projections import movements

EMITTER = "0x606036036060600037604035602035600035606036036000a300"
"""LOG3 of calldata words 0 to 2, the rest as data."""

OFT_SENT = topic_of("OFTSent(bytes32,uint32,address,uint256,uint256)")
ALERT = topic_of(
    "LzReceiveAlert(address,address,(uint32,bytes32,uint64),bytes32,uint256,uint256,bytes,bytes"
    ",bytes)"
)
APPROVAL = topic_of("Approval(address,address,uint256)")
TIMEOUT = 60.0
"""Seconds until a follower that gets nowhere fails its test."""

CHAIN = replace(evm_chain.CHAIN, confirmations=8, watched=(WATCHED,))
MARKER = address(0x2002)


def network_of(chain: EvmChain) -> Network:
    """Mainnet with this as its only EVM chain."""
    return replace(load_network("mainnet"), evm=(chain,))


def word(value: int | str) -> str:
    digits = f"{value:x}" if isinstance(value, int) else value.removeprefix("0x")
    return digits.rjust(64, "0")


@dataclass(frozen=True)
class Emission:
    """A transaction with one log."""

    contract: str
    topics: tuple[str, str, str]
    data: tuple[int | str, ...]

    def call(self, sender: str, **fields: str) -> dict[str, str]:
        words = "".join(word(each) for each in (*self.topics, *self.data))
        to = {"from": sender, "to": self.contract, "data": "0x" + words}
        return {**to, "gas": hex(100_000), **fields}


def transfer(amount: int, recipient: str = WATCHED) -> Emission:
    """USDC to somebody; kept when it is the watched one."""
    return Emission(str(CHAIN.usdc), (TRANSFER_TOPIC, PAYER, recipient), (amount,))


def oft_send(number: int, amount: int = 5_000_000) -> Emission:
    """A movement towards Stellar."""
    guid = "0x" + keccak(f"guid {number}".encode()).hex()
    return Emission(str(CHAIN.oft), (OFT_SENT, guid, PAYER), (30600, amount, amount))


def approval(amount: int) -> Emission:
    """Of no interest, by a contract of interest."""
    return Emission(str(CHAIN.usdc), (APPROVAL, PAYER, UNWATCHED), (amount,))


def bystander(amount: int) -> Emission:
    """Of no interest, to an address of interest: with an approval, blooms say yes by chance."""
    return Emission(BYSTANDER, (TRANSFER_TOPIC, PAYER, WATCHED), (amount,))


def packet_of_others(number: int) -> Emission:
    """The shared endpoint's alert about another application: decodes to nothing of ours."""
    return Emission(str(CHAIN.lz_endpoint), (ALERT, UNWATCHED, PAYER), tuple([number] * 12))


class Node:
    """A real node, its blocks mined on command."""

    def __init__(self, process: AnvilProcess) -> None:
        self.http, self.ws = process.rpc_url, process.ws_url
        self.rpc = JsonRpc(self.http, timeout=30.0)
        self.account, *_, self.marker = self.ask("eth_accounts")
        contracts = (CHAIN.usdc, CHAIN.oft, CHAIN.lz_endpoint, BYSTANDER)
        for contract in contracts:
            self.ask("anvil_setCode", contract, EMITTER)
        self.ask("evm_setAutomine", False)
        self._numbers = iter(range(1, 1_000_000))

    def ask(self, method: str, *params: Any) -> Any:
        return self.rpc.call(method, list(params))

    @property
    def height(self) -> int:
        return int(self.ask("eth_blockNumber"), 16)

    def hash_at(self, height: int) -> str:
        found: str = self.ask("eth_getBlockByNumber", hex(height), False)["hash"]
        return found

    def mine(self, *emissions: Emission) -> list[str]:
        """One block with these; their transaction hashes."""
        hashes = [self.ask("eth_sendTransaction", each.call(self.account)) for each in emissions]
        self.ask("evm_mine")
        return hashes

    def story(self, count: int, rng: random.Random | None = None) -> None:
        """So many blocks with a bit of everything in them; something of ours in the first."""
        rng = rng or random.Random(count)
        self.plain()
        for _ in range(count - 1):
            number = next(self._numbers)
            pool = [
                transfer(number),
                transfer(number, UNWATCHED),
                oft_send(number),
                oft_send(1_000_000 + number),
                approval(number),
                bystander(number),
                packet_of_others(number),
            ]
            self.mine(*rng.sample(pool, rng.randint(0, 3)))

    def doubtful(self) -> None:
        """A block without anything of ours whose bloom says otherwise: receipts are asked for."""
        number = next(self._numbers)
        self.mine(approval(number), bystander(number))

    def plain(self) -> None:
        """A block with one movement and one transfer."""
        number = next(self._numbers)
        self.mine(oft_send(number), transfer(number))

    def reorg(self, depth: int, *, remine: Sequence[str] = ()) -> None:
        """Replace the last blocks; transactions in them are gone but for those mined again.

        A marker comes first: an empty block in place of an empty one would have its hash.
        """
        raw = [self.ask("eth_getRawTransactionByHash", each) for each in remine]
        fork = hex(self.height - depth)
        nonce = self.ask("eth_getTransactionCount", self.marker, fork)
        marker = {
            "from": self.marker,
            "to": MARKER,
            "data": "0x" + word(next(self._numbers)),
            "nonce": nonce,
            "gas": hex(100_000),
        }
        again = [[each, depth - 1] for each in raw]
        self.ask("anvil_reorg", depth, [[marker, 0], *again])


def contents(engine: Engine) -> dict[str, list[tuple[object, ...]]]:
    """Every fact and movement, but for the database's own clocks and counters."""
    tables: list[Table] = [blocks, evm_logs, *EVENT_TABLES.values(), movements]
    with engine.connect() as conn:
        found = {t.name: sorted(map(tuple, conn.execute(select(t))), key=repr) for t in tables}
        found["cursors"] = [
            (row.chain, row.height, row.block_hash) for row in conn.execute(select(cursors))
        ]
    return found


@dataclass
class Followed:
    """A chain from here on, followed through a node that may be faulty."""

    node: Node
    faulty: FaultyNode
    engine: Engine
    straight_engine: Engine
    owner: Engine
    """Of the tested warehouse: may change what the indexer may not."""
    confirmations: int = 8
    bloom_is_reliable: bool = True
    chain: EvmChain = field(init=False)

    def __post_init__(self) -> None:
        self.starting_at(self.node.height + 1)

    def starting_at(self, height: int, **fields: Any) -> None:
        self.chain = replace(
            CHAIN,
            start_height=Height(height),
            confirmations=self.confirmations,
            bloom_is_reliable=self.bloom_is_reliable,
            **fields,
        )

    @property
    def network(self) -> Network:
        return network_of(self.chain)

    def reader(self, *urls: str, timeout: float = 5.0, **options: Any) -> EvmReader:
        return EvmReader(
            self.chain, urls or [self.faulty.url], event_topics, timeout=timeout, **options
        )

    def follow(
        self,
        *urls: str,
        reader: EvmReader | None = None,
        after: Callable[[RangeProgress], None] = lambda progress: None,
        until: Callable[[], bool] | None = None,
        **options: Any,
    ) -> list[RangeProgress]:
        """Follow until the cursor is on the real node's head; `after` runs after each range."""
        reader = reader or self.reader(*urls, **options)
        done: list[RangeProgress] = []
        deadline = time.monotonic() + TIMEOUT

        def on_progress(progress: RangeProgress) -> None:
            done.append(progress)
            after(progress)

        def should_stop() -> bool:
            assert time.monotonic() < deadline, f"it got nowhere: {self.cursor()}"
            return (until or self.is_at_head)()

        try:
            follow(
                self.engine,
                reader,
                self.network,
                should_stop=should_stop,
                on_progress=on_progress,
            )
        finally:
            reader.close()
        return done

    def cursor(self) -> Any:
        # As the owner: a soak ends the sessions of the indexer, and each ends a moment later.
        with self.owner.connect() as conn:
            return conn.execute(select(cursors)).one_or_none()

    def is_at_head(self) -> bool:
        cursor = self.cursor()
        if cursor is None:
            return False
        head = self.node.ask("eth_getBlockByNumber", "latest", False)
        return bool(cursor.block_hash == head["hash"])

    def assert_as_straight(self) -> None:
        """What is stored is what a run without faults stores, and it hangs together."""
        reader = EvmReader(self.chain, [self.node.http], event_topics, timeout=30.0)
        try:
            while ingest_once(self.straight_engine, reader, self.network) is not None:
                pass
        finally:
            reader.close()
        straight = contents(self.straight_engine)
        assert straight["evm_logs"], "the story had nothing of ours in it"
        assert contents(self.engine) == straight
        assert block_faults(self.engine, self.chain.id) == []
        assert differences(self.engine, self.network) == []
