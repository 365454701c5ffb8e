"""Sequence numbers and last markers of frames that clients share."""

import json

from wsproto.connection import Connection, ConnectionType

from api.stream.audience import Audience
from api.stream.messages import BookChange, ListedOffer, offer_body
from api.stream.outbox import OutboxBatch, ReadPosition
from api.stream.requests import Filters, Topic
from tests.factories.projections import address
from warehouse_schema.identifiers import Height, StellarAddress, UnixSeconds

PROVIDER = StellarAddress(address(1))
EURO, DOLLAR = (Topic("orderbook", PROVIDER, "onramp", c, ("wise",)) for c in ("EUR", "USD"))
OFFERS = [ListedOffer(EURO, b'"euro"'), ListedOffer(DOLLAR, b'"dollar"')]


def read(frames):
    client = Connection(ConnectionType.CLIENT)
    client.receive_data(frames)
    return [json.loads(event.data) for event in client.events()]


def batch(ledger, *topics):
    listed = [ListedOffer(topic, b'"new"') for topic in topics]
    changes = tuple(
        BookChange(each.topic, offer_body("update", each, Height(ledger)), "update", each)
        for each in listed
    )
    return OutboxBatch(Height(ledger), ledger * 10, False, changes)


def at(ledger):
    """Now, when that is the newest ledger."""
    return ReadPosition(Height(ledger), UnixSeconds(ledger), ledger * 10)


def numbers(messages):
    return [message["seq"] for message in messages]


def assert_follows(before, after):
    """No gap within either, nor between them."""
    seqs = numbers([*before, *after])
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    assert [m["prevSeq"] for m in [*before, *after]] == [seq - 1 for seq in seqs]


def ends(messages):
    return [bool(message.get("last")) for message in messages]


def test_later_member_gets_same_frames_and_numbers():
    audience = Audience(Filters(), markers=False)
    early = read(audience.greet(OFFERS, at(1), marked=False))
    first = read(audience.publish([batch(2, EURO, DOLLAR)], at(2)))
    late = read(audience.greet(OFFERS, at(2), marked=True))
    back = read(audience.resume([batch(2, EURO, DOLLAR)], Height(1), at(2)))
    second = read(audience.publish([batch(3, EURO)], at(3)))
    assert_follows([*early, *first], second)
    assert_follows(late, second)
    assert_follows(back, second)
    assert (ends(early), ends(first), ends(second)) == ([False, True], [False, True], [True])
    assert (ends(late), ends(back)) == ([False, False, True], [False, False, True])


def test_last_marks_the_last_filtered_message():
    audience = Audience(Filters(currency="EUR"), markers=False)
    received = read(
        audience.publish([batch(2, EURO, DOLLAR), batch(3, DOLLAR), batch(4, EURO)], at(4))
    )
    assert [(m["ledger"], m["last"]) for m in received] == [(2, True), (4, True)]
    assert audience.publish([batch(5, DOLLAR)], at(5)) == b""


def test_marker_ends_ledgers_without_changes():
    audience = Audience(Filters(currency="EUR"), markers=True)
    received = read(audience.publish([batch(2, EURO), batch(3, DOLLAR)], at(5)))
    assert [(m["channel"], m["ledger"], m["last"]) for m in received] == [
        ("orderbook", 2, True),
        ("ledger", 5, True),
    ]
    received = read(audience.publish([batch(6, EURO)], at(6)))
    assert [m["channel"] for m in received] == ["orderbook"]


def test_snapshot_is_cached_until_the_next_message():
    audience = Audience(Filters(), markers=False)
    first = audience.greet(iter(OFFERS), at(1), marked=False)
    assert audience.greet(iter([]), at(1), marked=False) is first
    later = read(audience.greet(OFFERS, at(2), marked=False))
    assert {m["ledger"] for m in later} == {2}
    audience.publish([batch(3, EURO)], at(3))
    assert audience.greet(iter([]), at(3), marked=False) == b""


def test_empty_book_has_only_requested_markers():
    quiet, marked = (Audience(Filters(), markers=markers) for markers in (False, True))
    assert quiet.greet([], at(1), marked=False) == b""
    (marker,) = read(marked.greet([], at(1), marked=False))
    assert (marker["channel"], marker["ledger"], marker["last"]) == ("ledger", 1, True)
    for audience in (quiet, marked):
        (opening,) = read(audience.greet([], at(1), marked=True))
        assert (opening["mode"], opening["ledger"], opening["last"]) == ("snapshot", 1, True)
        assert_follows([opening], read(audience.publish([batch(2, EURO)], at(2))))


def test_resume_without_changes_ends_with_its_marker():
    quiet, marked = (Audience(Filters(), markers=markers) for markers in (False, True))
    (opening,) = read(quiet.resume([], Height(3), at(9)))
    assert (opening["mode"], opening["ledger"], opening["last"]) == ("resume", 3, True)
    (opening,) = read(marked.resume([], Height(9), at(9)))
    assert opening["last"]
    opening, marker = read(marked.resume([], Height(3), at(9)))
    assert "last" not in opening
    assert (marker["channel"], marker["ledger"], marker["last"]) == ("ledger", 9, True)


def test_newest_ledger_has_its_close_time():
    audience = Audience(Filters(), markers=True)
    messages = read(audience.greet(OFFERS, at(7), marked=True))
    messages += read(audience.publish([batch(8, EURO), batch(9, EURO, DOLLAR)], at(9)))
    messages += read(audience.publish([], at(10)))
    messages += read(audience.resume([], Height(10), at(10)))
    messages += read(audience.resume([], Height(9), at(10)))[:1]
    closed = [(m["ledger"], m["closedAt"][-3:]) for m in messages if "closedAt" in m]
    assert closed == [(7, "07Z"), (9, "09Z"), (10, "10Z"), (10, "10Z")]
    assert all("last" in m for m in messages if "closedAt" in m)
