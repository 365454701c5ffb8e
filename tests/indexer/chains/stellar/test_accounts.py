"""Account and trustline reads from Stellar nodes, with failover."""

import dataclasses
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from indexer.chains.http import node_pool
from indexer.chains.stellar import checked_nodes
from indexer.chains.stellar.accounts import AccountReader
from indexer.chains.stellar.xdr.ledger_entries import (
    Signer,
    SigningRules,
    account_key,
    trustline_key,
)
from indexer.config.networks import load_network
from indexer.config.settings import Settings, load_settings
from indexer.errors import (
    ConfigurationError,
    InconsistentAnswer,
    IndexerError,
    NodeBehind,
    NodeUnavailable,
    PermanentChainError,
    RetryableChainError,
    WrongChain,
)
from indexer.ingest.stellar_readers import open_accounts
from tests.factories.accounts import entries_answer, make_account_entry, make_trustline_entry
from tests.factories.stellar_events import account
from tests.factories.stellar_node import FakeStellarNode, HttpAnswer, RpcError, serving

CHAIN = load_network("devnet").stellar
ALICE, BOB = account("alice"), account("bob")


@pytest.fixture
def node() -> Iterator[FakeStellarNode]:
    with serving(FakeStellarNode(latest=20)) as node:
        node.entries[account_key(ALICE)] = make_account_entry(ALICE)
        yield node


@pytest.fixture
def reader(node: FakeStellarNode) -> Iterator[AccountReader]:
    reader = AccountReader(CHAIN, [node.url], timeout=20.0)
    yield reader
    reader.close()


def answers(value: Any) -> Callable[[Any, Any], Any]:
    return lambda _params, _usual: value


def raises(error: Exception) -> Callable[[Any, Any], Any]:
    def answer(_params: Any, _usual: Any) -> Any:
        raise error

    return answer


def requests(node: FakeStellarNode) -> list[str]:
    return [method for method, _ in node.calls]


def test_account_rules_are_parsed(node, reader) -> None:
    assert reader.signing_rules(ALICE) == SigningRules(ALICE, 0, (Signer(ALICE, 1),))
    assert node.calls[-1] == ("getLedgerEntries", {"keys": [account_key(ALICE)]})


@pytest.mark.parametrize("entries", [[], None], ids=["an empty list", "null, as older nodes say"])
def test_missing_account_is_none(node, reader, entries) -> None:
    node.answer_with("getLedgerEntries", answers({"entries": entries, "latestLedger": 20}))
    assert reader.signing_rules(ALICE) is None


def test_node_check_is_cached(node, reader, monkeypatch) -> None:
    reader.signing_rules(ALICE)
    reader.signing_rules(ALICE)
    assert requests(node) == ["getNetwork", "getHealth", "getLedgerEntries", "getLedgerEntries"]
    monkeypatch.setattr(checked_nodes.CheckedStellarNode, "valid_seconds", -1.0)
    hasty = AccountReader(CHAIN, [node.url], timeout=20.0)
    node.calls.clear()
    hasty.signing_rules(ALICE)
    hasty.signing_rules(ALICE)
    hasty.close()
    assert requests(node) == 2 * ["getNetwork", "getHealth", "getLedgerEntries"]


NOT_DEFINITIVE: dict[str, tuple[str, Any, type[IndexerError]]] = {
    "another network": (
        "getNetwork",
        answers({"passphrase": "Public Global Stellar Network ; September 2015"}),
        WrongChain,
    ),
    "unwell": ("getHealth", raises(RpcError(-32603, "latency is too high")), NodeUnavailable),
    "catching up": (
        "getHealth",
        answers({"status": "catching up", "latestLedger": 20}),
        NodeUnavailable,
    ),
    "too many requests": ("getLedgerEntries", raises(HttpAnswer(429)), NodeUnavailable),
    "broken": ("getLedgerEntries", raises(HttpAnswer(500)), NodeUnavailable),
    "a web page": ("getLedgerEntries", raises(HttpAnswer(200, b"<html>")), InconsistentAnswer),
    "an error": ("getLedgerEntries", raises(RpcError(-32602, "no")), RetryableChainError),
    "no such method": ("getLedgerEntries", raises(RpcError(-32601, "no")), PermanentChainError),
    "key refused": ("getLedgerEntries", raises(HttpAnswer(403)), PermanentChainError),
    "no list": ("getLedgerEntries", answers({"latestLedger": 20}), InconsistentAnswer),
    "no ledger": ("getLedgerEntries", answers({"entries": []}), InconsistentAnswer),
    "the beginning": (
        "getLedgerEntries",
        answers({"entries": [], "latestLedger": 0}),
        InconsistentAnswer,
    ),
    "far behind": ("getLedgerEntries", answers(entries_answer(latest=7)), NodeBehind),
    "another account": (
        "getLedgerEntries",
        answers(entries_answer(make_account_entry(BOB))),
        InconsistentAnswer,
    ),
    "two entries": (
        "getLedgerEntries",
        answers(entries_answer(*2 * [make_account_entry(ALICE)])),
        InconsistentAnswer,
    ),
    "broken XDR": ("getLedgerEntries", answers(entries_answer("AAAA")), InconsistentAnswer),
    "no XDR": (
        "getLedgerEntries",
        answers({"entries": ["AAAA"], "latestLedger": 20}),
        InconsistentAnswer,
    ),
}


