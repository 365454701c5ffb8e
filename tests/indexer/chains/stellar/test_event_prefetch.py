"""Events that are requested before their ledgers are read are the same, and requested once."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from indexer.chains import range_size
from indexer.chains.ports import Range
from indexer.chains.stellar import event_pages
from indexer.chains.stellar.event_pages import EventNode
from indexer.chains.stellar.filters import event_filters
from indexer.chains.stellar.reader import StellarReader
from indexer.errors import InconsistentAnswer, NodeUnavailable
from tests.factories.stellar_events import make_escrow_event
from tests.factories.stellar_node import FakeStellarNode, RpcError, serving
from tests.indexer.chains.stellar.test_reader import CHAIN
from warehouse_schema.identifiers import Height

LATEST = 20
EVENTS = [
    make_escrow_event("deposit", ledger=ledger, chain=CHAIN.id)
    for ledger in range(LATEST - 5, LATEST + 5)
]
"""One of each ledger."""


@pytest.fixture
def node() -> Iterator[FakeStellarNode]:
    with serving(FakeStellarNode(latest=LATEST)) as node:
        node.emit(*EVENTS)
        yield node


@pytest.fixture
def reader(node: FakeStellarNode) -> Iterator[StellarReader]:
    reader = StellarReader(CHAIN, [node.url], timeout=20)
    yield reader
    reader.close()


def read(reader: StellarReader, first: int, last: int) -> list[int]:
    """Ledgers of the events that are read."""
    found = reader.read_full(Height(first), Height(last), [])
    assert isinstance(found, Range)
    heights: list[int] = [block.height for block in found.blocks]
    assert heights == list(range(first, heights[-1] + 1))
    assert [event.seen.height for event in found.events] == heights
    return heights


def close_ledgers(node: FakeStellarNode, reader: StellarReader, count: int = 1) -> int:
    """The head after more ledgers, of a reader that has read the one before."""
    reader.head()
    read(reader, LATEST, LATEST)
    for _ in range(count):
        node.close_ledger()
    return reader.head().height


def requested(node: FakeStellarNode) -> list[tuple[int, int]]:
    """First and last ledger of each request."""
    return [(call["startLedger"], call["endLedger"] - 1) for call in node.requests("getEvents")]


def test_events_of_new_head_are_requested_once(
    node: FakeStellarNode, reader: StellarReader
) -> None:
    assert close_ledgers(node, reader) == 21
    # The header is there: so the request came before.
    assert read(reader, 21, 21) == [21]
    assert requested(node) == [(20, 20), (21, 21)]
    assert read(reader, 21, 21) == [21]
    assert requested(node) == [(20, 20), (21, 21), (21, 21)]


def test_ledgers_that_closed_meanwhile_are_read_next(
    node: FakeStellarNode, reader: StellarReader
) -> None:
    """At least the first of them, of which the events are there."""
    reader.head()
    assert read(reader, LATEST - 1, LATEST) == [19, 20]
    node.close_ledger()
    reader.head()
    node.close_ledger()
    reader.head()
    assert read(reader, 21, 22) == [21]
    assert read(reader, 22, 22) == [22]
    assert requested(node) == [(19, 20), (21, 21), (22, 22)]


def test_behind_the_head_the_next_ledgers_are_requested(
    node: FakeStellarNode, reader: StellarReader
) -> None:
    reader.head()
    assert read(reader, 15, 16) == [15, 16]
    # As many as were wanted before.
    assert read(reader, 17, 20) == [17, 18]
    assert read(reader, 19, 20) == [19, 20]
    assert requested(node) == [(15, 16), (17, 18), (19, 20)]


def test_range_that_is_not_wanted_is_requested_again(
    node: FakeStellarNode, reader: StellarReader
) -> None:
    reader.head()
    read(reader, 15, 16)
    assert read(reader, 17, 17) == [17]
    assert read(reader, 15, 15) == [15]
    assert {(15, 15), (15, 16), (17, 17)} <= set(requested(node))


def test_behind_the_head_as_many_ledgers_are_requested_as_were_wanted(
    node: FakeStellarNode, reader: StellarReader
) -> None:
    """Not as many as there were: at the head that is one."""
    head = close_ledgers(node, reader)
    for _ in range(3):
        node.close_ledger()
    assert reader.head().height == head + 3
    assert read(reader, head, head + 3) == [21]
    assert read(reader, head + 1, head + 3) == [22, 23, 24]


@pytest.mark.parametrize("per_call", [1, 2, 100])
def test_range_of_too_many_events_ends_earlier(
    node: FakeStellarNode, reader: StellarReader, monkeypatch: pytest.MonkeyPatch, per_call: int
) -> None:
    monkeypatch.setattr(range_size, "MAX_EVENTS", 2)
    monkeypatch.setattr(EventNode, "events_per_call", per_call)
    heights = read(reader, 15, 20)
    # A page with all of them is there at once.
    assert heights == ([15] if per_call < 3 else list(range(15, 21)))
    monkeypatch.setattr(range_size, "MAX_EVENTS", 0)
    assert read(reader, 18, 20) == ([18] if per_call < 3 else [18, 19, 20])


def test_ledger_of_the_cursor_is_not_taken_for_whole(
    node: FakeStellarNode, reader: StellarReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway's cursor may be no event of its page."""
    monkeypatch.setattr(range_size, "MAX_EVENTS", 2)
    monkeypatch.setattr(EventNode, "events_per_call", 3)
    inside = f"{17 << 32 | 5:019d}-0000000001"
    node.answer_with("getEvents", lambda _, real: real() | {"cursor": inside})
    assert read(reader, 15, 20) == [15, 16]


