"""`make fuzz` finds planted failures."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from itertools import count
from pathlib import Path

import httpx
import pytest
from flask import Flask, abort
from sqlalchemy import URL, Engine
from werkzeug.serving import make_server

from tests.factories.api_server import TIMEOUT, serving
from tests.factories.sep10 import (
    PASSPHRASE,
    WALLET,
    FixedAccounts,
    make_rules,
    make_sign_in_app,
)
from tests.system.fuzz.__main__ import Memory, _tell, failures
from tests.system.fuzz.hammer import Findings, Hammer
from tests.system.fuzz.owners import COSIGNER, NEWCOMER, OWNERS, Attempt, issuing, ledger_rules
from tests.system.fuzz.planted import HALFWAY, INSIDE, OUTSIDE


@contextmanager
def served(app: Flask) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def hammered(app: Flask, enough: Callable[[Findings], bool]) -> Findings:
    """What is found until that is enough, or in the first ten parts of a round."""
    done = count(1)
    over = threading.Event()

    def after_part(findings: Findings) -> None:
        if enough(findings) or next(done) >= 10:
            over.set()

    with served(app) as url:
        return hammer(url, lambda: not over.is_set()).run(after_part)


def hammer(url: str, goes_on: Callable[[], bool]) -> Hammer:
    return Hammer(url, 1, goes_on, issue=issuing("ours"), passphrase=PASSPHRASE)


@pytest.mark.usefixtures("migrated")
def test_planted_500_and_planted_response_are_found(api_engine: Engine) -> None:
    app = make_sign_in_app(api_engine, FixedAccounts(ledger_rules()))
    # The document describes what the views say of themselves: planted ones must say the same.
    views = app.view_functions
    for name, planted in {
        "auth.give_stellar_toml": lambda: abort(500),
        "auth.give_challenge": lambda: {"not": "a challenge"},
    }.items():
        views[name] = wraps(views[name])(planted)
    findings = hammered(app, lambda found: found.errors_500 > 0 and found.undocumented > 0)
    assert findings.errors_500 > 0
    assert findings.undocumented > 0
    assert not findings.is_good


def signed_in(app: Flask) -> Findings:
    """What is found by logins, right ones and others."""
    funded, newcomer = OWNERS
    with served(app) as url:
        tool = hammer(url, lambda: True)
        tool.sign_in(Attempt(funded, (WALLET, COSIGNER), width=76))
        tool.sign_in(Attempt(newcomer, (NEWCOMER,)))
        for signers in ((), (WALLET,), (WALLET, WALLET), (COSIGNER,), (NEWCOMER, WALLET)):
            tool.sign_in(Attempt(funded, signers))
        tool.sign_in(Attempt(newcomer, (WALLET,)))
        tool.sign_in(Attempt(newcomer, (NEWCOMER,), flips=((300, 1),)))
        return tool.findings


@pytest.mark.usefixtures("migrated")
def test_only_correct_signers_are_signed_in(api_engine: Engine) -> None:
    found = signed_in(make_sign_in_app(api_engine, FixedAccounts(ledger_rules())))
    assert found.is_good, found
    assert found.logins == 2


@pytest.mark.usefixtures("migrated")
def test_ignored_threshold_is_found(api_engine: Engine) -> None:
    found = signed_in(make_sign_in_app(api_engine, FixedAccounts(make_rules(cosigner=1))))
    assert found.wrong > 0
    assert not found.is_good


def test_failures_in_outside_and_halfway_are_in_the_log(database: URL, tmp_path: Path) -> None:
    with serving(
        database, tmp_path, workers=1, program=[sys.executable, "-m", "tests.system.fuzz.planted"]
    ) as server:
        for path, status in (("/healthz", 200), (INSIDE, 500), (OUTSIDE, 500)):
            assert httpx.get(f"{server.url}{path}", timeout=TIMEOUT).status_code == status
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(f"{server.url}{HALFWAY}", timeout=TIMEOUT)
    found = failures(server.log)
    assert [line for line in found if "request failed id=" in line and INSIDE in line]
    assert [line for line in found if "request failed outside of the app" in line]
    assert [line for line in found if "Error handling request" in line]
    assert not failures(line for line in server.log if "/healthz" in line)


def steady(early: int, late: int) -> Memory:
    memory = Memory()
    memory.seen[1] = [(0.1, 1), (0.3, early << 20), (0.9, late << 20)]
    return memory


@pytest.mark.parametrize(
    ("findings", "memory", "log", "code"),
    [
        (Findings(requests=9), steady(100, 125), ["all is well\n"], 0),
        (Findings(requests=0), steady(100, 100), [], 1),
        (Findings(requests=9, errors_500=1), steady(100, 100), [], 1),
        (Findings(requests=9, broken=1), steady(100, 100), [], 1),
        (Findings(requests=9, undocumented=1), steady(100, 100), [], 1),
        (Findings(requests=9, wrong=1), steady(100, 100), [], 1),
        (Findings(requests=9), steady(100, 127), [], 1),
        *(
            (Findings(requests=9), steady(100, 100), [line], 1)
            for line in (
                "Traceback (most recent call last):\n",
                "2026-11-22 05:00:00,000 ERROR api.request_log request failed id=1\n",
                "[2026-11-22 05:00:00 +0000] [7] [ERROR] Error handling request /\n",
                "[2026-11-22 05:00:00 +0000] [7] [CRITICAL] WORKER TIMEOUT (pid:8)\n",
            )
        ),
    ],
)
def test_each_violation_makes_the_run_fail(
    findings: Findings, memory: Memory, log: list[str], code: int
) -> None:
    assert _tell(findings, memory, log, 1) == code


def test_lost_worker_is_not_flat_memory() -> None:
    memory = steady(100, 100)
    memory.seen[2] = [(0.3, 100)]
    assert not memory.is_flat
