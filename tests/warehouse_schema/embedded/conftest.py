"""Clusters to start, break and talk to.

A test that starts or breaks a server gets a copy (`home`) of one cluster made once; one that only
talks to a server shares `running`. All lie in folders that user ``nobody`` can reach, since
Postgres runs as that user when the tests run as root (pytest's own tmp_path is closed to it).
"""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from warehouse_schema.embedded import EmbeddedPostgres


def make_open_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="isthmus-embedded-"))
    folder.chmod(0o755)
    return folder


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder; the server in ``data``, if the test makes one, is stopped afterwards."""
    made = make_open_folder()
    try:
        yield made
        EmbeddedPostgres(made / "data").stop()
    finally:
        shutil.rmtree(made)


@pytest.fixture(scope="session")
def template() -> Iterator[Path]:
    """A folder with a stopped cluster in ``data`` and its password beside it."""
    made = make_open_folder()
    try:
        with EmbeddedPostgres(made / "data", durable=False):
            pass
        (made / "data.port").unlink()
        yield made
    finally:
        shutil.rmtree(made)


@pytest.fixture
def home(template: Path, folder: Path) -> Path:
    """A folder with a copy of the template, owners included."""
    subprocess.run(["cp", "-a", f"{template}/.", folder], check=True)
    return folder


@pytest.fixture(scope="session")
def running() -> Iterator[EmbeddedPostgres]:
    """A server for tests that only talk to it."""
    made = make_open_folder()
    try:
        postgres = EmbeddedPostgres(made / "state" / "data")
        with postgres:
            yield postgres
    finally:
        shutil.rmtree(made)
