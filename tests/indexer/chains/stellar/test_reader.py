import dataclasses
import itertools
import threading
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from stellar_sdk import scval, xdr

from indexer.chains import range_size
from indexer.chains.ports import ChainReader, StellarEvent
from indexer.chains.stellar import reader as stellar
from indexer.chains.stellar.event_pages import EventNode
from indexer.chains.stellar.reader import StellarReader
from indexer.chains.stellar.rpc import StellarRpc, UnknownMethod
from indexer.config.networks import load_network
from indexer.errors import (
    ConfigurationError,
    InconsistentAnswer,
    IndexerError,
    NodeBehind,
    NodeUnavailable,
    PermanentChainError,
    RangeTooWide,
    RetentionGap,
    RetryableChainError,
    UnsupportedProtocol,
    WrongChain,
)
from tests.factories.stellar_events import (
    ESCROW,
    RAIL_TERMS,
    account,
    contract,
    make_asset_event,
    make_escrow_event,
    make_rail_terms_event,
)
from tests.factories.stellar_node import PASSPHRASE, FakeStellarNode, HttpAnswer, RpcError, serving
from tests.factories.stellar_recorded import TESTNET
from warehouse_schema.identifiers import Height

CHAIN = dataclasses.replace(
    TESTNET,
    passphrase=PASSPHRASE,
    oft=contract("oft"),
    lz_endpoint=contract("endpoint"),
    escrow=ESCROW,
    rail_terms=RAIL_TERMS,
)
USDC = CHAIN.usdc.removeprefix("stellar:")
ALICE, BOB = account("alice"), account("bob")


@pytest.fixture
def node() -> Iterator[FakeStellarNode]:
    with serving(FakeStellarNode(latest=20)) as node:
        yield node


@pytest.fixture
def reader(node: FakeStellarNode) -> Iterator[ChainReader]:
    reader = StellarReader(CHAIN, [node.url], timeout=20)
    yield reader
    reader.close()


def h(height: int) -> Height:
    return Height(height)


def _escrow(ledger: int, index: int = 0, **fields: Any) -> StellarEvent:
    return make_escrow_event("deposit", ledger=ledger, index=index, chain=CHAIN.id, **fields)


def _transfer(sender: str, recipient: str, ledger: int, **where: Any) -> StellarEvent:
    return make_asset_event(
        "transfer",
        sender,
        recipient,
        asset=USDC,
        emitter=CHAIN.usdc_contract,
        data=scval.to_int128(5),
        ledger=ledger,
        chain=CHAIN.id,
        **where,
    )


def _ids(events: Any) -> list[str]:
    return [event.event_id for event in events]


# Who the node is.


def test_node_of_our_chain_is_accepted(reader: ChainReader) -> None:
    reader.check_identity()


def test_node_of_another_network_is_refused(node: FakeStellarNode, reader: ChainReader) -> None:
    node.passphrase = "Test SDF Network ; September 2015"
    with pytest.raises(WrongChain, match="Test SDF Network"):
        reader.check_identity()
    with pytest.raises(WrongChain):
        reader.head()


def test_protocol_newer_than_our_xdr_is_refused(node: FakeStellarNode, reader: ChainReader) -> None:
    node.protocol = 31
    with pytest.raises(UnsupportedProtocol, match="31"):
        reader.check_identity()


def test_reader_needs_an_http_url() -> None:
    with pytest.raises(ConfigurationError, match="http"):
        StellarReader(CHAIN, ["ws://127.0.0.1:1"])


# Heads and blocks.


def test_head_is_the_latest_ledger_of_the_node(node: FakeStellarNode, reader: ChainReader) -> None:
    head = reader.head()
    assert (head.height, head.hash, head.protocol_version) == (20, node.hash_of(20), 26)
    assert head.time == 1_700_000_100
    node.close_ledger()
    assert reader.head().height == 21


def test_head_never_decreases(node: FakeStellarNode, reader: ChainReader) -> None:
    assert reader.head().height == 20
    node.headers.pop()
    assert reader.head().height == 20


def test_unhealthy_node_is_unavailable(node: FakeStellarNode, reader: ChainReader) -> None:
    def stale(_: Any, __: Any) -> Any:
        raise RpcError(-32603, "latency (60s) since last known ledger closed is too high")

    node.answer_with("getHealth", stale)
    with pytest.raises(NodeUnavailable, match="latency"):
        reader.head()
    node.answer_with("getHealth", lambda _, real: real() | {"status": "catching up"})
    with pytest.raises(NodeUnavailable, match="catching up"):
        reader.head()


