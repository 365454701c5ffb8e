"""A link that loses frames and delays them, between a host and the bridge.

    python -m tests.system.fleet.lossy_link BRIDGE NAMESPACE LOSS SECONDS SEED

`tc netem` is not in every kernel, so this is a link in user space: two TAP devices, one on the
bridge, the other one in the namespace in place of its `eth0`, with the same MAC and IP address. A
frame of either direction is dropped with the probability LOSS, or passed on SECONDS later, in
order. Open connections of the host stay. Writes `ready` when the link is in place. At the end of
its input the host has its first link again.
"""

import fcntl
import json
import os
import random
import select
import struct
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager

_TUNSETIFF = 0x400454CA
_TAP_WITHOUT_HEADER = 0x0002 | 0x1000
_FRAME_BYTES = 1 << 16
_QUEUED_FRAMES = 1_000
"""Of a direction, as netem's default limit."""
_DEVICES = ("fleet-tap-out", "fleet-tap-in")
_SPARE = "eth1"
"""Name of the first link while this one is in use."""


class Direction:
    """Frames from one device to the other."""

    def __init__(self, source: int, target: int, loss: float, delay: float, seed: int) -> None:
        self.source = source
        self._target, self._loss, self._delay = target, loss, delay
        self._chance = random.Random(seed)
        self._queue: deque[tuple[float, bytes]] = deque()
        self.counts: Counter[str] = Counter()

    def read(self, now: float) -> None:
        """Take one frame."""
        frame = os.read(self.source, _FRAME_BYTES)
        if self._chance.random() < self._loss or len(self._queue) >= _QUEUED_FRAMES:
            self.counts["dropped"] += 1
        else:
            self._queue.append((now + self._delay, frame))

    def send_due(self, now: float) -> None:
        """Pass on what has waited long enough."""
        while self._queue and self._queue[0][0] <= now:
            _, frame = self._queue.popleft()
            os.write(self._target, frame)
            self.counts["passed"] += 1

    def seconds_left(self, now: float) -> float:
        """Until the next frame is due."""
        return max(0.0, self._queue[0][0] - now) if self._queue else 1.0


def run(directions: list[Direction]) -> None:
    """Pass frames on until the end of the input."""
    poll = select.poll()
    by_source = {each.source: each for each in directions}
    for fd in (sys.stdin.fileno(), *by_source):
        poll.register(fd, select.POLLIN)
    while True:
        now = time.monotonic()
        wait = min(each.seconds_left(now) for each in directions)
        ready = [fd for fd, _ in poll.poll(wait * 1000)]
        now = time.monotonic()
        if sys.stdin.fileno() in ready:
            return
        for fd in ready:
            by_source[fd].read(now)
        for each in directions:
            each.send_due(now)


@contextmanager
def link(bridge: str, namespace: str) -> Iterator[tuple[int, int]]:
    """Both devices in place of the host's first link: on the bridge and in the namespace."""
    outer, inner = _DEVICES
    first = _ip("-j", "-n", namespace, "addr", "show", "dev", "eth0")
    [found] = json.loads(first)
    [address] = [each for each in found["addr_info"] if each["family"] == "inet"]
    cidr = f"{address['local']}/{address['prefixlen']}"
    fds = [_tap(name) for name in (outer, inner)]
    try:
        _ip("link", "set", outer, "master", bridge)
        _ip("link", "set", outer, "up")
        _ip("link", "set", inner, "netns", namespace)
        _ip("-n", namespace, "link", "set", "eth0", "down")
        _ip("-n", namespace, "link", "set", "eth0", "name", _SPARE)
        _ip("-n", namespace, "link", "set", inner, "name", "eth0", "address", found["address"])
        # Two devices have the address for a moment, so that no socket loses it.
        _ip("-n", namespace, "addr", "add", cidr, "dev", "eth0")
        _ip("-n", namespace, "link", "set", "eth0", "up")
        _ip("-n", namespace, "addr", "del", cidr, "dev", _SPARE)
        try:
            yield fds[0], fds[1]
        finally:
            _ip("-n", namespace, "addr", "add", cidr, "dev", _SPARE)
            _ip("-n", namespace, "link", "del", "eth0")
            _ip("-n", namespace, "link", "set", _SPARE, "name", "eth0")
            _ip("-n", namespace, "link", "set", "eth0", "up")
    finally:
        for fd in fds:
            os.close(fd)


def _tap(name: str) -> int:
    fd = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH", name.encode(), _TAP_WITHOUT_HEADER))
    return fd


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, stdout=subprocess.PIPE, text=True).stdout


def main(bridge: str, namespace: str, loss: float, delay: float, seed: int) -> None:
    """As the module's docstring says."""
    with link(bridge, namespace) as (outer, inner):
        directions = [
            Direction(outer, inner, loss, delay, seed),
            Direction(inner, outer, loss, delay, seed + 1),
        ]
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        run(directions)
    total = directions[0].counts + directions[1].counts
    sys.stdout.write(f"{json.dumps(total)}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