def test_ledger_of_last_number_is_read(node, reader) -> None:
    snapshot = reader.snapshot(ALICE)
    assert snapshot is not None
    # The entry has no seqLedger: it counts as spent where the entry changed last.
    assert (snapshot.ledger, snapshot.sequence, snapshot.sequence_ledger) == (20, 1, 1)
    node.entries[account_key(ALICE)] = make_account_entry(ALICE, seq_ledger=17)
    snapshot = reader.snapshot(ALICE)
    assert snapshot is not None
    assert snapshot.sequence_ledger == 17


def test_account_without_ledger_of_change_is_inconsistent(node, reader) -> None:
    entry = {"key": "", "xdr": make_account_entry(ALICE)}
    node.answer_with("getLedgerEntries", answers({"entries": [entry], "latestLedger": 20}))
    with pytest.raises(InconsistentAnswer, match="lastModifiedLedgerSeq"):
        reader.snapshot(ALICE)


@pytest.mark.parametrize("case", NOT_DEFINITIVE)
def test_indefinite_answer_raises_and_is_never_none(node, reader, case) -> None:
    method, answer, error = NOT_DEFINITIVE[case]
    node.answer_with(method, answer)
    with pytest.raises(error):
        reader.signing_rules(ALICE)


def test_trustline_is_parsed_or_none(node, reader) -> None:
    assert reader.trustline(ALICE, CHAIN.usdc) is None
    node.entries[trustline_key(ALICE, CHAIN.usdc)] = make_trustline_entry(
        ALICE, CHAIN.usdc, limit=7
    )
    line = reader.trustline(ALICE, CHAIN.usdc)
    assert line is not None
    assert (line.room, line.is_authorized) == (7, True)
    assert reader.trustline(BOB, CHAIN.usdc) is None


@pytest.mark.parametrize(
    "entry",
    [
        make_trustline_entry(BOB, CHAIN.usdc),
        make_trustline_entry(ALICE, str(CHAIN.usdt0)),
        make_account_entry(ALICE),
    ],
    ids=["another account's", "of another asset", "no trustline"],
)
def test_wrong_trustline_raises_and_is_never_none(node, reader, entry) -> None:
    node.answer_with("getLedgerEntries", answers(entries_answer(entry)))
    with pytest.raises(InconsistentAnswer):
        reader.trustline(ALICE, CHAIN.usdc)


def test_unreachable_node_raises(node) -> None:
    reader = AccountReader(CHAIN, ["http://127.0.0.1:1"])
    with pytest.raises(NodeUnavailable):
        reader.signing_rules(ALICE)
    reader.close()


def test_hanging_node_times_out(node) -> None:
    over = threading.Event()
    node.answer_with("getLedgerEntries", lambda _params, _usual: over.wait(30))
    reader = AccountReader(CHAIN, [node.url], timeout=0.1)
    with pytest.raises(NodeUnavailable):
        reader.signing_rules(ALICE)
    over.set()
    reader.close()


def test_failover_node_stays_first(node) -> None:
    with serving(FakeStellarNode(latest=20)) as broken:
        broken.answer_with("getLedgerEntries", raises(HttpAnswer(503)))
        reader = AccountReader(CHAIN, [broken.url, node.url], timeout=20.0)
        assert reader.signing_rules(ALICE) is not None
        broken.calls.clear()
        assert reader.signing_rules(ALICE) is not None
        assert broken.calls == []
        reader.close()


def test_foreign_node_is_skipped(node) -> None:
    with serving(FakeStellarNode(latest=20, passphrase="another")) as stranger:
        stranger.answer_with("getLedgerEntries", answers(entries_answer()))
        reader = AccountReader(CHAIN, [stranger.url, node.url], timeout=20.0)
        assert reader.signing_rules(ALICE) is not None
        assert requests(stranger) == ["getNetwork"]
        reader.close()


def test_failover_ends_at_the_deadline(node, monkeypatch) -> None:
    monkeypatch.setattr(node_pool, "FAILOVER_SECONDS", -1.0)
    reader = AccountReader(CHAIN, ["http://127.0.0.1:1", node.url], timeout=20.0)
    with pytest.raises(NodeUnavailable):
        reader.signing_rules(ALICE)
    assert node.calls == []
    reader.close()


def test_accounts_need_an_http_node() -> None:
    with pytest.raises(ConfigurationError, match="stellar:devnet needs a node with an http"):
        AccountReader(CHAIN, ["ws://127.0.0.1:1"])


def test_accounts_need_a_node_of_the_chain(node) -> None:
    reader = open_accounts(load_settings({"ISTHMUS_RPC_STELLAR_DEVNET": node.url}))
    assert reader.signing_rules(ALICE) is not None
    reader.close()
    without = load_settings({})
    bare: Settings = dataclasses.replace(without, nodes={})
    with pytest.raises(ConfigurationError, match="set ISTHMUS_RPC_STELLAR_DEVNET"):
        open_accounts(bare)