def test_future_ledger_is_behind_and_old_one_a_gap(
    node: FakeStellarNode, reader: ChainReader
) -> None:
    node.oldest = 5
    with pytest.raises(NodeBehind, match="21"):
        reader.block(h(21))
    with pytest.raises(RetentionGap, match="the node has 5 on"):
        reader.block(h(4))
    assert reader.block(h(5)).parent_hash == node.hash_of(4)


def test_waiting_ends_when_a_ledger_closes(node: FakeStellarNode, reader: ChainReader) -> None:
    closing = threading.Timer(0.2, node.close_ledger)
    closing.start()
    head = reader.wait_for_head(h(20), 10)
    closing.join()
    assert head is not None
    assert head.height == 21


def test_wait_for_head_times_out(reader: ChainReader, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(stellar, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: now))
    assert reader.wait_for_head(h(20), 0.5) is None
    assert now == 1_000.5


def test_wait_for_head_returns_known_head_at_once(reader: ChainReader) -> None:
    head = reader.wait_for_head(h(19), 0)
    assert head is not None
    assert head.height == 20


# Ranges.


def test_range_has_every_ledger_and_wanted_event(
    node: FakeStellarNode, reader: ChainReader
) -> None:
    wanted = [
        _escrow(3),
        _escrow(5, index=0),
        make_rail_terms_event("terms_set", ledger=5, index=1, chain=CHAIN.id),
        _transfer(ALICE, BOB, 7),
        _transfer(BOB, ALICE, 7, index=1),
        _escrow(8),
    ]
    node.emit(
        *reversed(wanted),
        _escrow(2),
        _escrow(9),
        _transfer(BOB, account("carol"), 4),
        _escrow(6, emitter=contract("somebody's")),
    )
    node.emit(_escrow(4), successful=False)
    given = reader.read(h(3), h(8), [ALICE])
    assert [block.height for block in given.blocks] == [3, 4, 5, 6, 7, 8]
    assert [block.hash for block in given.blocks] == [node.hash_of(n) for n in range(3, 9)]
    assert _ids(given.events) == _ids(wanted)
    for event in given.events:
        assert event.seen.block_hash == node.hash_of(event.seen.height)
    placed = [
        dataclasses.replace(e, seen=w.seen) for e, w in zip(given.events, wanted, strict=True)
    ]
    assert placed == wanted


def test_ledgers_without_wanted_events_are_returned(reader: ChainReader) -> None:
    given = reader.read(h(1), h(20), [])
    assert len(given.blocks) == 20
    assert given.events == ()


def test_transfer_between_watched_is_returned_once(
    node: FakeStellarNode, reader: ChainReader
) -> None:
    node.emit(_transfer(ALICE, BOB, 7), _transfer(account("a stranger"), account("another"), 7))
    for watched in ([ALICE], [BOB], [ALICE, BOB]):
        (event,) = reader.read(h(7), h(7), watched).events
        assert isinstance(event, StellarEvent)
        assert event.topics[1] == scval.to_address(ALICE).to_xdr_bytes()
    assert reader.read(h(7), h(7), []).events == ()


def test_number_of_calls_ignores_watched_accounts(
    node: FakeStellarNode, reader: ChainReader
) -> None:
    node.emit(_transfer(ALICE, BOB, 7))
    accounts = [ALICE, *(account(f"watched {n}") for n in range(500))]
    assert len(reader.read(h(7), h(7), accounts).events) == 1
    # 7 contracts and 2 tokens make one call of 2 filters.
    assert [len(call["filters"]) for call in node.requests("getEvents")] == [2]


def test_approval_of_watched_account_is_left_out(
    node: FakeStellarNode, reader: ChainReader
) -> None:
    approval = make_asset_event(
        "approve",
        ALICE,
        BOB,
        asset=USDC,
        emitter=CHAIN.usdc_contract,
        data=scval.to_int128(5),
        ledger=7,
        chain=CHAIN.id,
    )
    node.emit(approval)
    assert reader.read(h(7), h(7), [ALICE, BOB]).events == ()


@pytest.mark.parametrize("per_call", [1, 2, 3, 7, 8])
def test_event_pages_join_at_any_boundary(
    node: FakeStellarNode, reader: ChainReader, monkeypatch: pytest.MonkeyPatch, per_call: int
) -> None:
    monkeypatch.setattr(EventNode, "events_per_call", per_call)
    events = [_escrow(ledger, index) for ledger in (3, 4, 9) for index in range(3)]
    node.emit(*events)
    assert _ids(reader.read(h(3), h(9), []).events) == _ids(events)
    assert _ids(reader.read(h(3), h(4), []).events) == _ids(events[:6])


