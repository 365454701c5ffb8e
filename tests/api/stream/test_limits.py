"""Limits of open streams."""

import pytest

from api.errors import TooManyRequests, Unavailable
from api.stream.limits import StreamLimits, StreamSlots


def test_streams_per_address_are_limited():
    slots = StreamSlots(StreamLimits(clients=5, clients_per_address=2))
    first, _ = slots.take("10.0.0.1"), slots.take("10.0.0.1")
    with pytest.raises(TooManyRequests) as refused:
        slots.take("10.0.0.1")
    assert refused.value.error_code == "TOO_MANY_STREAMS"
    slots.take("10.0.0.2")
    first.release()
    first.release()
    assert len(slots) == 2
    slots.take("10.0.0.1")
    with pytest.raises(TooManyRequests):
        slots.take("10.0.0.1")


def test_streams_of_a_process_are_limited():
    slots = StreamSlots(StreamLimits(clients=2))
    place, _ = slots.take("10.0.0.1"), slots.take("10.0.0.2")
    with pytest.raises(Unavailable) as refused:
        slots.take("10.0.0.3")
    assert refused.value.error_code == "STREAM_FULL"
    place.release()
    slots.take("10.0.0.3")


def test_zero_streams_returns_stream_not_served():
    with pytest.raises(Unavailable) as refused:
        StreamSlots(StreamLimits(clients=0)).take("10.0.0.1")
    assert refused.value.error_code == "STREAM_NOT_SERVED"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8:0:0:ffff::9", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        # As some proxies name them, with the port.
        ("10.0.0.1:50001", "10.0.0.1:50002", True),
        ("[2001:db8::1]:50001", "2001:db8::2", True),
        ("10.0.0.1:50001", "10.0.0.2:50001", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("", "", True),
    ],
)
def test_client_network_groups_ipv6_by_64_bits(one, other, same):
    slots = StreamSlots(StreamLimits(clients_per_address=1))
    slots.take(one)
    if same:
        with pytest.raises(TooManyRequests):
            slots.take(other)
    else:
        slots.take(other)
