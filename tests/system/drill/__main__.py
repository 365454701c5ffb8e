"""Runs the drills, one JSON line a fault; 1 when one did not go as it must.

python -m tests.system.drill [NAME …]
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tests.system.drill import clock
from tests.system.drill.faults import DRILLS, Drill
from tests.system.drill.monitoring import Monitoring, start_monitoring
from tests.system.drill.runbook import CommandFailed, run_commands, section_of, stand_ins
from tests.system.drill.system import DrillFailed, System, running_system

FIRE_SECONDS, RESOLVE_SECONDS, OVER_SECONDS, READY_SECONDS = 60.0, 90.0, 60.0, 120.0
_POLL_SECONDS = 0.25


def main(names: list[str]) -> int:
    """Run these drills, or all."""
    missing = missing_packages()
    if missing:
        sys.stderr.write(f"missing: apt-get install {' '.join(missing)}\n")
        return 1
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


def missing_packages() -> list[str]:
    """Debian's packages that are not installed here."""
    programs = {
        "prometheus": "prometheus",
        "prometheus-alertmanager": "prometheus-alertmanager",
        clock.COMPILER: "gcc libc6-dev",
    }
    return [packages for name, packages in programs.items() if shutil.which(name) is None]


def _run(system: System, monitoring: Monitoring, drill: Drill, path: str) -> dict[str, Any]:
    result: dict[str, Any] = {"fault": drill.name, "alert": drill.alert, "planted": drill.planted}
    with monitoring.recording() as seen:
        _go_through(system, monitoring, drill, path, result)
    others = sorted({str(alert) for alert in seen if alert.name != drill.alert})
    if others:
        result["problem"] = f"{result.get('problem', '')} others fired: {others}".strip()
    return result


def _go_through(
    system: System, monitoring: Monitoring, drill: Drill, path: str, result: dict[str, Any]
) -> None:
    steps = result["runbook"] = []
    section, mended = section_of(drill.alert), False
    try:
        drill.inject(system)
        began = time.monotonic()
        labels = _wait_for_alert(monitoring, drill.alert)
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
        _wait_for_end(monitoring)
        result["resolved_after_s"] = round(time.monotonic() - mended_at, 1)
        _await_success(section.over, environment)
        steps.append("over")
    except (DrillFailed, CommandFailed) as problem:
        result["problem"] = str(problem)
        if not mended:
            drill.mend(system)
            if section.do is not None:
                environment = _environment(system, {}, path)
                run_commands(section.do, environment, codes=tuple(range(256)))


def _wait_for_alert(monitoring: Monitoring, name: str) -> dict[str, str]:
    deadline = time.monotonic() + FIRE_SECONDS
    while time.monotonic() < deadline:
        for alert in monitoring.active():
            if alert.name == name:
                return alert.labels
        time.sleep(_POLL_SECONDS)
    raise DrillFailed(f"{name} did not fire within {FIRE_SECONDS:g} s")


def _wait_for_end(monitoring: Monitoring) -> None:
    left = monitoring.wait_until_quiet(RESOLVE_SECONDS)
    if left:
        raise DrillFailed(f"did not end: {sorted(map(str, left))}")


def _await_success(commands: str, environment: Mapping[str, str]) -> None:
    """Run commands until they succeed. Raises `CommandFailed` if they do not in time."""
    deadline = time.monotonic() + OVER_SECONDS
    while True:
        try:
            return run_commands(commands, environment, codes=(0,))
        except CommandFailed:
            if time.monotonic() > deadline:
                raise
        time.sleep(1)


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