def test_too_many_events_of_several_ledgers_are_refused(
    node: FakeStellarNode, reader: ChainReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.emit(_escrow(3), _escrow(4), _escrow(4, index=1), _transfer(ALICE, BOB, 4, index=2))
    monkeypatch.setattr(EventNode, "events_per_call", 2)
    monkeypatch.setattr(range_size, "MAX_EVENTS", 3)
    # What is not ours does not count.
    assert len(reader.read(h(3), h(4), []).events) == 3
    with pytest.raises(RangeTooWide, match="3 to 4 has over 3 events"):
        reader.read(h(3), h(4), [ALICE])
    monkeypatch.setattr(range_size, "MAX_EVENTS", 0)
    assert len(reader.read(h(4), h(4), [ALICE]).events) == 3


@pytest.mark.parametrize("scan", [1, 2, 3])
def test_empty_page_is_not_the_end(node: FakeStellarNode, reader: ChainReader, scan: int) -> None:
    node.scan = scan
    node.emit(_escrow(2), _escrow(12), _escrow(13))
    assert [e.seen.height for e in reader.read(h(1), h(12), []).events] == [2, 12]


def test_pages_of_ledgers_join(node: FakeStellarNode, reader: ChainReader) -> None:
    def two(params: Any, real: Callable[[], Any]) -> Any:
        page = real()
        return page | {"ledgers": page["ledgers"][:2]}

    node.answer_with("getLedgers", two)
    assert [b.height for b in reader.read(h(3), h(9), []).blocks] == list(range(3, 10))


def test_header_is_requested_once(node: FakeStellarNode, reader: ChainReader) -> None:
    reader.head()
    reader.read(h(20), h(20), [])
    reader.block(h(20))
    assert len(node.requests("getLedgers")) == 1


def test_header_cache_is_limited(
    node: FakeStellarNode, reader: ChainReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stellar, "_MAX_CACHED_HEADERS", 3)
    reader.read(h(1), h(9), [])
    reader.block(h(9))
    requests = len(node.requests("getLedgers"))
    reader.block(h(1))
    assert len(node.requests("getLedgers")) == requests + 1


def test_lagging_instance_is_behind(node: FakeStellarNode, reader: ChainReader) -> None:
    node.answer_with("getEvents", lambda _, real: real() | {"latestLedger": 8})
    with pytest.raises(NodeBehind, match="events end at 8"):
        reader.read(h(7), h(9), [])


def test_instance_past_retention_is_a_gap(node: FakeStellarNode, reader: ChainReader) -> None:
    node.answer_with("getEvents", lambda _, real: real() | {"oldestLedger": 8})
    with pytest.raises(RetentionGap, match="events begin at 8"):
        reader.read(h(7), h(9), [])


def test_refusal_within_window_is_inconsistent(node: FakeStellarNode, reader: ChainReader) -> None:
    def refuse(_: Any, __: Any) -> Any:
        raise RpcError(-32602, "invalid parameters")

    node.answer_with("getEvents", refuse)
    with pytest.raises(InconsistentAnswer, match="invalid parameters"):
        reader.read(h(7), h(9), [])


# Answers that contradict each other.


def _in_ledgers(**changes: Any) -> tuple[str, Callable[[Any, Any], Any]]:
    def change(_: Any, real: Callable[[], Any]) -> Any:
        page = real()
        page["ledgers"][0] |= changes
        return page

    return "getLedgers", change


def _in_events(**changes: Any) -> tuple[str, Callable[[Any, Any], Any]]:
    def change(_: Any, real: Callable[[], Any]) -> Any:
        page = real()
        page["events"][0] |= changes
        return page

    return "getEvents", change


def _page(method: str, **changes: Any) -> tuple[str, Callable[[Any, Any], Any]]:
    return method, lambda _, real: real() | changes


@pytest.mark.parametrize(
    ("method", "change"),
    [
        _in_ledgers(hash="00" * 32),
        _in_ledgers(sequence=8),
        _in_ledgers(ledgerCloseTime="1"),
        _in_ledgers(headerXdr="AAAA"),
        _in_ledgers(headerXdr="?"),
        _in_ledgers(headerXdr=None),
        _page("getLedgers", ledgers=[1]),
        _page("getLedgers", ledgers="none"),
        _in_events(ledgerClosedAt="2023-11-14T22:14:00Z"),
        _in_events(ledgerClosedAt="yesterday"),
        _in_events(ledger=8),
        _in_events(ledger="7"),
        _in_events(id="7-7"),
        _in_events(contractId=contract("somebody's")),
        _in_events(contractId=None),
        _in_events(txHash=None),
        _in_events(topic=None),
        _in_events(topic=["?"]),
        _in_events(topic=["é"]),
        _in_events(value=None),
        _page("getEvents", cursor=None),
        _page("getEvents", cursor="soon"),
        _page("getEvents", cursor="0000000000000000000-0000000000"),
        _page("getEvents", latestLedger=None),
        _page("getEvents", oldestLedger="1"),
        _page("getHealth", latestLedger=None),
    ],
)
def test_malformed_answer_is_inconsistent(
    node: FakeStellarNode,
    reader: ChainReader,
    method: str,
    change: Callable[[Any, Any], Any],
) -> None:
    node.emit(_escrow(7))
    node.answer_with(method, change)
    ask = reader.head if method == "getHealth" else partial(reader.read, h(7), h(9), [])
    with pytest.raises(InconsistentAnswer, match=node.url.removeprefix("http://")) as caught:
        ask()
    assert str(caught.value).count("127.0.0.1") == 1


def test_event_of_wrong_ledger_is_inconsistent(node: FakeStellarNode, reader: ChainReader) -> None:
    node.emit(_escrow(7))
    node.answer_with(*_in_events(ledger=8))
    with pytest.raises(InconsistentAnswer, match="not of the ledger 8"):
        reader.read(h(7), h(7), [])


def test_event_beyond_range_does_not_end_it(node: FakeStellarNode, reader: ChainReader) -> None:
    def newest_first_without_end(params: Any, real: Callable[[], Any]) -> Any:
        params["endLedger"] += 1
        page = real()
        return page | {"events": page["events"][::-1]}

    node.emit(_escrow(7), _escrow(8))
    node.answer_with("getEvents", newest_first_without_end)
    (event,) = reader.read(h(7), h(7), []).events
    assert event.seen.height == 7


def test_event_without_topics_is_an_event(node: FakeStellarNode, reader: ChainReader) -> None:
    bare = dataclasses.replace(_escrow(7), topics=())
    node.emit(bare)
    (event,) = reader.read(h(7), h(7), []).events
    assert (event, event.topics) == (dataclasses.replace(bare, seen=event.seen), ())


def test_changed_header_is_inconsistent(node: FakeStellarNode, reader: ChainReader) -> None:
    node.headers[6].header.base_fee = xdr.Uint32(1)
    with pytest.raises(InconsistentAnswer, match="does not hash"):
        reader.read(h(6), h(8), [])


def test_ledgers_of_two_histories_are_inconsistent(
    node: FakeStellarNode, reader: ChainReader
) -> None:
    other = FakeStellarNode(latest=6)
    other.headers[-1].header.base_fee = xdr.Uint32(1)
    other.headers[-1].hash = xdr.Hash(b"\1" * 32)
    other.close_ledger()
    node.headers[6] = other.headers[6]
    with pytest.raises(InconsistentAnswer, match="7 does not follow 6"):
        reader.read(h(6), h(7), [])


def test_one_id_with_two_events_is_inconsistent(node: FakeStellarNode, reader: ChainReader) -> None:
    node.emit(_escrow(7), _escrow(7, amount=1))
    with pytest.raises(InconsistentAnswer, match="not what was asked for"):
        reader.read(h(7), h(7), [])


def test_record_without_deprecated_flag_is_used(node: FakeStellarNode, reader: ChainReader) -> None:
    def without_flag(_: Any, real: Callable[[], Any]) -> Any:
        page = real()
        for event in page["events"]:
            del event["inSuccessfulContractCall"]
        return page

    node.emit(_escrow(7))
    node.answer_with("getEvents", without_flag)
    assert len(reader.read(h(7), h(7), []).events) == 1


def test_inconsistent_node_loses_cached_headers(node: FakeStellarNode, reader: ChainReader) -> None:
    reader.read(h(7), h(8), [])
    node.answer_with(*_page("getEvents", cursor="soon"))
    with pytest.raises(InconsistentAnswer):
        reader.read(h(7), h(8), [])
    node.answer_with("getEvents", lambda _, real: real())
    requests = len(node.requests("getLedgers"))
    reader.read(h(7), h(8), [])
    assert len(node.requests("getLedgers")) == requests + 1


# Nodes that fail.


@pytest.mark.parametrize(
    ("answer", "wide", "narrow"),
    [
        (HttpAnswer(429), NodeUnavailable, NodeUnavailable),
        (HttpAnswer(500, b"oops"), NodeUnavailable, NodeUnavailable),
        (HttpAnswer(503), NodeUnavailable, NodeUnavailable),
        (HttpAnswer(413), RangeTooWide, NodeUnavailable),
        (HttpAnswer(504), RangeTooWide, NodeUnavailable),
        (HttpAnswer(401), PermanentChainError, PermanentChainError),
        (HttpAnswer(403), PermanentChainError, PermanentChainError),
        (HttpAnswer(404), PermanentChainError, PermanentChainError),
        (HttpAnswer(200, b"<html>"), InconsistentAnswer, InconsistentAnswer),
        (HttpAnswer(200, b"[]"), InconsistentAnswer, InconsistentAnswer),
        (RpcError(-32001, "request exceeded"), RangeTooWide, NodeUnavailable),
        (RpcError(-32003, "aborted"), NodeUnavailable, NodeUnavailable),
        (RpcError(-32005, "slow down"), NodeUnavailable, NodeUnavailable),
        (RpcError(-32601, "method not found"), UnknownMethod, UnknownMethod),
    ],
)
def test_failure_is_retryable_or_permanent(
    node: FakeStellarNode,
    reader: ChainReader,
    answer: Exception,
    wide: type[IndexerError],
    narrow: type[IndexerError],
) -> None:
    def fail(_: Any, __: Any) -> Any:
        raise answer

    node.answer_with("getEvents", fail)
    for last, error in ((9, wide), (7, narrow)):
        with pytest.raises(error) as raised:
            reader.read(h(7), h(last), [])
        assert type(raised.value) is error


def test_retry_after_of_the_node_is_used(node: FakeStellarNode, reader: ChainReader) -> None:
    for header, seconds in (("7", 7.0), ("Wed, 21 Oct 2026 07:28:00 GMT", None)):

        def fail(_: Any, __: Any, header: str = header) -> Any:
            raise HttpAnswer(429, retry_after=header)

        node.answer_with("getHealth", fail)
        with pytest.raises(NodeUnavailable) as raised:
            reader.head()
        assert raised.value.retry_after == seconds


def test_unreachable_node_is_unavailable() -> None:
    reader = StellarReader(CHAIN, ["http://user:secret@127.0.0.1:1/key"], timeout=20)
    with pytest.raises(NodeUnavailable, match=r"127\.0\.0\.1:1") as raised:
        reader.head()
    assert "secret" not in str(raised.value)
    assert "key" not in str(raised.value)
    reader.close()


def test_unresponsive_node_is_unavailable(node: FakeStellarNode) -> None:
    answered = threading.Event()

    def slow(_: Any, real: Callable[[], Any]) -> Any:
        answered.wait(5)
        return real()

    node.answer_with("getNetwork", slow)
    reader = StellarReader(CHAIN, [node.url], timeout=0.1)
    with pytest.raises(NodeUnavailable, match="ReadTimeout"):
        reader.head()
    answered.set()
    reader.close()


def test_next_node_is_asked_after_failure(node: FakeStellarNode) -> None:
    reader = StellarReader(CHAIN, ["http://127.0.0.1:1", node.url], timeout=20)
    with pytest.raises(NodeUnavailable):
        reader.head()
    assert reader.head().height == 20
    reader.close()


def test_failover_node_must_serve_our_chain(node: FakeStellarNode) -> None:
    with serving(FakeStellarNode(latest=20, passphrase="another network")) as stranger:
        reader = StellarReader(CHAIN, [node.url, stranger.url], timeout=20)
        reader.check_identity()

        def fail(_: Any, __: Any) -> Any:
            raise HttpAnswer(503)

        node.answer_with("getHealth", fail)
        with pytest.raises(RetryableChainError):
            reader.head()
        # The stranger is dropped, and never asked for more than its name.
        for _ in range(3):
            with pytest.raises(RetryableChainError):
                reader.head()
        assert [method for method, _ in stranger.calls] == ["getNetwork"]
        node.answer_with("getHealth", lambda _, real: real())
        assert reader.head().height == 20
        reader.close()


def test_chain_stops_when_all_nodes_are_foreign(node: FakeStellarNode) -> None:
    node.passphrase = "another network"
    with serving(FakeStellarNode(latest=20, passphrase="a third one")) as stranger:
        reader = StellarReader(CHAIN, [node.url, stranger.url], timeout=20)
        with pytest.raises(WrongChain, match="a third one"):
            reader.check_identity()
        reader.close()


@pytest.mark.parametrize("answer", [*map(HttpAnswer, (401, 403, 404, 405)), RpcError(-32601, "?")])
@pytest.mark.parametrize("method", ["getNetwork", "getHealth", "getEvents"])
def test_chain_stops_only_when_every_node_refuses(
    node: FakeStellarNode, method: str, answer: Exception
) -> None:
    def refuse(_: Any, __: Any) -> Any:
        raise answer

    node.answer_with(method, refuse)
    with serving(FakeStellarNode(latest=20)) as spare:
        reader = StellarReader(CHAIN, [node.url, spare.url], timeout=20)
        assert reader.head().height == 20
        assert len(reader.read(h(7), h(9), []).blocks) == 3
        spare.answer_with(method, refuse)
        with pytest.raises(PermanentChainError):
            ask_everything(reader)
        reader.close()


def ask_everything(reader: StellarReader) -> None:
    reader.check_identity()
    reader.head()
    reader.read(h(7), h(9), [])


def test_next_node_is_asked_after_retention_gap(node: FakeStellarNode) -> None:
    node.oldest = 8
    with serving(FakeStellarNode(latest=20)) as spare:
        reader = StellarReader(CHAIN, [node.url, spare.url], timeout=20)
        assert reader.read(h(5), h(6), []).blocks[0].height == 5
        spare.oldest = 7
        for ask in (lambda: reader.read(h(3), h(4), []), lambda: reader.block(h(3))):
            with pytest.raises(RetentionGap):
                ask()
        # One that cannot say is no witness that it is gone.
        spare.answer_with("getLedgers", lambda _, real: real() | {"ledgers": "none"})
        spare.oldest = 1
        with pytest.raises(RetryableChainError):
            reader.block(h(3))
        reader.close()


@pytest.mark.parametrize("fault", [{"latestLedger": None}, {"status": "catching up"}])
def test_node_with_malformed_health_is_skipped(
    node: FakeStellarNode, fault: dict[str, Any]
) -> None:
    node.answer_with("getHealth", lambda _, real: real() | fault)
    with serving(FakeStellarNode(latest=19)) as spare:
        reader = StellarReader(CHAIN, [node.url, spare.url], timeout=20)
        with pytest.raises(RetryableChainError):
            reader.head()
        assert reader.head().height == 19
        reader.close()


def test_call_parameters_are_sent_by_name(node: FakeStellarNode, reader: ChainReader) -> None:
    reader.read(h(7), h(9), [])
    (ledgers,) = node.requests("getLedgers")
    assert ledgers == {"startLedger": 7, "pagination": {"limit": 3}}
    (events,) = node.requests("getEvents")
    assert (events["startLedger"], events["endLedger"]) == (7, 10)
    assert list(itertools.chain(*(f["contractIds"] for f in events["filters"]))) == [
        *CHAIN.event_contracts,
        *CHAIN.tokens,
    ]


def test_skipped_member_is_not_parsed(node: FakeStellarNode) -> None:
    result = r'{"a":[{"raw":"\x","b":1},{"raw":"","b":"\"raw\":\"y\""}],"raw":"z"}'
    body = f'{{"jsonrpc":"2.0","id":1,"result":{result}}}'

    def answer(_: Any, __: Any) -> Any:
        raise HttpAnswer(200, body.encode())

    node.answer_with("getLedgers", answer)
    rpc = StellarRpc(node.url, timeout=20)
    assert rpc.call("getLedgers", {}, skipped="raw") == {
        "a": [{"raw": "", "b": 1}, {"raw": "", "b": '"raw":"y"'}],
        "raw": "",
    }
    with pytest.raises(InconsistentAnswer):
        rpc.call("getLedgers", {})
    rpc.close()


def test_error_in_body_overrides_http_status(node: FakeStellarNode) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"out of range"}}'

    def fail(_: Any, __: Any) -> Any:
        raise HttpAnswer(400, body)

    node.answer_with("getHealth", fail)
    rpc = StellarRpc(node.url, timeout=20)
    with pytest.raises(RetryableChainError, match="out of range"):
        rpc.call("getHealth", {})
    rpc.close()


def test_reader_opens_for_every_network() -> None:
    for name in ("mainnet", "testnet"):
        StellarReader(load_network(name).stellar, ["http://127.0.0.1:1"]).close()
