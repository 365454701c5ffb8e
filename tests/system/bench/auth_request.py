"""What it costs to know who is asking: the same bytes behind `owner_only` and behind `public`.

One server, two workers, 16 kept-alive connections. Every request carries the same token; runs
alternate between the public path, the path that needs a token with one of ours, and the same with
one of the identity provider's, so that the differences are of neighbours in time. A token of ours
is looked for among the revoked ones in Postgres at each request.

Figures are microseconds of the server's processor by answer: `us` with a token of ours, `public_us`
without any, `identity_us` with one of the provider's. `first_us` is what reading a token of ours
costs that this process has not seen before, signature and all.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from api.auth.tokens import Tokens
from devnet import services
from devnet.databases import fresh_databases
from devnet.identity.provider import StandIn
from devnet.identity.server import serving
from devnet.keys import in_files
from devnet.local_http import HOST
from devnet.services import Ports, demo_settings, environment
from devnet.supervisor import PostgresService, Supervisor, free_port
from indexer.config.networks import load_network
from indexer.config.settings import Settings
from indexer.config.warehouse import embedded_postgres
from tests.factories.tokens import ACCOUNT, URL, private_key, private_pem
from tests.memory import server_folder
from tests.system.bench.orderbook import ROUNDS, WORKERS, Run, Server, run
from tests.system.bench.site import print_line
from warehouse_schema.identifiers import UnixSeconds

_NEVER_SEEN = 500


@dataclass(frozen=True)
class Bench:
    """The server, and a token of either kind."""

    server: Server
    tokens: Tokens
    ours: str
    theirs: str


def measure() -> dict[str, Any]:
    """What the module's docstring says."""
    with _bench() as bench:
        load_before = os.getloadavg()[0]
        asked = (
            ("/static/answer", ""),
            ("/owned/answer", bench.ours),
            ("/owned/answer", bench.theirs),
        )
        rounds = [
            [run(bench.server, _request(bench.server, *each), 200) for each in asked]
            for _ in range(ROUNDS)
        ]
        first = _first(bench.tokens)
    public, ours, theirs = (list(runs) for runs in zip(*rounds, strict=True))
    return {
        "us": _microseconds(ours),
        "public_us": _microseconds(public),
        "identity_us": _microseconds(theirs),
        "more_us": _more(ours, public),
        "identity_more_us": _more(theirs, public),
        "first_us": first,
        "answers": sum(len(each.took) for each in ours),
        "machine_load": [round(load_before, 1), round(os.getloadavg()[0], 1)],
    }


def _microseconds(runs: Sequence[Run]) -> int:
    return round(statistics.median(each.server_cpu for each in runs) * 1e6)


def _more(runs: Sequence[Run], public: Sequence[Run]) -> int:
    """What a run cost more than the public one before it."""
    pairs = zip(runs, public, strict=True)
    return round(statistics.median(a.server_cpu - b.server_cpu for a, b in pairs) * 1e6)


def _first(tokens: Tokens) -> int:
    fresh = [tokens.issue(ACCOUNT, jti=f"{number}") for number in range(_NEVER_SEEN)]
    began = time.process_time()
    for token in fresh:
        tokens.verify(token)
    return round((time.process_time() - began) / _NEVER_SEEN * 1e6)


def _request(server: Server, path: str, token: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", f"Host: {HOST}:{server.port}"]
    lines += [f"Authorization: Bearer {token}"] if token else []
    return "\r\n".join([*lines, "", ""]).encode()


@contextmanager
def _bench() -> Iterator[Bench]:
    with server_folder("bench", memory=None) as folder:
        settings = demo_settings(Settings(load_network("devnet"), folder, None, {}))
        stand_in, key = StandIn(), private_key("bench")
        tokens = Tokens(key, issuer=URL, clock=lambda: UnixSeconds(int(time.time())))
        with Supervisor(settings.home, print_line) as supervisor, serving(stand_in) as identity_url:
            supervisor.start(PostgresService(embedded_postgres(settings)))
            fresh_databases(settings)
            ports = Ports(free_port(), page=0, code=0)
            answers = folder / "answers"
            answers.mkdir()
            said = {"account": ACCOUNT, "issuer": URL, "expires_at": "2026-11-22T03:00:00Z"}
            (answers / "answer").write_bytes(b"200 OK\n\n" + json.dumps(said).encode())
            own = {
                **stand_in.variables(identity_url),
                "ISTHMUS_URL": URL,
                "ISTHMUS_TOKEN_KEY": private_pem(key),
            }
            variables = environment(settings) | in_files(folder / "keys", own)
            program = (
                "-m",
                "tests.system.bench.twin",
                f"{HOST}:{ports.api}",
                str(WORKERS),
                str(answers),
            )
            spec = replace(services.api(ports, variables), command=[sys.executable, *program])
            server = Server(supervisor.run(spec), ports.api)
            theirs = stand_in.token(stand_in.add_user())
            yield Bench(server, tokens, tokens.issue(ACCOUNT, jti="bench"), theirs)