def test_range_that_ends_earlier_has_the_events_of_all_filters(
    node: FakeStellarNode, reader: StellarReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second set of filters, which stands for other contracts, reaches less far."""
    first, second = event_filters(CHAIN)[0][:1], event_filters(CHAIN)[0]
    monkeypatch.setattr(event_pages, "event_filters", lambda _: [first, second])
    monkeypatch.setattr(range_size, "MAX_EVENTS", 4)
    monkeypatch.setattr(EventNode, "events_per_call", 3)
    seen: list[int] = []
    while not seen or seen[-1] < LATEST:
        seen += read(reader, seen[-1] + 1 if seen else 15, LATEST)
    assert seen == list(range(15, 21))


def test_ledger_is_read_whole_however_many_events_it_has(
    node: FakeStellarNode, reader: StellarReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_size, "MAX_EVENTS", 2)
    monkeypatch.setattr(EventNode, "events_per_call", 1)
    node.emit(*(make_escrow_event("deposit", ledger=17, index=n, chain=CHAIN.id) for n in (1, 2)))
    for last in (17, 20):
        found = reader.read_full(Height(17), Height(last), [])
        assert isinstance(found, Range)
        assert [block.height for block in found.blocks] == [17]
        assert len(found.events) == 3


@pytest.mark.parametrize("fails", [True, False], ids=["node fails", "node is verified again"])
def test_events_of_before_a_failure_are_not_used(
    node: FakeStellarNode, reader: StellarReader, fails: bool
) -> None:
    """Another instance behind the same URL may have given them."""

    def without_events(params: Any, real: Callable[[], Any]) -> Any:
        page = real()
        return page | {"events": []} if params["startLedger"] == 17 else page

    node.answer_with("getEvents", without_events)
    reader.head()
    assert read(reader, 15, 16) == [15, 16]
    wait_for_request(node, 17)
    node.answer_with("getEvents", lambda _, real: real())
    if fails:
        node.answer_with("getHealth", refuse)
        with pytest.raises(NodeUnavailable):
            reader.head()
        node.answer_with("getHealth", lambda _, real: real())
    else:
        reader.check_identity()
    assert read(reader, 17, 18) == [17, 18]


def wait_for_request(node: FakeStellarNode, first: int) -> None:
    """Until the node has answered a request for ledgers from there on."""
    deadline = time.monotonic() + 60
    while first not in [call["startLedger"] for call in node.requests("getEvents")]:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_failed_read_requests_nothing_ahead(node: FakeStellarNode, reader: StellarReader) -> None:
    reader.head()
    read(reader, 15, 16)
    wait_for_request(node, 17)
    node.answer_with("getHealth", refuse)
    with pytest.raises(NodeUnavailable):
        reader.head()
    node.answer_with("getHealth", lambda _, real: real())
    node.close_ledger()
    reader.head()
    assert requested(node) == [(15, 16), (17, 18)]


def test_cursor_that_goes_back_is_refused(node: FakeStellarNode, reader: StellarReader) -> None:
    cursors = itertools.cycle(["0000000073014444032-0000000002", "0000000073014444032-0000000001"])
    node.answer_with("getEvents", lambda _, real: real() | {"cursor": next(cursors)})
    with pytest.raises(InconsistentAnswer, match="stands still"):
        read(reader, 17, 18)


def test_failed_request_ahead_is_a_failed_read(
    node: FakeStellarNode, reader: StellarReader
) -> None:
    calls = itertools.count()

    def fail_second(_: Any, real: Callable[[], Any]) -> Any:
        if next(calls) == 1:
            raise RpcError(-32603, "out of memory")
        return real()

    node.answer_with("getEvents", fail_second)
    head = close_ledgers(node, reader)
    with pytest.raises(NodeUnavailable, match="out of memory"):
        read(reader, head, head)
    assert read(reader, head, head) == [21]


def refuse(_: Any, __: Any) -> Any:
    raise RpcError(-32603, "out of memory")


def test_events_of_failed_node_are_not_used(node: FakeStellarNode) -> None:
    """What one node said of a ledger is not checked against the header of another."""
    with serving(FakeStellarNode(latest=LATEST + 1)) as other:
        node.emit(make_escrow_event("deposit", ledger=21, index=1, chain=CHAIN.id))
        other.emit(*EVENTS)
        reader = StellarReader(CHAIN, [node.url, other.url], timeout=20)
        head = close_ledgers(node, reader)
        node.answer_with("getLedgers", refuse)
        with pytest.raises(NodeUnavailable):
            reader.block(Height(1))
        assert read(reader, head, head) == [21]
        reader.close()


def test_slow_request_ahead_delays_no_other_node(node: FakeStellarNode) -> None:
    ended, waited = threading.Event(), []

    def slow(_: Any, real: Callable[[], Any]) -> Any:
        waited.append(ended.wait(60))
        return real()

    with serving(FakeStellarNode(latest=LATEST + 1)) as other:
        other.emit(*EVENTS)
        reader = StellarReader(CHAIN, [node.url, other.url], timeout=60)
        reader.head()
        read(reader, LATEST, LATEST)
        node.answer_with("getEvents", slow)
        node.answer_with("getLedgers", refuse)
        node.close_ledger()
        with pytest.raises(NodeUnavailable):
            reader.head()
        head = reader.head().height
        assert read(reader, head, head) == [21]
        assert not waited
        ended.set()
        reader.close()
