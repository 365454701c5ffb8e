"""Commands of docs/operations/alerts.md, run as they stand there.

The machine of the drill has no systemd and no pgBackRest: programs with these names are put before
the real ones on the `PATH`. They act on the drill's processes as the units do.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from devnet.local_server import Handler, Server, answering
from tests.architecture.imports import ROOT
from warehouse_schema.embedded import find_binaries

PAGE = ROOT / "docs" / "operations" / "alerts.md"
_FENCE = re.compile(r"```sh\n(.*?)```", re.DOTALL)
_STAND_INS = ("systemctl", "journalctl", "pgbackrest")
COMMAND_SECONDS = 120.0


@dataclass(frozen=True)
class Section:
    """Commands of one alert."""

    see: str
    do: str | None
    over: str


class CommandFailed(Exception):
    """A command of the page did not succeed."""


def section_of(alert: str) -> Section:
    """Its section. Raises `KeyError` without one."""
    parts = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    sections = {title: text for title, _, text in (part.partition("\n") for part in parts)}
    fences = _FENCE.findall(sections[alert])
    return Section(fences[0], fences[1] if len(fences) > 2 else None, fences[-1])


def run_commands(commands: str, environment: Mapping[str, str], *, codes: tuple[int, ...]) -> None:
    """Run a block line by line. Raises `CommandFailed` for another exit code."""
    for line in commands.strip().splitlines():
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if done.returncode not in codes:
            said = (done.stdout + done.stderr)[-2000:]
            raise CommandFailed(f"{line}: exit code {done.returncode}: {said}")


@contextmanager
def stand_ins(folder: Path, act: Callable[[str, list[str]], str]) -> Iterator[str]:
    """A `PATH` with the stand-ins first; `act(program, arguments)` returns what one prints."""

    class Answers(Handler):
        def do_GET(self) -> None:
            asked = parse_qs(urlsplit(self.path).query)
            self.answer(200, act(asked["program"][0], asked.get("word", [])).encode())

    folder.mkdir()
    with answering(Server(("127.0.0.1", 0), Answers)) as url:
        for program in _STAND_INS:
            file = folder / program
            file.write_text(
                f"#!{sys.executable}\n"
                "import sys\n"
                "from urllib.parse import urlencode\n"
                "from urllib.request import urlopen\n"
                f"words = [('program', {program!r}), *(('word', each) for each in sys.argv[1:])]\n"
                f"print(urlopen({url!r} + '/?' + urlencode(words)).read().decode())\n"
            )
            file.chmod(0o755)
        places = [folder, Path(sys.executable).parent, find_binaries().folder]
        yield os.pathsep.join([*map(str, places), "/usr/local/bin", "/usr/bin", "/bin"])
