"""The units of deploy/systemd, as systemd itself reads them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.architecture.imports import ROOT

UNITS = ROOT / "deploy/systemd"
SERVICES = sorted(path.name for path in UNITS.glob("isthmus-*.service"))
MAX_EXPOSURE = 12
"""Tenths. What remains is mostly the network, which all of them use; a bare service has 96."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root folder with the units of Debian's systemd and ours, and a program `isthmus`."""
    if shutil.which("systemd-analyze") is None:
        pytest.fail("systemd-analyze is not installed (Debian: apt-get install systemd)")
    folder = tmp_path_factory.mktemp("root")
    shutil.copytree("/usr/lib/systemd/system", folder / "usr/lib/systemd/system", symlinks=True)
    shutil.copytree(UNITS, folder / "etc/systemd/system")
    program = folder / "opt/isthmus/bin/isthmus"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return folder


def test_units_are_valid(root: Path) -> None:
    done = analyze("verify", f"--root={root}", "isthmus.target", *SERVICES)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("service", SERVICES)
def test_unit_is_hardened(root: Path, service: str) -> None:
    options = ("--offline=true", f"--threshold={MAX_EXPOSURE}", f"--root={root}")
    done = analyze("security", *options, service)
    assert done.returncode == 0, done.stdout


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *arguments], capture_output=True, text=True, check=False
    )
