"""`isthmus doctor`: exit codes, the table, JSON, and a group that stops."""

import json
from collections.abc import Callable, Iterator

import pytest

from indexer.cli.main import main
from indexer.doctor import run
from indexer.doctor.checks import Check, CheckGroup, CheckResult, DoctorContext
from indexer.errors import ConfigurationError

Doctor = Callable[..., tuple[int, str]]

LIKES_TEA = Check("pot.likes_tea", "The pot is for tea.", "Buy another pot.")


def _pots(context: DoctorContext) -> Iterator[CheckResult]:
    yield LIKES_TEA.ok("pot 1", "Assam")
    yield LIKES_TEA.failed("pot 2", "it smells of coffee")


def _stopped(context: DoctorContext) -> Iterator[CheckResult]:
    raise ConfigurationError("KETTLE is unset")


POTS = CheckGroup((LIKES_TEA,), _pots)
STOPPED = CheckGroup((), _stopped)
HEALTHY = CheckGroup((LIKES_TEA,), lambda _: iter([LIKES_TEA.ok("pot 1", "Assam")]))


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Runs `isthmus doctor …` with groups of this file; its exit code and what it printed."""
    groups = {name: f"{__name__}:{name.upper()}" for name in ("pots", "stopped", "healthy")}
    monkeypatch.setattr(run, "GROUPS", groups)
    monkeypatch.setenv("ISTHMUS_NETWORK", "devnet")

    def ask(*arguments: str) -> tuple[int, str]:
        code = main(("doctor", *arguments))
        output = capsys.readouterr()
        return code, output.out + output.err

    return ask


def test_findings_are_printed_with_their_fix(doctor: Doctor) -> None:
    code, printed = doctor("--only", "pots")
    assert code == 1
    assert printed.startswith(
        "pots  2 ok, 1 finding\n"
        "\n"
        "pot.likes_tea  pot 2\n"
        "  it smells of coffee\n"
        "  Fix: Buy another pot.\n"
        "\n"
        "1 finding in 3 checks, "
    )


def test_verbose_prints_what_was_seen(doctor: Doctor) -> None:
    code, printed = doctor("--only", "healthy", "-v")
    assert code == 0
    assert "  pot.likes_tea  pot 1  Assam\n" in printed


def test_json_is_one_object(doctor: Doctor) -> None:
    code, printed = doctor("--only", "pots", "--json")
    document = json.loads(printed)
    assert (code, document["checks"], document["findings"]) == (1, 3, 1)
    assert document["results"][1] == {
        "group": "pots",
        "check": "pot.likes_tea",
        "subject": "pot 2",
        "status": "finding",
        "seen": "",
        "problem": "it smells of coffee",
        "fix": "Buy another pot.",
    }


def test_group_that_stops_is_a_finding_and_others_run(doctor: Doctor) -> None:
    code, printed = doctor("--only", "stopped", "--only", "healthy")
    assert code == 1
    assert "stopped  0 ok, 1 finding\nhealthy  2 ok, 0 findings\n" in printed
    assert "doctor.completed  stopped\n  ConfigurationError: KETTLE is unset\n" in printed


def test_unknown_group_is_a_wrong_call(doctor: Doctor) -> None:
    code, printed = doctor("--only", "cups")
    assert code == 2
    assert "no group cups; there are pots, stopped, healthy" in printed


def test_wrong_setting_exits_2(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISTHMUS_NETWORK", "moonnet")
    code, printed = doctor()
    assert code == 2
    assert "moonnet" in printed
