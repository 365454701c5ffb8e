"""Runs the drills, one JSON line a fault; 1 when one did not go as it must.

python -m tests.system.drill [NAME …]
"""

import json
import os
import sys
import time
from datetime import UTC, datetime
from typing import Any

from tests.system.drill.faults import DRILLS, Drill
from tests.system.drill.monitoring import Monitoring, start_monitoring
from tests.system.drill.runbook import CommandFailed, run_commands, section_of, stand_ins
from tests.system.drill.system import System, running_system

FIRE_SECONDS, RESOLVE_SECONDS, READY_SECONDS = 60.0, 90.0, 120.0
_POLL_SECONDS = 0.25


class Failed(Exception):
    """A drill did not go as it must."""


def main(names: list[str]) -> int:
    """Run these drills, or all."""
    drills = [each for each in DRILLS if not names or each.name in names or each.alert in names]
    failures = 0
    with (
        running_system() as system,
        stand_ins(system.folder / "bin", lambda *asked: _act(system, *asked)) as path,
    ):
        monitoring = start_monitoring(system)
        left = monitoring.wait_until_quiet(READY_SECONDS)
        if left:
            sys.stderr.write(f"alerts before any fault: {left}\n")
            return 1
        # Longer than the `for` of every rule that these figures may break.
        time.sleep(10)
        for drill in drills:
            result = _run(system, monitoring, drill, path)
            failures += "problem" in result
            sys.stdout.write(f"{json.dumps(result)}\n")
            sys.stdout.flush()
            if monitoring.wait_until_quiet(RESOLVE_SECONDS):
                sys.stderr.write(f"alerts are left after {drill.name}: {monitoring.active()}\n")
                return 1
    sys.stderr.write(f"{len(drills) - failures} of {len(drills)} drills passed\n")
    return 1 if failures else 0


def _run(system: System, monitoring: Monitoring, drill: Drill, path: str) -> dict[str, Any]:
    result: dict[str, Any] = {"fault": drill.name, "alert": drill.alert, "planted": drill.planted}
    steps = result["runbook"] = []
    others: set[str] = set()
    section, mended = section_of(drill.alert), False
    began = time.monotonic()
    try:
        drill.inject(system)
        began = time.monotonic()
        labels = _wait_for_alert(monitoring, drill.alert, others)
        result["fired_after_s"] = round(time.monotonic() - began, 1)
        environment = _environment(system, labels, path)
        # `isthmus status` exits with 1 while there is a problem.
        run_commands(section.see, environment, codes=(0, 1))
        steps.append("see")
        drill.mend(system)
        mended, mended_at = True, time.monotonic()
        if section.do is not None:
            run_commands(section.do, environment, codes=(0,))
            steps.append("do")
        _wait_for_end(monitoring, drill.alert, others)
        result["resolved_after_s"] = round(time.monotonic() - mended_at, 1)
        run_commands(section.over, environment, codes=(0,))
        steps.append("over")
    except (Failed, CommandFailed) as problem:
        result["problem"] = str(problem)
        if not mended:
            drill.mend(system)
            if section.do is not None:
                environment = _environment(system, {}, path)
                run_commands(section.do, environment, codes=tuple(range(256)))
    if others:
        result["problem"] = f"{result.get('problem', '')} others fired: {sorted(others)}".strip()
    return result


def _wait_for_alert(monitoring: Monitoring, name: str, others: set[str]) -> dict[str, str]:
    deadline = time.monotonic() + FIRE_SECONDS
    while time.monotonic() < deadline:
        active = monitoring.active()
        others |= {str(alert) for alert in active if alert.name != name}
        for alert in active:
            if alert.name == name:
                return alert.labels
        time.sleep(_POLL_SECONDS)
    raise Failed(f"{name} did not fire within {FIRE_SECONDS:g} s")


def _wait_for_end(monitoring: Monitoring, name: str, others: set[str]) -> None:
    deadline = time.monotonic() + RESOLVE_SECONDS
    while active := monitoring.active():
        others |= {str(alert) for alert in active if alert.name != name}
        if time.monotonic() > deadline:
            raise Failed(f"did not end: {sorted(map(str, active))}")
        time.sleep(_POLL_SECONDS)


def _environment(system: System, labels: dict[str, str], path: str) -> dict[str, str]:
    """What the page takes for granted, and the labels of the alert in capitals."""
    url = system.owner.url
    service = system.folder / "pg_service.conf"
    service.write_text(
        f"[isthmus]\nhost={url.host}\nport={url.port}\ndbname={url.database}\n"
        f"user={url.username}\npassword={url.password}\n"
    )
    return {
        **{name.upper(): text for name, text in labels.items() if name in _LABELS},
        **system.variables,
        "PATH": path,
        "HOME": os.environ.get("HOME", "/"),
        "PGSERVICEFILE": str(service),
        "API_HOST": system.site.url.removeprefix("https://"),
    }


_LABELS = ("chain", "account", "slot")


def _act(system: System, program: str, words: list[str]) -> str:
    """What a stand-in program does."""
    if program == "pgbackrest":
        if "backup" in words:
            system.backup_file.touch()
        renewed = datetime.fromtimestamp(system.backup_file.stat().st_mtime, UTC)
        return f"stand-in: last backup {renewed.isoformat()}"
    if program == "journalctl":
        logs = sorted((system.settings.home / "logs").glob("*.log"))
        return "\n".join(f"{each.name}: {each.read_text()[-300:]}" for each in logs)
    for unit in words[1:]:
        for name in _processes(system, unit):
            system.start(name)
        if unit == "postgresql":
            system.postgres.start(lambda: None)
    return f"stand-in: {' '.join(words)}"


def _processes(system: System, unit: str) -> list[str]:
    """The drill's processes that a unit of `deploy/systemd` runs."""
    return {
        "isthmus-code-server": [*system.followers(), "attest", "transfers"],
        "isthmus-relay-server": ["relay", "webhooks"],
        "isthmus-api": ["api"],
        # With the clock right, its processes go on.
        "systemd-timesyncd": ["api"],
    }.get(unit, [])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
