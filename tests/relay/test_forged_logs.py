"""A node that forges logs funds no deposit, and the relay sends nothing.

The chain and the contracts are real, on one local node; what it answers goes through a proxy that
lies. Two addresses of this machine stand for two operators.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.engine import URL

from devnet.evm import EvmDevnet
from indexer.chains.evm.reader import EvmReader
from indexer.config.networks import LogProof, Network
from indexer.decode.evm import event_topics
from indexer.errors import InconsistentAnswer
from indexer.facts.alarms import open_alarms
from indexer.facts.cursors import read_cursor
from indexer.ingest.backfill import backfill
from indexer.ingest.follow import follow
from indexer.ingest.proving import BlockProver
from indexer.ingest.ranges import RangeProgress
from tests.factories.ingesting import ingest_once
from tests.relay.conftest import open_stand
from tests.relay.deposit_stand import AMOUNT, DepositStand, Paid
from tests.system.faults.fault import Call, Exchange, Fault, Reply, ReplyFault, Response, instead
from tests.system.faults.lies import (
    EmptyLogs,
    HeadersFault,
    ReceiptsFault,
    StaleBackend,
    ZeroBlooms,
)
from tests.system.faults.proxy import FaultyHttp
from tests.system.faults.refusals import Hangs, Refuses
from warehouse_schema.facts import evm_logs
from warehouse_schema.identifiers import Height


class ForgedAmounts(ReplyFault):
    """`eth_getLogs` multiplies each amount by ten."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        if call["method"] != "eth_getLogs" or not reply.get("result"):
            return reply
        return instead(reply, [_tenfold(log) for log in reply["result"]])


def _tenfold(log: dict[str, Any]) -> dict[str, Any]:
    if len(log["data"]) != 66:
        return log
    return {**log, "data": f"0x{10 * int(log['data'], 16):064x}"}


class ForgedHeader(HeadersFault):
    """The right hash on a wrong header."""

    def spoil_header(self, header: dict[str, Any], exchange: Exchange) -> dict[str, Any]:
        return {**header, "stateRoot": "0x" + "0f" * 32}


class UnknownReceipts(ReceiptsFault):
    """Receipts of an unknown transaction type."""

    def spoil_receipts(self, receipts: list[Any], exchange: Exchange) -> Any:
        return [{**receipt, "type": "0x55"} for receipt in receipts]


class NoLogsByHeight(ReplyFault):
    """`eth_getLogs` hides logs of a range, but not of a block hash."""

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        is_range = call["method"] == "eth_getLogs" and "fromBlock" in call["params"][0]
        return instead(reply, []) if is_range else reply


class HungReceipts(Hangs):
    """Requests for receipts hang."""

    def respond(self, exchange: Exchange) -> Response | None:
        return super().respond(exchange) if exchange.has("eth_getBlockReceipts") else None


