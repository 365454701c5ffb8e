"""`make fuzz` can fail: what it is there to find is planted, and found."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from flask import Flask, abort
from sqlalchemy import Engine
from werkzeug.serving import make_server

from tests.factories.sep10 import FixedAccounts, make_rules, make_sign_in_app
from tests.fuzz.__main__ import Memory, _tell
from tests.fuzz.hammer import Findings, Hammer


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


def hammered(app: Flask, parts: int) -> Findings:
    """What is found in the first parts of a round."""
    done = count(1)
    over = threading.Event()

    def told(_: Any) -> None:
        if next(done) >= parts:
            over.set()

    with served(app) as url:
        return Hammer(url, 1, lambda: not over.is_set()).run(told)


@pytest.mark.usefixtures("migrated")
def test_a_planted_500_and_a_planted_answer_are_found(api_engine: Engine) -> None:
    app = make_sign_in_app(api_engine, FixedAccounts(make_rules()))
    app.view_functions["auth.give_stellar_toml"] = lambda: abort(500)
    app.view_functions["auth.give_challenge"] = lambda: {"not": "a challenge"}
    findings = hammered(app, 3)
    assert findings.errors_500 > 0
    assert findings.undocumented > 0
    assert not findings.is_good


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
        (Findings(requests=9), steady(100, 127), [], 1),
        (Findings(requests=9), steady(100, 100), ["Traceback (most recent call last):\n"], 1),
    ],
)
def test_each_thing_that_must_not_be_makes_the_run_fail(
    findings: Findings, memory: Memory, log: list[str], code: int
) -> None:
    assert _tell(findings, memory, log, 1) == code


def test_a_worker_that_was_lost_is_not_flat() -> None:
    memory = steady(100, 100)
    memory.seen[2] = [(0.3, 100)]
    assert not memory.is_flat
