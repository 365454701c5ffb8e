"""Hosts of the fleet: network namespaces with a link each to a bridge of this machine.

Needs root and Debian's iproute2. The addresses are of RFC 2544: for tests of networks alone. One
fleet runs at a time; the next one removes what a killed one left.
"""

import fcntl
import ipaddress
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

NETWORK = ipaddress.ip_network("198.18.77.0/24")
OUTSIDE = str(NETWORK[1])
"""Address of this machine on the bridge: chains, load balancer and clients are here."""
BRIDGE = "isthmus-fleet"
_PREFIX = "isthmus-fleet-"
_LINK_PREFIX = "fleet-"
_DEVICES = Path("/sys/class/net")
_LOCK = Path("/run/isthmus-fleet.lock")
_NAMESPACES = Path("/run/netns")
_DEATH_SECONDS = 20.0


class AnotherFleet(Exception):
    """Another fleet runs on this machine."""


@dataclass(frozen=True)
class Host:
    """A namespace."""

    name: str
    address: str

    @property
    def namespace(self) -> str:
        """Name of its network namespace."""
        return _namespace(self.name)

    @property
    def link(self) -> str:
        """Name of its link's end on this machine."""
        return _link(self.name)

    def command(self, words: Sequence[str]) -> list[str]:
        """The command that runs these words on the host."""
        return ["ip", "netns", "exec", self.namespace, *words]

    def cut(self) -> None:
        """Cut its link: packets of both directions vanish, and nobody is told."""
        _run("ip", "link", "set", self.link, "down")

    def mend(self) -> None:
        """Connect it again."""
        _run("ip", "link", "set", self.link, "up")


@contextmanager
def hosts(names: Sequence[str]) -> Iterator[list[Host]]:
    """Hosts by name, each with a link; gone afterwards. Raises `AnotherFleet`."""
    with ExitStack() as stack:
        lock = stack.enter_context(_LOCK.open("w"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AnotherFleet(f"another fleet holds {_LOCK}: wait for its end") from error
        _remove_leftovers()
        stack.callback(_remove_leftovers)
        _run("ip", "link", "add", BRIDGE, "type", "bridge")
        _run("ip", "addr", "add", f"{OUTSIDE}/{NETWORK.prefixlen}", "dev", BRIDGE)
        _run("ip", "link", "set", BRIDGE, "up")
        made = [Host(name, str(NETWORK[10 + n])) for n, name in enumerate(names)]
        for host in made:
            _connect(host)
        yield made


def _connect(host: Host) -> None:
    namespace, link = _namespace(host.name), _link(host.name)
    _run("ip", "netns", "add", namespace)
    # Deleted with the namespace, as its other end is in there.
    _run("ip", "link", "add", link, "type", "veth", "peer", "eth0", "netns", namespace)
    _run("ip", "link", "set", link, "master", BRIDGE)
    _run("ip", "link", "set", link, "up")
    for words in (
        ("addr", "add", f"{host.address}/{NETWORK.prefixlen}", "dev", "eth0"),
        ("link", "set", "eth0", "up"),
        ("link", "set", "lo", "up"),
    ):
        _run("ip", "-n", namespace, *words)


def _remove_leftovers() -> None:
    """Namespaces with the processes in them, links and bridge, of this fleet or a killed one."""
    names = sorted(each.name for each in _NAMESPACES.glob(f"{_PREFIX}*"))
    for name in names:
        for pid in _pids(name):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + _DEATH_SECONDS
    while any(_pids(name) for name in names) and time.monotonic() < deadline:
        time.sleep(0.05)
    for name in names:
        _run("ip", "netns", "del", name)
    # A namespace without a name lives on with its processes, and so does its link.
    for link in (*_DEVICES.glob(f"{_LINK_PREFIX}*"), *_DEVICES.glob(BRIDGE)):
        done = subprocess.run(("ip", "link", "del", link.name), check=False)
        # The kernel removes the link of a namespace itself, some time after the namespace.
        if link.exists():
            done.check_returncode()


def _pids(namespace: str) -> list[int]:
    command = ["ip", "netns", "pids", namespace]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)
    return [int(each) for each in listed.stdout.split()]


def _namespace(name: str) -> str:
    return f"{_PREFIX}{name}"


def _link(name: str) -> str:
    return f"{_LINK_PREFIX}{name}"[:15]


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
