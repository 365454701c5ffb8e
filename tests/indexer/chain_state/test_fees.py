"""What others charge: asked of a real OFT, of what stands in for Circle, and of those who lie."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from typing import Any

import pytest
from eth_abi.abi import encode

from devnet import circle
from devnet.evm_deployment import deploy
from devnet.evm_node import AnvilProcess
from devnet.stellar.contracts.oft import NATIVE_FEE
from devnet.world import remotes_of_evm
from indexer.chain_state.fees import FAST, STANDARD, BurnTerms, FeeReader, open_fees
from indexer.chain_state.stellar import StellarState
from indexer.chains.evm.calls import ContractReader
from indexer.chains.services.circle import Iris
from indexer.config.networks import load_network
from indexer.config.settings import load_settings
from indexer.errors import (
    ConfigurationError,
    InconsistentAnswer,
    NodeUnavailable,
    RetryableChainError,
    WrongChain,
)
from tests.devnet.stellar.chain import Chain
from tests.devnet.stellar.chain import serving as serving_ledger
from tests.factories.iris import FakeIris
from tests.factories.iris import serving as serving_iris
from tests.system.replay.serving import Refused, serving
from warehouse_schema.identifiers import BaseUnits, Bytes32

NETWORK = load_network("devnet")
EVM, STELLAR = NETWORK.evm[0], NETWORK.stellar
TO = Bytes32("0x" + "ab" * 32)
AMOUNT = BaseUnits(5_000_000)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


# A real OFT


@pytest.fixture(scope="module")
def oft(tmp_path_factory) -> Iterator[tuple[str, int]]:
    log_file = tmp_path_factory.mktemp("fees") / "anvil.log"
    with AnvilProcess(log_file=log_file) as anvil, deploy(anvil.rpc_url, remotes_of_evm()) as evm:
        wei = evm.quote_send(to=bytes.fromhex(TO[2:]), amount=AMOUNT)
        yield anvil.rpc_url, wei


def test_an_oft_is_asked_for_what_arrives_and_for_the_messages_fee(oft):
    url, wei = oft
    fees = FeeReader(NETWORK, {EVM.id: ContractReader(EVM, [url], timeout=20.0)}, None)
    terms = fees.send(EVM.id, STELLAR.id, TO, AMOUNT)
    assert (terms.received, terms.native_fee, terms.min_amount) == (AMOUNT, wei, 0)
    assert terms.native_fee > 0
    assert fees.gas_price(EVM.id) > 0
    fees.close()


def test_a_call_that_reverts_is_no_answer(oft):
    url, _ = oft
    fees = FeeReader(NETWORK, {EVM.id: ContractReader(EVM, [url], timeout=20.0)}, None)
    with pytest.raises(RetryableChainError, match="revert"):
        fees.send(EVM.id, STELLAR.id, TO, 2**64)
    fees.close()


# The OFT on Stellar


@pytest.fixture
def oft_on_stellar() -> Iterator[FeeReader]:
    with serving_ledger(Chain()) as url:
        fees = FeeReader(NETWORK, {}, None, StellarState(STELLAR, [url]))
        yield fees
        fees.close()


def test_the_oft_on_stellar_is_asked_by_simulation(oft_on_stellar):
    terms = oft_on_stellar.send(STELLAR.id, EVM.id, TO, AMOUNT)
    assert (terms.received, terms.native_fee, terms.min_amount) == (AMOUNT, NATIVE_FEE, 0)


def test_an_amount_that_would_leave_a_rest_on_stellar_has_no_terms(oft_on_stellar):
    with pytest.raises(InconsistentAnswer, match="would send"):
        oft_on_stellar.send(STELLAR.id, EVM.id, TO, AMOUNT + 1)


def test_a_call_that_the_oft_on_stellar_refuses_is_no_answer(oft_on_stellar):
    with pytest.raises(RetryableChainError, match="Contract, #3001"):
        oft_on_stellar.send(STELLAR.id, EVM.id, TO, BaseUnits(9))


def test_stellar_without_a_node_is_said_by_name():
    with pytest.raises(NodeUnavailable, match="ISTHMUS_RPC_STELLAR_DEVNET"):
        FeeReader(NETWORK, {}, None).send(STELLAR.id, EVM.id, TO, AMOUNT)


# Nodes that are down, wrong, or lie


class Node:
    """Answers `eth_call` with these bytes, in turn."""

    def __init__(self, *answers: bytes, chain: int = 31337) -> None:
        self.answers, self.chain = list(answers), chain
        self.requests: list[str] = []

    def call(self, method: str, params: Any) -> Any:
        self.requests.append(method)
        match method:
            case "eth_chainId":
                return hex(self.chain)
            case "eth_gasPrice":
                return "0x7"
            case "eth_call" if self.answers:
                return "0x" + self.answers.pop(0).hex()
        raise Refused(-32000, "not now")


def oft_says(sent: int, received: int) -> bytes:
    kinds = ["(uint256,uint256)", "(int256,string)[]", "(uint256,uint256)"]
    return encode(kinds, [(0, 10**12), [(-3, "a fee")], (sent, received)])


def native(fee: int, token: int = 0) -> bytes:
    return encode(["uint256", "uint256"], [fee, token])


def asked_of(*nodes: Node) -> Any:
    """The terms by these nodes."""
    with ExitStack() as stack:
        urls = [stack.enter_context(serving(node)) for node in nodes]
        calls = ContractReader(EVM, urls, timeout=20.0)
        stack.callback(calls.close)
        return FeeReader(NETWORK, {EVM.id: calls}, None).send(EVM.id, STELLAR.id, TO, AMOUNT)


def test_a_fee_of_the_oft_is_the_difference():
    terms = asked_of(Node(oft_says(AMOUNT, AMOUNT - 3), native(9)))
    assert (terms.received, terms.native_fee, terms.max_amount) == (AMOUNT - 3, 9, 10**12)


@pytest.mark.parametrize(
    "answers",
    [
        (oft_says(AMOUNT, AMOUNT + 1), native(1)),
        (oft_says(AMOUNT, 0), native(1)),
        (oft_says(AMOUNT - 1, AMOUNT - 1), native(1)),
        (oft_says(AMOUNT, AMOUNT), native(1, token=1)),
        (b"", native(1)),
        (b"\xff" * 320, native(1)),
        (oft_says(AMOUNT, AMOUNT), b"\0" * 63),
    ],
)
def test_what_cannot_be_true_is_no_answer(answers):
    with pytest.raises(InconsistentAnswer):
        asked_of(Node(*answers))


def test_another_node_is_asked_when_one_is_of_another_chain_or_down():
    good = Node(oft_says(AMOUNT, AMOUNT), native(4))
    assert asked_of(Node(chain=1), Node(), good).native_fee == 4


def test_a_network_whose_nodes_are_all_of_another_chain_has_no_answer():
    with pytest.raises(WrongChain, match="serves eip155:1"):
        asked_of(Node(chain=1))


def test_a_chain_without_a_node_is_said_by_name():
    with pytest.raises(NodeUnavailable, match="ISTHMUS_RPC_EIP155_31337"):
        FeeReader(NETWORK, {}, None).gas_price(EVM.id)
    with pytest.raises(ConfigurationError, match="needs a node"):
        ContractReader(EVM, ["ws://127.0.0.1:1"])


def test_an_answer_is_kept_for_seconds_and_a_failure_for_one():
    node, clock = Node(), Clock()
    with serving(node) as url:
        fees = FeeReader(
            NETWORK, {EVM.id: ContractReader(EVM, [url], timeout=20.0)}, None, clock=clock
        )
        for _ in range(3):
            assert fees.gas_price(EVM.id) == 7
        assert node.requests.count("eth_gasPrice") == 1
        clock.now += 10.5
        fees.gas_price(EVM.id)
        assert node.requests.count("eth_gasPrice") == 2
        for _ in range(3):
            with pytest.raises(NodeUnavailable):
                fees.send(EVM.id, STELLAR.id, TO, AMOUNT)
        assert node.requests.count("eth_call") == 1
        node.answers = [oft_says(AMOUNT, AMOUNT), native(5)]
        clock.now += 1.5
        assert fees.send(EVM.id, STELLAR.id, TO, AMOUNT).native_fee == 5
        fees.close()


# Circle's service


def burn(answer: Any, source: Any = EVM, dest: Any = STELLAR, status: int = 200) -> BurnTerms:
    service = FakeIris()
    with serving_iris(service):
        path = f"/v2/burn/USDC/fees/{source.cctp_domain}/{dest.cctp_domain}"
        raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        service.answer(f"GET {path}", status, raw)
        fees = FeeReader(NETWORK, {}, Iris(service.url, timeout=20.0))
        try:
            return fees.burn(source.id, dest.id)
        finally:
            fees.close()


def speeds(fast: Any, standard: Any) -> list[dict[str, Any]]:
    return [
        {"finalityThreshold": FAST, "minimumFee": fast},
        {"finalityThreshold": STANDARD, "minimumFee": standard},
    ]


def test_a_burn_is_fast_where_the_chain_has_it():
    assert burn(speeds(0.325, 0)) == BurnTerms(FAST, Decimal("0.325"))
    assert burn(speeds(1, 0)[1:]) == BurnTerms(STANDARD, Decimal(0))


def test_what_stellar_burns_is_final_at_once():
    assert burn(speeds(1.3, 0), STELLAR, EVM) == BurnTerms(STANDARD, Decimal(0))


def test_what_the_contract_asks_of_every_burn_is_paid():
    assert burn(speeds(1, 2)) == BurnTerms(FAST, Decimal(2))


@pytest.mark.parametrize(
    "answer",
    [
        [],
        {},
        speeds(100.5, 0),
        speeds(1, 101),
        speeds(-1, 0),
        speeds("1", 0),
        speeds(1, 0)[:1],
        [*speeds(1, 0), *speeds(0, 0)],
        b"<html>",
        b'[{"finalityThreshold":1000,"minimumFee":NaN}]',
    ],
)
def test_fees_that_make_no_sense_are_no_answer(answer):
    with pytest.raises(InconsistentAnswer):
        burn(answer)


def test_a_service_that_is_down_is_no_answer():
    with pytest.raises(NodeUnavailable):
        burn(b"{}", status=503)
    with pytest.raises(NodeUnavailable, match="nobody says"):
        FeeReader(NETWORK, {}, None).burn(EVM.id, STELLAR.id)


def test_the_stand_in_answers_in_the_services_words_where_it_is_asked():
    with circle.serving() as url:
        chosen = {"ISTHMUS_IRIS_URL": url, "ISTHMUS_RPC_EIP155_31337": "ws://127.0.0.1:1"}
        fees = open_fees(load_settings(chosen))
        assert fees.burn(EVM.id, STELLAR.id) == BurnTerms(FAST, Decimal("1.3"))
        assert fees.burn(STELLAR.id, EVM.id) == BurnTerms(STANDARD, Decimal(0))
        with pytest.raises(NodeUnavailable, match="ISTHMUS_RPC_EIP155_31337"):
            fees.gas_price(EVM.id)
        fees.close()