class CountedReceipts(Fault):
    """Counts requests for receipts."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = 0

    def respond(self, exchange: Exchange) -> Response | None:
        self.requests += exchange.has("eth_getBlockReceipts")
        return None


def no_receipts() -> Refuses:
    return Refuses("eth_getBlockReceipts", "the method does not exist", -32601)


@pytest.fixture
def stand(node: tuple[EvmDevnet, str], database: URL, engine: Engine) -> Iterator[DepositStand]:
    with open_stand(DepositStand, node, database, engine) as stand:
        yield stand


@pytest.fixture
def faulty(stand: DepositStand) -> Iterator[FaultyHttp]:
    with closing(FaultyHttp(stand.url)) as faulty:
        yield faulty


@pytest.fixture
def second(stand: DepositStand) -> Iterator[FaultyHttp]:
    """Node of another operator."""
    with closing(FaultyHttp(stand.url, host="127.0.0.2")) as second:
        yield second


def network(stand: DepositStand, log_proof: LogProof = "receipts") -> Network:
    chain = replace(stand.network.evm[0], log_proof=log_proof)
    return replace(stand.network, evm=(chain,))


def ingest(stand: DepositStand, *urls: str, log_proof: LogProof = "receipts") -> None:
    configured = network(stand, log_proof)
    with closing(EvmReader(configured.evm[0], urls, event_topics, timeout=30.0)) as reader:
        while ingest_once(stand.engine, reader, configured) is not None:
            pass


def unproven(stand: DepositStand) -> list[str]:
    """Alarms about unproven blocks."""
    with stand.engine.connect() as conn:
        return [alarm.detail for alarm in open_alarms(conn) if alarm.kind == "unproven"]


def amounts(stand: DepositStand, paid: Paid) -> list[int]:
    """Amounts of the stored transfers to its address."""
    query = select(evm_logs.c.data).where(evm_logs.c.topics[3].like(f"%{paid.address[2:]}"))
    with stand.engine.connect() as conn:
        return [int.from_bytes(data) for data in conn.scalars(query)]


def underpaid(stand: DepositStand) -> Paid:
    """A deposit with a tenth of the amount paid."""
    paid = stand.deposit()
    stand.devnet.faucet_usdc(paid.address, AMOUNT // 10)
    return paid


def test_forged_amount_funds_no_deposit(stand: DepositStand, faulty: FaultyHttp):
    paid = underpaid(stand)
    with faulty.faulty(ForgedAmounts()):
        ingest(stand, faulty.url)
    assert amounts(stand, paid) == [AMOUNT], "the node was believed so far"
    assert stand.stage(paid) == "AWAITING_FUNDS"
    [detail] = unproven(stand)
    assert "does not hold what is stored" in detail
    assert stand.turns(stand.relay()).opened == 0


def test_true_amount_funds_a_deposit(stand: DepositStand, faulty: FaultyHttp):
    paid = stand.deposit()
    stand.devnet.faucet_usdc(paid.address, AMOUNT)
    ingest(stand, faulty.url)
    assert (stand.stage(paid), unproven(stand)) == ("FUNDED", [])


def test_one_node_suffices_where_configured(stand: DepositStand, faulty: FaultyHttp):
    paid = underpaid(stand)
    with faulty.faulty(ForgedAmounts()):
        ingest(stand, faulty.url, log_proof="none")
    assert stand.stage(paid) == "FUNDED"


@pytest.mark.parametrize("log_proof", ["header", "operators"])
def test_logs_without_a_root_need_a_second_operator(
    stand: DepositStand, faulty: FaultyHttp, second: FaultyHttp, log_proof: LogProof
):
    paid = underpaid(stand)
    with faulty.faulty(ForgedAmounts()):
        ingest(stand, faulty.url, log_proof=log_proof)
        ingest(stand, faulty.url, second.url, log_proof=log_proof)
    assert stand.stage(paid) == "AWAITING_FUNDS"


@pytest.mark.parametrize("log_proof", ["header", "operators"])
def test_second_operator_confirms_logs_without_a_root(
    stand: DepositStand, faulty: FaultyHttp, second: FaultyHttp, log_proof: LogProof
):
    paid = stand.deposit()
    stand.devnet.faucet_usdc(paid.address, AMOUNT)
    ingest(stand, faulty.url, log_proof=log_proof)
    assert stand.stage(paid) == "AWAITING_FUNDS", "one operator proves nothing here"
    ingest(stand, faulty.url, second.url, log_proof=log_proof)
    assert stand.stage(paid) == "FUNDED"


def test_second_operator_without_the_block_delays_deposit(
    stand: DepositStand, faulty: FaultyHttp, second: FaultyHttp
):
    paid = stand.deposit()
    stand.devnet.faucet_usdc(paid.address, AMOUNT)
    with second.faulty(StaleBackend(2)):
        ingest(stand, faulty.url, second.url)
    assert stand.stage(paid) == "AWAITING_FUNDS"
    ingest(stand, faulty.url, second.url)
    assert stand.stage(paid) == "FUNDED"


@pytest.mark.parametrize("fault", [no_receipts, UnknownReceipts])
def test_second_operator_proves_logs_without_receipts(
    stand: DepositStand, faulty: FaultyHttp, second: FaultyHttp, fault: Callable[[], ReplyFault]
):
    paid = stand.deposit()
    stand.devnet.faucet_usdc(paid.address, AMOUNT)
    faulty.inject(fault())
    second.inject(fault())
    ingest(stand, faulty.url)
    assert stand.stage(paid) == "AWAITING_FUNDS", "one operator proves nothing here"
    ingest(stand, faulty.url, second.url)
    assert stand.stage(paid) == "FUNDED"


def test_unknown_receipt_type_leaves_blooms_to_logs_by_hash(
    stand: DepositStand, faulty: FaultyHttp
):
    paid = stand.deposit()
    stand.devnet.faucet_usdc(paid.address, AMOUNT)
    faulty.inject(NoLogsByHeight())
    faulty.inject(UnknownReceipts())
    with pytest.raises(InconsistentAnswer, match="by its hash"):
        ingest(stand, faulty.url)


def test_header_that_is_not_its_hash_is_not_read(stand: DepositStand, faulty: FaultyHttp):
    stand.deposit()
    with faulty.faulty(ForgedHeader()), pytest.raises(InconsistentAnswer, match="hashes to"):
        ingest(stand, faulty.url)


def test_logs_hidden_with_their_bloom_are_found(stand: DepositStand, faulty: FaultyHttp):
    paid = stand.deposit()
    stand.devnet.faucet_usdc(paid.address, AMOUNT)
    faulty.inject(ZeroBlooms())
    faulty.inject(EmptyLogs())
    with pytest.raises(InconsistentAnswer, match="hashes to"):
        ingest(stand, faulty.url)
    faulty.heal()
    ingest(stand, faulty.url)
    assert stand.stage(paid) == "FUNDED"


def test_follower_continues_past_forged_block(
    stand: DepositStand, faulty: FaultyHttp, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("indexer.ingest.proving._FIRST_BACKOFF", 0.01)
    paid, deadline = underpaid(stand), time.monotonic() + 60
    configured, above = network(stand), stand.devnet.block_number() + 2

    def should_stop() -> bool:
        assert time.monotonic() < deadline
        if unproven(stand) and stand.devnet.block_number() < above:
            stand.devnet.rpc("anvil_mine", "0x2")
        with stand.engine.connect() as conn:
            cursor = read_cursor(conn, stand.chain.id)
        return cursor is not None and cursor.height >= above

    with (
        closing(EvmReader(configured.evm[0], [faulty.url], event_topics, timeout=30.0)) as reader,
        faulty.faulty(ForgedAmounts()),
    ):
        follow(
            stand.engine,
            reader,
            configured,
            should_stop=should_stop,
            on_progress=lambda progress: None,
        )
    assert stand.stage(paid) == "AWAITING_FUNDS"


def test_hung_proof_node_delays_a_range_by_one_timeout(
    stand: DepositStand, faulty: FaultyHttp, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("indexer.chains.evm.log_proofs.REQUEST_SECONDS", 0.5, raising=False)
    paid = [stand.deposit() for _ in range(5)]
    for each in paid:
        stand.devnet.faucet_usdc(each.address, AMOUNT)
    configured, hung, hangs = network(stand), HungReceipts(), [0]
    faulty.inject(hung)

    def note_range(progress: RangeProgress) -> None:
        hangs.append(hung.fired)
        stand.devnet.rpc("anvil_mine", "0x1")

    with closing(EvmReader(configured.evm[0], [faulty.url], event_topics, timeout=30.0)) as reader:
        follow(
            stand.engine,
            reader,
            configured,
            should_stop=lambda: len(hangs) > 10,
            on_progress=note_range,
        )
    assert hung.fired > 0
    assert max(after - before for before, after in pairwise(hangs)) == 1
    faulty.heal()
    monkeypatch.setattr("indexer.chains.evm.log_proofs.REQUEST_SECONDS", 20.0)
    # A turn ends after a second; five proofs take longer on a busy machine.
    monkeypatch.setattr("indexer.ingest.proving._BUDGET_SECONDS", 60.0)
    ingest(stand, faulty.url)
    assert {stand.stage(each) for each in paid} == {"FUNDED"}


def test_each_of_many_unprovable_blocks_pauses(
    stand: DepositStand, faulty: FaultyHttp, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("indexer.ingest.proving._FIRST_BACKOFF", 60.0)
    paid, payments = stand.deposit(), 25
    for _ in range(payments):
        stand.devnet.faucet_usdc(paid.address, AMOUNT // 100)
    with faulty.faulty(ForgedAmounts()):
        ingest(stand, faulty.url)
    configured, receipts = network(stand), CountedReceipts()
    faulty.inject(receipts)
    with (
        closing(EvmReader(configured.evm[0], [faulty.url], event_topics, timeout=30.0)) as reader,
        stand.engine.connect() as conn,
    ):
        proving = BlockProver.for_reader(reader, configured)
        assert proving is not None
        with closing(proving):
            for _ in range(20):
                proving.prove_requested(conn)
    assert receipts.requests == payments


def test_backfill_from_honest_node_repairs_forged_block(stand: DepositStand, faulty: FaultyHttp):
    paid = stand.deposit()
    stand.devnet.faucet_usdc(paid.address, AMOUNT)
    with faulty.faulty(ForgedAmounts()):
        ingest(stand, faulty.url)
    assert amounts(stand, paid) == [10 * AMOUNT]
    _backfill(stand, faulty.url)
    assert amounts(stand, paid) == [AMOUNT]
    ingest(stand, faulty.url)
    assert (stand.stage(paid), unproven(stand)) == ("FUNDED", [])


def test_backfill_keeps_proven_equal_rows(stand: DepositStand, faulty: FaultyHttp):
    paid = stand.deposit()
    stand.devnet.faucet_usdc(paid.address, AMOUNT)
    ingest(stand, faulty.url)
    _backfill(stand, faulty.url)
    assert stand.stage(paid) == "FUNDED"
    with faulty.faulty(ForgedAmounts()):
        _backfill(stand, faulty.url)
    assert stand.stage(paid) == "AWAITING_FUNDS"


def _backfill(stand: DepositStand, url: str) -> None:
    """Read the finalized range again."""
    configured = network(stand)
    with closing(EvmReader(configured.evm[0], [url], event_topics, timeout=30.0)) as reader:
        above = configured.evm[0].confirmations
        stand.devnet.rpc("anvil_mine", hex(above))
        ingest(stand, url)
        last = Height(reader.head().height - above)
        backfill(stand.engine, reader, configured, Height(0), last, lambda progress: None)
