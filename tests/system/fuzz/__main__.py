"""The real server under whatever one can send it: the document's operations by schemathesis, and
tokens, transactions and headers by hypothesis.

    python -m tests.system.fuzz                            10 minutes
    SEED=7 MINUTES=1 python -m tests.system.fuzz           a minute of seed 7

gunicorn with two workers on an embedded Postgres with a small book, beside a node that knows one
account. Two owners ask with tokens of ours and sign in: one whom two keys sign for, one who has no
account yet. Progress goes to standard error; the last line of standard output is JSON. Exit code 0:
no 500, nothing that the document does not say, nobody let in or refused who must not be, no error
in the server's log, no worker lost, and memory flat. Flat is a rule: the most that a worker takes
in the last quarter of the run is at most a tenth and 16 MiB above the most that it took in the
second; the first is its warm-up.
"""

import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from devnet.keys import in_files
from tests.factories import stellar_node
from tests.factories.api_server import Server, serving
from tests.factories.projections import (
    insert_book,
    insert_cursor,
    insert_offer,
    insert_order,
    insert_provider,
)
from tests.factories.sep10 import SERVER
from tests.factories.stellar_node import FakeStellarNode
from tests.factories.tokens import URL, private_key, private_pem
from tests.system.fuzz.hammer import Findings, Hammer
from tests.system.fuzz.owners import TOKEN_KEY, issuing, ledger_entries
from warehouse_schema.embedded import EmbeddedPostgres
from warehouse_schema.engine import make_engine
from warehouse_schema.migrate import migrate

CHAIN = "stellar:devnet"
_SETTINGS = {
    "ISTHMUS_URL": URL,
    "ISTHMUS_TOKEN_KEY": private_pem(private_key(TOKEN_KEY)),
    "ISTHMUS_SEP10_KEY": SERVER.secret,
    **{f"ISTHMUS_LIMIT_{name}": "off" for name in ("READS", "SIGN_IN", "OWNER")},
}
_SPARE = 16 << 20
_BAD_LINE = (
    *("Traceback (most recent call last)", "request failed", "Error handling request"),
    *(" ERROR ", " CRITICAL ", "[ERROR]", "[CRITICAL]"),
)
"""What the app logs of what nobody foresaw, what the server does, and whatever is as bad."""


@dataclass
class Memory:
    """Resident bytes of each worker over the run."""

    seen: dict[int, list[tuple[float, int]]] = field(default_factory=lambda: defaultdict(list))

    def look(self, server: Server, share: float) -> None:
        """Note what each takes, `share` of the run being over."""
        pid = server.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        for child in map(int, children.split()):
            pages = int(Path(f"/proc/{child}/statm").read_text().split()[1])
            self.seen[child].append((share, pages * os.sysconf("SC_PAGE_SIZE")))

    def growth(self) -> dict[int, tuple[int, int]]:
        """Worker → most of its second quarter and of its last."""
        found = {}
        for child, samples in self.seen.items():
            early = [size for share, size in samples if 0.25 <= share < 0.5]
            late = [size for share, size in samples if share >= 0.75]
            if early and late:
                found[child] = max(early), max(late)
        return found

    @property
    def is_flat(self) -> bool:
        """The rule above, of workers that were there all the time; one that was lost is none."""
        growth = self.growth()
        return set(growth) == set(self.seen) and all(
            late <= early * 1.1 + _SPARE for early, late in growth.values()
        )


def main() -> int:
    """Run, tell, 0 when all was as it must be."""
    minutes = float(os.environ.get("MINUTES", "10"))
    number = int(os.environ.get("SEED", "1"))
    folder = Path(tempfile.mkdtemp(prefix="isthmus-fuzz-"))
    folder.chmod(0o755)
    try:
        with EmbeddedPostgres(folder / "data", durable=False) as postgres:
            url = make_url(postgres.url("postgres"))
            migrate(url)
            engine = make_engine(url)
            _fill(engine)
            engine.dispose()
            with stellar_node.serving(FakeStellarNode(latest=20)) as node:
                node.entries.update(ledger_entries())
                settings = in_files(folder / "keys", _SETTINGS) | {
                    "ISTHMUS_RPC_STELLAR_DEVNET": node.url
                }
                with serving(url, folder, settings=settings) as server:
                    findings, memory = _fuzz(server, minutes * 60, number)
            # The log is whole once the server has ended.
            return _tell(findings, memory, server.log, number)
    finally:
        shutil.rmtree(folder)


def _fill(engine: Engine) -> None:
    with engine.begin() as connection:
        insert_book(connection, chain=CHAIN, offer_count=1)
        insert_provider(connection)
        insert_offer(connection)
        insert_order(connection)
        insert_cursor(connection, CHAIN)


def _fuzz(server: Server, seconds: float, number: int) -> tuple[Findings, Memory]:
    began = time.monotonic()
    memory, over = Memory(), threading.Event()

    def watch() -> None:
        while not over.wait(min(1.0, seconds / 40)):
            memory.look(server, (time.monotonic() - began) / seconds)

    shown_at = began

    def told(findings: Findings) -> None:
        nonlocal shown_at
        if time.monotonic() - shown_at >= 10:
            shown_at = time.monotonic()
            print(f"{shown_at - began:5.0f} s  {findings}", file=sys.stderr, flush=True)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    hammer = Hammer(
        server.url,
        number,
        lambda: time.monotonic() - began < seconds,
        issue=issuing(),
        passphrase=stellar_node.PASSPHRASE,
    )
    findings = hammer.run(told)
    over.set()
    watcher.join()
    return findings, memory


def failures(log: Iterable[str]) -> list[str]:
    """Lines that tell of what nobody foresaw."""
    return [line for line in log if any(bad in line for bad in _BAD_LINE)]


def _tell(findings: Findings, memory: Memory, log: list[str], number: int) -> int:
    exceptions = failures(log)
    for line in (*findings.shown, *(line.rstrip() for line in exceptions[:20])):
        print(line, file=sys.stderr)
    is_good = findings.is_good and not exceptions and memory.is_flat
    told = {
        "name": "fuzz",
        "requests": findings.requests,
        "errors_500": findings.errors_500,
        "broken": findings.broken,
        "undocumented": findings.undocumented,
        "wrong": findings.wrong,
        "logins": findings.logins,
        "unavailable": dict(findings.unavailable),
        "exceptions_logged": len(exceptions),
        "rss_mib": [[round(size / 2**20) for size in pair] for pair in memory.growth().values()],
        "flat": memory.is_flat,
        "seed": number,
    }
    print(json.dumps(told), flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
