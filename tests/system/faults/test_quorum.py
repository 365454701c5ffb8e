"""Quorum of node operators for irreversible actions."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

import pytest

from indexer.chains.evm.quorum import Quorum
from indexer.chains.http.operators import NotEnoughSources, SourcesDisagree, operator_of
from indexer.config.networks import LogProof
from indexer.decode.evm import event_topics
from indexer.errors import ConfigurationError, PermanentChainError, RetryableChainError, WrongChain
from indexer.ingest.rescan import rescan
from tests.indexer.chains.evm.chain import WATCHED
from tests.system.faults.fault import Fault
from tests.system.faults.lies import (
    DroppedLog,
    EmptyLogs,
    FlippingHash,
    ForgedAmount,
    ForgedStatus,
    MissingReceipt,
    NullReceipts,
    OtherFork,
    RemovedLogs,
    StaleBackend,
    UnseenReceipt,
    WrongChainId,
)
from tests.system.faults.proxy import FaultyNode
from tests.system.faults.refusals import ServerError, TruncatedJson
from tests.system.faults.world import Followed, Node, oft_send, transfer
from warehouse_schema.identifiers import Height, TxHash


@dataclass(frozen=True)
class Witnesses:
    """Three operators of the same real node, and the chain that a quorum of them is asked about."""

    nodes: tuple[FaultyNode, FaultyNode, FaultyNode]
    world: Followed

    @contextmanager
    def quorum(self, count: int = 3, log_proof: LogProof = "none", **options) -> Iterator[Quorum]:
        urls = [node.url for node in self.nodes[:count]]
        chain = replace(self.world.chain, log_proof=log_proof)
        with closing(Quorum(chain, urls, event_topics, timeout=5.0, **options)) as quorum:
            yield quorum


@pytest.fixture(scope="module")
def three(node: Node) -> Iterator[tuple[FaultyNode, ...]]:
    nodes = tuple(FaultyNode(node.http, node.ws, host=f"127.0.0.{n}") for n in (1, 2, 3))
    yield nodes
    for each in nodes:
        each.close()


@pytest.fixture
def witnesses(three: tuple[FaultyNode, FaultyNode, FaultyNode], world: Followed) -> Witnesses:
    for each in three:
        each.heal()
    return Witnesses(three, world)


def send(world: Followed) -> tuple[TxHash, Height]:
    """A mined transfer to a watched account, some blocks below the head; where."""
    tx, _ = world.node.mine(transfer(1_000), oft_send(7))
    height = Height(world.node.height)
    for _ in range(4):
        world.node.plain()
    return TxHash(tx), height


def test_equal_answers_are_agreed(witnesses: Witnesses) -> None:
    tx, height = send(witnesses.world)
    with witnesses.quorum(log_proof="receipts") as quorum:
        block = quorum.agreed_block(height)
        logs = quorum.agreed_range(height, height, [WATCHED]).events
        receipt = quorum.receipt_if_mined(tx)
    assert [int.from_bytes(log.data[-32:], "big") for log in logs] == [1_000, 5_000_000]
    assert (receipt.tx_hash, receipt.block_hash, receipt.succeeded) == (tx, block.hash, True)
    assert [log.position for log in receipt.logs] == [0]


@pytest.mark.parametrize("liar", [0, 1, 2])
def test_one_forged_amount_disagrees(witnesses: Witnesses, liar: int) -> None:
    tx, height = send(witnesses.world)
    forged = ForgedAmount(tx)
    with witnesses.quorum() as quorum, witnesses.nodes[liar].faulty(forged):
        with pytest.raises(SourcesDisagree, match=str(height)):
            quorum.agreed_range(height, height, [WATCHED])
        with pytest.raises(SourcesDisagree, match=tx):
            quorum.receipt_if_mined(tx)
        # About everything else it tells the truth.
        assert quorum.agreed_range(Height(height + 1), Height(height + 1), [WATCHED])


def test_one_forged_status_disagrees(witnesses: Witnesses) -> None:
    tx, _ = send(witnesses.world)
    lying = witnesses.nodes[1].faulty(ForgedStatus())
    with witnesses.quorum() as quorum, lying, pytest.raises(SourcesDisagree):
        quorum.receipt_if_mined(tx)


def test_two_equal_lies_do_not_outvote_one(witnesses: Witnesses) -> None:
    tx, height = send(witnesses.world)
    with witnesses.quorum() as quorum:
        for node in witnesses.nodes[:2]:
            node.inject(ForgedAmount(tx))
        with pytest.raises(SourcesDisagree):
            quorum.agreed_range(height, height, [WATCHED])


def test_forging_node_alone_is_not_enough_sources(witnesses: Witnesses) -> None:
    """As in the verifier incident of April 2026: fail-over lands on the poisoned node."""
    tx, height = send(witnesses.world)
    with witnesses.quorum() as quorum:
        witnesses.nodes[0].inject(ServerError())
        witnesses.nodes[1].inject(TruncatedJson())
        witnesses.nodes[2].inject(ForgedAmount(tx))
        with pytest.raises(NotEnoughSources, match="2 independent nodes, 1 answered"):
            quorum.agreed_range(height, height, [WATCHED])
        with pytest.raises(NotEnoughSources):
            quorum.receipt_if_mined(tx)


def test_forged_receipt_fails_the_receipts_root(witnesses: Witnesses) -> None:
    tx, _ = send(witnesses.world)
    for node in witnesses.nodes:
        node.inject(ForgedAmount(tx))
    with witnesses.quorum() as quorum:
        # All lie alike: only the proof tells.
        assert int.from_bytes(quorum.receipt_if_mined(tx).logs[0].data, "big") == 10_000
    refused = pytest.raises(NotEnoughSources, match="do not give its root")
    with witnesses.quorum(log_proof="receipts") as quorum, refused:
        quorum.receipt_if_mined(tx)


def test_forged_header_fails_its_hash(witnesses: Witnesses) -> None:
    tx, _ = send(witnesses.world)
    for node in witnesses.nodes:
        node.inject(ForgedHeader())
    refused = pytest.raises(NotEnoughSources, match="hashes to")
    with witnesses.quorum(log_proof="receipts") as quorum, refused:
        quorum.receipt_if_mined(tx)


class ForgedHeader(FlippingHash):
    """The right hash on a header that says something else."""

    def spoil_header(self, header, exchange):
        return {**header, "stateRoot": "0x" + "0f" * 32}


@pytest.mark.parametrize("fault", [EmptyLogs, DroppedLog])
def test_other_block_contents_disagree(witnesses: Witnesses, fault: type[Fault]) -> None:
    witnesses.world.bloom_is_reliable = False
    witnesses.world.starting_at(witnesses.world.node.height + 1)
    _, height = send(witnesses.world)
    with witnesses.quorum() as quorum, witnesses.nodes[1].faulty(fault()):
        with pytest.raises(SourcesDisagree):
            quorum.agreed_range(height, Height(height + 2), [WATCHED])
        with pytest.raises(SourcesDisagree):
            quorum.agreed_range(height, height, [WATCHED])


@pytest.mark.parametrize("fault", [NullReceipts, MissingReceipt, ServerError])
def test_two_of_three_nodes_are_enough(witnesses: Witnesses, fault: type[Fault]) -> None:
    tx, _ = send(witnesses.world)
    with witnesses.quorum() as quorum, witnesses.nodes[0].faulty(fault()):
        assert quorum.receipt_if_mined(tx).succeeded
    silent = witnesses.nodes[0].faulty(fault())
    with witnesses.quorum(2) as quorum, silent, pytest.raises(NotEnoughSources):
        quorum.receipt_if_mined(tx)


def test_receipt_known_to_too_few_is_not_mined(
    witnesses: Witnesses,
) -> None:
    tx, _ = send(witnesses.world)
    nobodys = TxHash("0x" + "12" * 32)
    with witnesses.quorum() as quorum:
        assert quorum.receipt_if_mined(tx) is not None
        assert quorum.receipt_if_mined(nobodys) is None
        for node in witnesses.nodes[:2]:
            node.inject(UnseenReceipt())
        assert quorum.receipt_if_mined(tx) is None
        witnesses.nodes[0].heal()
        assert quorum.receipt_if_mined(tx) is not None
        with witnesses.nodes[2].faulty(ForgedStatus()), pytest.raises(SourcesDisagree):
            quorum.receipt_if_mined(tx)
        for node in witnesses.nodes[1:]:
            node.inject(ServerError())
        with pytest.raises(NotEnoughSources, match="2 independent nodes, 1 answered"):
            quorum.receipt_if_mined(nobodys)


def test_receipt_with_removed_logs_is_no_answer(witnesses: Witnesses) -> None:
    tx, _ = send(witnesses.world)
    replaced = witnesses.nodes[0].faulty(RemovedLogs())
    refused = pytest.raises(NotEnoughSources, match="marked removed")
    with witnesses.quorum(2) as quorum, replaced, refused:
        quorum.receipt_if_mined(tx)


def test_node_on_another_fork_disagrees(witnesses: Witnesses) -> None:
    world = witnesses.world
    for _ in range(6):
        world.node.plain()
    fork = OtherFork(world.node.ask, world.node.height - 2)
    world.node.reorg(3)
    with witnesses.quorum() as quorum, witnesses.nodes[2].faulty(fork):
        with pytest.raises(SourcesDisagree):
            quorum.agreed_block(Height(world.node.height))
        assert quorum.agreed_block(Height(world.node.height - 4))


def test_lagging_node_does_not_count(witnesses: Witnesses) -> None:
    for _ in range(6):
        witnesses.world.node.plain()
    head = Height(witnesses.world.node.height)
    witnesses.nodes[0].inject(StaleBackend(3))
    with witnesses.quorum() as quorum:
        assert quorum.agreed_block(head).height == head
    with witnesses.quorum(2) as quorum, pytest.raises(NotEnoughSources, match="1 answered"):
        quorum.agreed_block(head)


def test_node_of_another_chain_raises_wrong_chain(witnesses: Witnesses) -> None:
    witnesses.world.node.plain()
    witnesses.nodes[2].inject(WrongChainId())
    with witnesses.quorum() as quorum, pytest.raises(WrongChain):
        quorum.agreed_block(Height(1))


def test_quorum_rescan_finds_missing_logs(witnesses: Witnesses) -> None:
    world = witnesses.world
    world.bloom_is_reliable = False
    world.starting_at(world.node.height + 1)
    send(world)
    world.faulty.inject(EmptyLogs())
    world.follow()
    with witnesses.quorum() as quorum:
        first, last = world.chain.first_height, Height(world.node.height)
        found = rescan(world.engine, quorum.agreed_range, world.chain, first, last)
    assert len(found) == 10
    assert all(each.endswith("is not stored") for each in found)


@pytest.mark.parametrize(
    ("url", "operator"),
    [
        ("https://eth-mainnet.g.alchemy.com/v2/key", "alchemy.com"),
        ("https://base-mainnet.g.alchemy.com:8443/v2/other", "alchemy.com"),
        ("http://user:secret@node.example.org", "example.org"),
        ("http://localhost:8545", "localhost"),
        ("http://127.0.0.1:8545", "127.0.0.1"),
        ("http://[::1]:8545", "::1"),
    ],
)
def test_operator_of_url(url: str, operator: str) -> None:
    assert operator_of(url) == operator


@pytest.mark.parametrize(
    ("urls", "needed"),
    [
        ([], 2),
        (["https://a.example.org/1"], 2),
        (["https://a.example.org/1", "https://b.example.org/2"], 2),
        (["https://a.example.org", "wss://b.example.net"], 2),
        (["https://a.example.org", "https://a.example.net"], 0),
    ],
)
def test_nodes_of_one_operator_count_once(world: Followed, urls: list[str], needed: int) -> None:
    with pytest.raises(ConfigurationError, match="independent operators"):
        Quorum(world.chain, urls, event_topics, needed=needed)


def test_disagreement_is_permanent_silence_retryable() -> None:
    assert issubclass(SourcesDisagree, PermanentChainError)
    assert issubclass(NotEnoughSources, RetryableChainError)
