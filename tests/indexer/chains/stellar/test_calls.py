"""Contract call simulation on Stellar nodes, with failover."""

from collections.abc import Iterator
from typing import Any

import pytest
from stellar_sdk import scval, xdr

from indexer.chains.stellar.accounts import AccountReader
from indexer.chains.stellar.xdr.simulation import (
    MAX_RESOURCE_FEE,
    SimulationResult,
    parse_simulation,
)
from indexer.config.networks import load_network
from indexer.errors import CallReverted, InconsistentAnswer, NodeBehind, NodeUnavailable, WrongChain
from tests.factories.stellar_node import FakeStellarNode, HttpAnswer, serving

CHAIN = load_network("devnet").stellar
VALUE = scval.to_int128(7).to_xdr()


def make_data(fee: int = 5_000) -> str:
    nothing = xdr.Uint32(0)
    resources = xdr.SorobanResources(xdr.LedgerFootprint([], []), nothing, nothing, nothing)
    ext = xdr.SorobanTransactionDataExt(0)
    return xdr.SorobanTransactionData(ext, resources, xdr.Int64(fee)).to_xdr()


def make_answer(**changes: Any) -> dict[str, Any]:
    """A trial that went well, with changes; None takes a member away."""
    good = {
        "transactionData": make_data(),
        "minResourceFee": "5000",
        "results": [{"auth": None, "xdr": VALUE}],
        "latestLedger": 20,
    }
    return {name: value for name, value in (good | changes).items() if value is not None}


@pytest.fixture
def node() -> Iterator[FakeStellarNode]:
    with serving(FakeStellarNode(latest=20)) as node:
        yield node


def says(node: FakeStellarNode, answer: Any) -> None:
    def change(_params: Any, _usual: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    node.answer_with("simulateTransaction", change)


def tried(*nodes: FakeStellarNode) -> Any:
    calls = AccountReader(CHAIN, [each.url for each in nodes], timeout=20.0)
    try:
        return calls.simulate_call("AAAA")
    finally:
        calls.close()


def test_simulation_result_is_parsed(node):
    says(node, make_answer())
    found = tried(node)
    assert isinstance(found, SimulationResult)
    assert (found.resource_fee, found.auth) == (5_000, ())
    assert scval.from_int128(xdr.SCVal.from_xdr_bytes(found.value)) == 7
    params = {"transaction": "AAAA", "useUpgradedAuth": False}
    assert node.calls[-1] == ("simulateTransaction", params)


def test_contract_error_reverts_without_failover(node):
    error = "HostError: Error(Contract, #10)\n\nEvent log (newest first):\n   0: ..."
    says(node, {"error": error, "latestLedger": 20})
    with serving(FakeStellarNode(latest=20)) as second:
        with pytest.raises(CallReverted, match=r"^HostError: Error\(Contract, #10\)$"):
            tried(node, second)
        assert not second.calls
    says(node, {"error": "HostError: Error(Auth, InvalidAction)", "latestLedger": 20})
    with pytest.raises(CallReverted, match=r"^HostError: Error\(Auth, InvalidAction\)$"):
        tried(node)


def test_archived_entries_fail_the_call():
    preamble = {"transactionData": make_data(), "minResourceFee": "1"}
    with pytest.raises(CallReverted, match="archived"):
        parse_simulation(make_answer(restorePreamble=preamble))


def test_failover_asks_the_next_node(node):
    says(node, HttpAnswer(503))
    with pytest.raises(NodeUnavailable):
        tried(node)
    with serving(FakeStellarNode(latest=20)) as second:
        says(second, make_answer())
        assert isinstance(tried(node, second), SimulationResult)


def test_foreign_or_stale_node_is_refused(node):
    says(node, make_answer(latestLedger=1))
    with pytest.raises(NodeBehind):
        tried(node)
    node.passphrase = "Public Global Stellar Network ; September 2015"
    with pytest.raises(WrongChain):
        tried(node)


@pytest.mark.parametrize(
    "changes",
    [
        {"results": None},
        {"results": []},
        {"results": [{"xdr": VALUE}, {"xdr": VALUE}]},
        {"results": [{"xdr": None}]},
        {"results": [{"xdr": VALUE, "auth": "x"}]},
        {"transactionData": None},
        {"transactionData": "AAAA"},
        {"transactionData": make_data(4_999)},
        {"minResourceFee": 5_000},
        {"minResourceFee": "-5000"},
        {
            "minResourceFee": str(MAX_RESOURCE_FEE + 1),
            "transactionData": make_data(MAX_RESOURCE_FEE + 1),
        },
        {"latestLedger": "20"},
    ],
)
def test_malformed_simulation_is_inconsistent(node, changes):
    says(node, make_answer(**changes))
    with pytest.raises(InconsistentAnswer):
        tried(node)
