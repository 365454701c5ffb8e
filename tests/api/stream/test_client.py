"""One connection, over a pair of sockets: what it sends, and what it puts up with."""

import random
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Ping, Pong, TextMessage

from api.stream import frames
from api.stream.client import STOPPING, Client, Ending
from api.stream.limits import Doors, Limits

LIMITS = Limits(queued_bytes=50_000)


@dataclass
class Pair:
    """A client of the stream, and the other end of its socket."""

    client: Client
    far: socket.socket
    protocol: Connection
    doors: Doors

    def read(self) -> list[Event]:
        """What has arrived whole."""
        while True:
            try:
                data = self.far.recv(1 << 16)
            except BlockingIOError:
                break
            if not data:
                break
            self.protocol.receive_data(data)
        return list(self.protocol.events())

    def texts(self) -> list[str]:
        # A long one comes in pieces.
        whole: list[str] = []
        part = ""
        for event in self.read():
            assert isinstance(event, TextMessage)
            part += event.data
            if event.message_finished:
                whole, part = [*whole, part], ""
        return whole

    def write(self, *events: Event, now: float = 0.0) -> None:
        self.write_bytes(b"".join(map(self.protocol.send, events)), now=now)

    def write_bytes(self, data: bytes, now: float = 0.0) -> None:
        self.far.setblocking(True)
        self.far.sendall(data)
        self.far.setblocking(False)
        for _ in range(len(data) // 4096 + 1):
            if not self.client.over:
                self.client.receive(now)


@pytest.fixture
def pair() -> Iterator[Pair]:
    near, far = socket.socketpair()
    for each in (near, far):
        each.setblocking(False)
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    doors = Doors(LIMITS)
    client = Client(near, "a", doors.enter("10.0.0.1"), LIMITS, 0.0)
    yield Pair(client, far, Connection(ConnectionType.CLIENT), doors)
    client.leave(0.0)
    far.close()


def told(events: list[Event]) -> list[tuple[int, str]]:
    """Goodbyes as code and reason; nothing else may be among them."""
    ends = [event for event in events if isinstance(event, CloseConnection)]
    assert ends == events
    return [(int(end.code), end.reason or "") for end in ends]


def messages(count: int, size: int = 700, first: int = 0) -> list[str]:
    return [f"{n:06d}" + "x" * size for n in range(first, first + count)]


def framed(texts: list[str]) -> bytes:
    return b"".join(frames.text(text.encode()) for text in texts)


def test_what_the_socket_does_not_take_is_sent_when_it_does(pair):
    sent = messages(60)
    for begin in range(0, 60, 10):
        pair.client.tell(framed(sent[begin : begin + 10]), 0.0)
    assert pair.client.is_behind
    received = []
    while pair.client.is_behind:
        received += pair.texts()
        pair.client.flush()
    assert received + pair.texts() == sent
    assert not pair.client.over


@pytest.mark.parametrize("seed", range(20))
def test_a_slow_reader_is_ended_by_name_and_no_frame_is_ever_broken(pair, seed):
    randomly = random.Random(seed)
    sent, number = [], 0
    while pair.client.ending is None:
        fresh = messages(randomly.randint(1, 30), randomly.choice([10, 300, 9_000]), number)
        number += len(fresh)
        sent += fresh
        pair.client.tell(framed(fresh), 5.0)
        if randomly.random() < 0.2:
            pair.protocol.receive_data(pair.far.recv(randomly.randint(1, 3_000)))
            pair.client.flush()
    assert pair.client.ending == Ending(1013, "slow reader")
    events = pair.read()
    while pair.client.is_behind:
        pair.client.flush()
        events += pair.read()
    *texts, end = events
    assert told([end]) == [(1013, "slow reader")]
    assert texts[-1].message_finished
    whole = "".join(text.data for text in texts)
    assert "".join(sent).startswith(whole), "what arrived is not what was sent, from the first on"


def test_a_greeting_does_not_count_as_lagging_behind(pair):
    pair.client.greet(framed(messages(200, 1_000)))
    pair.client.tell(framed(messages(10)), 0.0)
    assert pair.client.ending is None
    pair.client.tell(framed(messages(100, 1_000)), 0.0)
    pair.client.tell(framed(messages(1)), 0.0)
    assert pair.client.ending is not None


def test_a_ping_comes_every_30_seconds_and_wants_its_pong_within_10(pair):
    for now in (0.0, 29.9):
        pair.client.tick(now)
        assert pair.read() == []
    pair.client.tick(30.0)
    assert pair.read() == [Ping(payload=bytearray())]
    pair.write(Pong(), now=39.0)
    pair.client.tick(41.0)
    assert pair.read() == []
    pair.client.tick(60.0)
    assert pair.read() == [Ping(payload=bytearray())]
    pair.client.tick(69.9)
    assert pair.client.ending is None
    pair.client.tick(70.0)
    assert told(pair.read()) == [(1008, "no pong")]
    assert not pair.client.over
    pair.client.tick(71.0)
    assert pair.client.over


def test_a_ping_is_answered(pair):
    pair.write(Ping(payload=b"hello"))
    assert pair.read() == [Pong(payload=bytearray(b"hello"))]


def test_a_client_that_says_goodbye_gets_its_code_back(pair):
    pair.write(CloseConnection(1000, "enough"))
    assert told(pair.read()) == [(1000, "")]
    assert pair.client.over
    assert pair.client.ending.reason == "closed by client"


def test_a_goodbye_without_a_code_is_answered_without_one(pair):
    pair.write_bytes(b"\x88\x80\0\0\0\0")
    assert told(pair.read()) == [(1005, "")]
    assert pair.client.over


def test_our_goodbye_ends_with_the_answer_to_it(pair):
    pair.client.end(STOPPING, 0.0)
    pair.client.tell(framed(messages(1)), 0.0)
    assert told(pair.read()) == [(1001, "server is stopping")]
    assert not pair.client.over
    pair.write(CloseConnection(1001))
    assert pair.client.over


def test_a_lost_connection_is_over(pair):
    pair.far.close()
    pair.client.receive(0.0)
    assert pair.client.over
    assert pair.client.ending.code == 1006


def test_writing_to_a_lost_connection_is_its_end(pair):
    pair.far.close()
    pair.client.tell(framed(messages(1)), 0.0)
    assert pair.client.over


def test_messages_are_read_and_mean_nothing(pair):
    pair.write(TextMessage(data='{"subscribe": "all"}'), BytesMessage(data=b"\0\1"))
    assert pair.read() == []
    assert pair.client.ending is None


def test_a_message_in_parts_counts_as_one(pair):
    limit = LIMITS.message_bytes
    pair.write(
        TextMessage(data="x" * (limit - 1), message_finished=False),
        TextMessage(data="x", message_finished=True),
        TextMessage(data="x" * limit),
    )
    assert pair.client.ending is None
    pair.write(
        TextMessage(data="x" * limit, message_finished=False),
        TextMessage(data="x", message_finished=True),
    )
    assert told(pair.read()) == [(1009, "message too big")]


MASKED = b"\x80\0\0\0\0"
"""The rest of a client's empty frame: its length and its mask."""


@pytest.mark.parametrize("first", [b"\x81", b"\x01", b"\x89", b"\x8a"])
def test_whoever_talks_too_much_is_ended(pair, first):
    """A text, a part of one that never ends, a ping, a pong that nobody asked for."""
    part = b"\x00" if first == b"\x01" else first
    pair.write_bytes(first + MASKED + (part + MASKED) * (LIMITS.burst - 1))
    assert pair.client.ending is None
    pair.read()
    pair.write_bytes(part + MASKED, now=0.1)
    assert told(pair.read()) == [(1008, "too many messages")]
    # What comes after that is fetched and forgotten.
    pair.write_bytes((part + MASKED) * 1_000, now=0.2)
    assert pair.read() == []
    pair.client.tick(1.2)
    assert pair.client.over


def test_whoever_talks_slowly_may_talk_for_ever(pair):
    for second in range(100):
        pair.write(TextMessage(data="x"), TextMessage(data="y"), now=float(second))
    assert pair.client.ending is None


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x81\x01x", 1002),
        (b"\xc1\x80\0\0\0\0", 1002),
        (b"\x83\x80\0\0\0\0", 1002),
        (b"\x81\x81\0\0\0\0\xff", 1007),
        (b"\x89\xfe\0\x7e\0\0\0\0", 1002),
    ],
)
def test_what_is_no_frame_ends_it(pair, data, code):
    pair.write_bytes(data)
    assert told(pair.read()) == [(code, "bad frame")]


def test_a_client_gives_its_place_back(pair):
    assert len(pair.doors) == 1
    pair.client.leave(0.0)
    assert len(pair.doors) == 0
