"""What starting costs: of a command, of a follower to its first request, of a code location.

`help_cpu_s`: processor time of `isthmus follow --help`. `first_request_s`: from the start of
`isthmus follow` to its first request to a node, by the clock, with `first_request_cpu_s` of
processor time until then; the node here only notes the request and never answers. The warehouse is
there, and nothing else holds the lease. `code_location_cpu_s`: processor time of importing the
definitions beyond that of importing Dagster and its storage. All are medians of `runs`.
"""

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from devnet.services import follower
from devnet.world import Pace
from tests.system.bench.processor import processor_seconds
from tests.system.bench.site import print_line, site

RUNS = 5
TIMEOUT_SECONDS = 60.0
_DAGSTER = "import dagster, dagster_postgres, dagster._cli, dagster._grpc.server"
_LOCATION = f"{_DAGSTER}; import pipelines.code_server, pipelines.storage, pipelines.definitions"


def measure() -> dict[str, Any]:
    """What the module's docstring says."""
    with site(Pace()) as running:
        chain = running.settings.network.evm[0].id
        command = follower(chain, running.variables)
        environment = {**os.environ, **running.variables}
        helped = [_cpu([*command.command, "--help"], environment) for _ in range(RUNS)]
        requests = [_first_request(command.command, environment) for _ in range(RUNS)]
        locations = [
            _cpu([sys.executable, "-c", _LOCATION], environment)
            - _cpu([sys.executable, "-c", _DAGSTER], environment)
            for _ in range(RUNS)
        ]
    return {
        "help_cpu_s": round(median(helped), 3),
        "first_request_s": round(median(clock for clock, _ in requests), 3),
        "first_request_cpu_s": round(median(cpu for _, cpu in requests), 3),
        "code_location_cpu_s": round(median(locations), 3),
        "runs": RUNS,
    }


def _cpu(command: Sequence[str], environment: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _first_request(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Seconds by the clock, and of processor time, until the node has the first byte."""
    with socket.create_server(("127.0.0.1", 0)) as node:
        node.settimeout(TIMEOUT_SECONDS)
        url = f"http://127.0.0.1:{node.getsockname()[1]}"
        variables = {**environment, "ISTHMUS_RPC_EIP155_31337": url}
        began = time.monotonic()
        process = subprocess.Popen(command, env=variables, stderr=subprocess.DEVNULL)
        try:
            connection, _ = node.accept()
            with connection:
                connection.settimeout(TIMEOUT_SECONDS)
                connection.recv(1)
                took = time.monotonic() - began
                cpu = processor_seconds(process.pid)
        finally:
            # Its lease is given back: the next one does not wait for it to expire.
            process.send_signal(signal.SIGTERM)
            process.wait(TIMEOUT_SECONDS)
    print_line(f"first request after {took:.2f} s, {cpu:.2f} s of processor time")
    return took, cpu
