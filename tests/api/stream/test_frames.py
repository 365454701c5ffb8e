"""WebSocket frames of the server, parsed by a library's client."""

import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import Ping, Pong, TextMessage

from api.stream import frames

SIZES = [0, 1, 125, 126, 127, 65_535, 65_536, 200_000]


def read(data):
    """What a client makes of it."""
    client = Connection(ConnectionType.CLIENT)
    client.receive_data(data)
    return list(client.events())


@pytest.mark.parametrize("size", SIZES)
def test_text_of_any_length_is_one_message(size):
    (event,) = read(frames.text(b"x" * size))
    assert isinstance(event, TextMessage)
    assert (event.data, event.message_finished) == ("x" * size, True)


def test_control_frames_are_valid():
    assert read(frames.PING) == [Ping(payload=bytearray())]
    assert read(frames.pong(b"abc")) == [Pong(payload=bytearray(b"abc"))]
    (end,) = read(frames.close(1013, "slow reader"))
    assert (int(end.code), end.reason) == (1013, "slow reader")
    (end,) = read(frames.close(None))
    assert (int(end.code), end.reason or "") == (1005, "")


def test_long_close_reason_is_truncated():
    (event,) = read(frames.close(1008, "x" * 200))
    assert event.reason == "x" * 123


def test_end_of_frame_from_any_offset():
    parts = [frames.text(b"x" * size) for size in (*SIZES[:-1], 3)]
    parts += [frames.PING, frames.close(1000)]
    data = b"".join(parts)
    begin = 0
    for part in parts:
        end = begin + len(part)
        assert frames.end_of_frame(data, begin) == begin
        for offset in {begin + 1, begin + 2, begin + len(part) // 2 or begin + 1, end - 1, end}:
            assert frames.end_of_frame(data, offset) == end
        begin = end
