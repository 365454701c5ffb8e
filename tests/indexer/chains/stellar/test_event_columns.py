"""Ledgers read as columns hold the events that are read one by one, or no columns are made."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from stellar_sdk import scval

from indexer.chains.ports import Range, StellarEvent
from indexer.chains.stellar import event_pages
from indexer.chains.stellar.event_columns import LedgerColumns, events_from_frame
from indexer.chains.stellar.event_pages import EventNode
from indexer.chains.stellar.reader import StellarReader
from indexer.errors import InconsistentAnswer, NodeBehind, NodeUnavailable
from tests.factories.stellar_events import account, contract, make_asset_event, make_escrow_event
from tests.factories.stellar_node import FakeStellarNode, HttpAnswer, RpcError, serving
from tests.indexer.chains.stellar.test_reader import CHAIN, USDC
from warehouse_schema.identifiers import Height

NEW = 21
ALICE, BOB, CAROL = account("alice"), account("bob"), account("carol")
Change = Callable[[list[dict[str, Any]]], None]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_pages, "MIN_COLUMNAR", 1)


@pytest.fixture
def node() -> Iterator[FakeStellarNode]:
    with serving(FakeStellarNode(latest=NEW - 1)) as node:
        yield node


@pytest.fixture
def reader(node: FakeStellarNode) -> Iterator[StellarReader]:
    reader = StellarReader(CHAIN, [node.url], timeout=20)
    yield reader
    reader.close()


def asset_event(name: str, *parties: str, number: int, **given: Any) -> StellarEvent:
    where: dict[str, Any] = {"ledger": NEW, "transaction": 1 + number, "index": number}
    event: dict[str, Any] = {"data": scval.to_int128(5), **where, **given}
    event |= {"asset": USDC, "emitter": CHAIN.usdc_contract, "chain": CHAIN.id}
    return make_asset_event(name, *parties, **event)


EVENTS = [
    asset_event("transfer", ALICE, BOB, number=0),
    asset_event("transfer", BOB, CAROL, number=1),
    asset_event("transfer", contract("pool"), CAROL, number=2),
    asset_event("mint", ALICE, number=3),
    asset_event("mint", CAROL, ALICE, number=4),
    asset_event("burn", BOB, number=5),
    asset_event("clawback", CAROL, number=6),
    asset_event("set_authorized", CAROL, number=7, data=scval.to_bool(True)),
    asset_event("approve", ALICE, BOB, number=8),
    make_escrow_event("deposit", ledger=NEW, transaction=10, operation=4095, chain=CHAIN.id),
    make_escrow_event("deposit", ledger=NEW, transaction=9, index=2**31 - 1, chain=CHAIN.id),
]


def read_new(
    node: FakeStellarNode, reader: StellarReader, watched: list[str]
) -> Range | LedgerColumns:
    """The ledger of `EVENTS`."""
    node.close_ledger()
    head = reader.head().height
    return reader.read_full(head, head, watched)


WATCHED = {
    "everybody": [ALICE, BOB, CAROL],
    "one": [ALICE],
    "another": [CAROL],
    "a contract": [contract("pool")],
    "no account": [],
}


@pytest.mark.parametrize("watched", WATCHED.values(), ids=WATCHED)
def test_columns_hold_the_events_that_are_read(
    node: FakeStellarNode, reader: StellarReader, watched: list[str]
) -> None:
    node.emit(*EVENTS)
    found = read_new(node, reader, watched)
    assert isinstance(found, LedgerColumns)
    assert len(node.requests("getEvents")) == 1
    read = reader.read(Height(NEW), Height(NEW), watched)
    assert tuple(found.blocks) == read.blocks
    assert tuple(events_from_frame(found.events, CHAIN.id)) == read.events
    assert len(read.events) >= 2


def test_event_that_two_filters_give_comes_once(
    node: FakeStellarNode, reader: StellarReader
) -> None:
    node.emit(*EVENTS)
    node.answer_with("getEvents", changing(lambda records: records.append(records[0])))
    found = read_new(node, reader, [ALICE])
    assert isinstance(found, LedgerColumns)
    assert found.events["event_id"].is_unique().all()
    assert found.events["event_id"].is_sorted()


def test_failed_call_is_left_out(node: FakeStellarNode, reader: StellarReader) -> None:
    node.emit(EVENTS[0])
    node.emit(EVENTS[1], successful=False)
    found = read_new(node, reader, [ALICE, BOB])
    assert isinstance(found, LedgerColumns)
    assert found.events["event_id"].to_list() == [EVENTS[0].event_id]


def test_columns_of_several_ledgers(node: FakeStellarNode, reader: StellarReader) -> None:
    """Each event has the hash and the time of its own ledger; a ledger between is empty."""
    ledgers = (NEW - 4, NEW - 3, NEW - 1)
    node.emit(*(asset_event("transfer", ALICE, BOB, number=n, ledger=n) for n in ledgers))
    node.emit(*EVENTS)
    node.close_ledger()
    first, last = Height(NEW - 3), Height(NEW - 1)
    found = reader.read_full(first, last, [ALICE])
    read = reader.read(first, last, [ALICE])
    assert isinstance(found, LedgerColumns)
    assert tuple(found.blocks) == read.blocks
    assert tuple(events_from_frame(found.events, CHAIN.id)) == read.events
    assert [event.seen.height for event in read.events] == [NEW - 3, NEW - 1]


@pytest.mark.parametrize("per_call", [1, 2, 5])
def test_events_after_the_last_ledger_are_left_out(
    node: FakeStellarNode, reader: StellarReader, monkeypatch: pytest.MonkeyPatch, per_call: int
) -> None:
    """A page that continues another one has no end."""
    monkeypatch.setattr(EventNode, "events_per_call", per_call)
    node.emit(*(asset_event("transfer", ALICE, BOB, number=n, ledger=NEW - 1) for n in range(3)))
    node.emit(*EVENTS)
    node.close_ledger()
    first, last = Height(NEW - 2), Height(NEW - 1)
    found = reader.read_full(first, last, [ALICE])
    assert isinstance(found, LedgerColumns)
    read = reader.read(first, last, [ALICE])
    assert tuple(events_from_frame(found.events, CHAIN.id)) == read.events
    assert len(read.events) == 3


def test_few_events_stay_events(
    node: FakeStellarNode, reader: StellarReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_pages, "MIN_COLUMNAR", len(EVENTS) + 1)
    node.emit(*EVENTS)
    assert isinstance(read_new(node, reader, [ALICE]), Range)
    assert len(node.requests("getEvents")) == 1


# What a node gives that is not as it should be.


def changing(change: Change) -> Callable[[Any, Callable[[], Any]], Any]:
    def answer(_: Any, real: Callable[[], Any]) -> Any:
        page = real()
        change(page["events"])
        return page

    return answer


def setting(**members: Any) -> Change:
    """Members of the first record; None leaves one out."""

    def change(records: list[dict[str, Any]]) -> None:
        for name, value in members.items():
            if value is None:
                del records[0][name]
            else:
                records[0][name] = value

    return change


def second_way(records: list[dict[str, Any]]) -> None:
    """One event twice, in two ways."""
    records.append({**records[0], "txHash": "ab" * 32})


REFUSED: dict[str, Change] = {
    "closed at another time": setting(ledgerClosedAt="2023-11-14T22:15:06Z"),
    "no time": setting(ledgerClosedAt="today"),
    "contract that was not asked for": setting(contractId=contract("foreign")),
    "id of another ledger": setting(id=EVENTS[0].event_id.replace("0000", "0001", 1)),
    "id that is none": setting(id="1-2"),
    "index of 32 bits": setting(id=EVENTS[0].event_id[:20] + "4294967295"),
    "ledger that is no number": setting(ledger="21"),
    "value that is no base64": setting(value="!"),
    "value that is no text": setting(value=5),
    "topic that is no base64": setting(topic=["AAAA", "?"]),
    "topic that is no text": setting(topic=["AAAA", 5]),
    "topic with a space": setting(topic=["AAAA AAAA"]),
    "topics that are a text": setting(topic="AAAA"),
    "topics that are an object": setting(topic={"AAAA": 1}),
    "topics in topics": setting(topic=[["AAAA"]]),
    "ledger of 71 bits": setting(ledger=2**70),
    "ledger that is no whole number": setting(ledger=21.5),
    "ledger that is a flag": setting(ledger=True),
    "no contract": setting(contractId=None),
    "no value": setting(value=None),
    "ledger before the one asked for": setting(
        ledger=NEW - 1, id=f"{(NEW - 1) << 32:019d}-0000000000"
    ),
    "ledger after it, which its id does not say": setting(ledger=NEW + 1),
    "one event in two ways": second_way,
}


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_fault_is_what_reading_one_by_one_says(
    node: FakeStellarNode, reader: StellarReader, change: Change
) -> None:
    node.emit(*EVENTS)
    node.answer_with("getEvents", changing(change))
    with pytest.raises(InconsistentAnswer):
        read_new(node, reader, [ALICE])


READ: dict[str, Change] = {
    "hash that is no hex": setting(txHash="not\thex"),
    "hash in upper case": setting(txHash="AB" * 32),
    "no topics": setting(topic=None),
    "an empty list of topics": setting(topic=[]),
    "an event of the next ledger that was not asked for": lambda records: records.append(
        {
            **records[-1],
            "ledger": NEW + 1,
            "id": f"{(NEW + 1) << 32:019d}-0000000000",
            "contractId": contract("foreign"),
        }
    ),
}


@pytest.mark.parametrize("change", READ.values(), ids=READ)
def test_what_columns_do_not_hold_is_read_one_by_one(
    node: FakeStellarNode, reader: StellarReader, change: Change
) -> None:
    node.emit(*EVENTS)
    node.answer_with("getEvents", changing(change))
    found = read_new(node, reader, [ALICE, BOB, CAROL])
    assert isinstance(found, Range)
    assert found == reader.read(Height(NEW), Height(NEW), [ALICE, BOB, CAROL])


def test_base64_with_bits_behind_its_bytes_is_read_one_by_one(
    node: FakeStellarNode, reader: StellarReader
) -> None:
    node.emit(*EVENTS)
    node.answer_with("getEvents", changing(setting(value="AB==")))
    found = read_new(node, reader, [ALICE, BOB])
    assert isinstance(found, Range)
    assert found.events[0].value == b"\0"


def test_large_page_of_one_ledger_is_asked_for_in_smaller_ones(
    node: FakeStellarNode, reader: StellarReader
) -> None:
    node.emit(*EVENTS)

    def refuse(params: Any, real: Callable[[], Any]) -> Any:
        if params["pagination"]["limit"] > 1_000:
            raise HttpAnswer(504)
        return real()

    node.answer_with("getEvents", refuse)
    assert isinstance(read_new(node, reader, [ALICE]), LedgerColumns)
    limits = [call["pagination"]["limit"] for call in node.requests("getEvents")]
    assert limits == [5_000, 1_000]
    node.answer_with("getEvents", lambda *_: _refuse())
    with pytest.raises(NodeUnavailable):
        reader.read(Height(NEW), Height(NEW), [ALICE])
    limits = [call["pagination"]["limit"] for call in node.requests("getEvents")]
    # It is remembered what the node can give.
    assert limits == [5_000, 1_000, 1_000]


def test_refused_limit_is_made_smaller(node: FakeStellarNode, reader: StellarReader) -> None:
    node.emit(*EVENTS)

    def refuse(params: Any, real: Callable[[], Any]) -> Any:
        if params["pagination"]["limit"] > 2_000:
            raise RpcError(-32602, "limit must not exceed 2000")
        return real()

    node.answer_with("getEvents", refuse)
    found = reader.read(Height(NEW - 3), Height(NEW - 1), [ALICE])
    assert isinstance(read_new(node, reader, [ALICE]), LedgerColumns)
    assert [block.height for block in found.blocks] == [NEW - 3, NEW - 2, NEW - 1]
    limits = [call["pagination"]["limit"] for call in node.requests("getEvents")]
    assert limits == [5_000, 1_000, 1_000]


def test_refused_range_does_not_make_pages_smaller(
    node: FakeStellarNode, reader: StellarReader
) -> None:
    node.emit(*EVENTS)
    with pytest.raises(NodeBehind):
        reader.read(Height(NEW), Height(NEW), [ALICE])
    read_new(node, reader, [ALICE])
    limits = [call["pagination"]["limit"] for call in node.requests("getEvents")]
    assert limits[-1] == 5_000


def test_gateway_that_gives_less_than_was_asked_for_loses_nothing(
    node: FakeStellarNode, reader: StellarReader
) -> None:
    node.emit(*EVENTS)

    def capped(params: Any, real: Callable[[], Any]) -> Any:
        params["pagination"]["limit"] = min(params["pagination"]["limit"], 3)
        return real()

    node.answer_with("getEvents", capped)
    found = read_new(node, reader, [ALICE, BOB, CAROL])
    assert isinstance(found, LedgerColumns)
    node.answer_with("getEvents", lambda _, real: real())
    read = reader.read(Height(NEW), Height(NEW), [ALICE, BOB, CAROL])
    assert tuple(events_from_frame(found.events, CHAIN.id)) == read.events
    assert len(read.events) > 3


def _refuse() -> Any:
    raise HttpAnswer(504)
