"""The image of deploy/image: built from this checkout, and run as a container would be.

No container engine is needed to run it: its root file system is mounted read-only in a mount
namespace of its own, with tmpfs where the image says that it writes, and entered without root.
"""

import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import make_url

from devnet.supervisor import free_port
from tests.architecture.imports import ROOT
from warehouse_schema.embedded import Server
from warehouse_schema.migrate import migrate

TAG = "localhost/isthmus:test"
BUILD_SECONDS = 900
START_SECONDS = 60.0

pytestmark = pytest.mark.timeout(BUILD_SECONDS)


@dataclass(frozen=True)
class Image:
    folder: Path
    """Its root file system."""
    config: dict[str, Any]

    def command(self, *arguments: str, **variables: str) -> list[str]:
        """Runs a program in it: read-only, as its user, without capabilities."""
        user = self.config["User"]
        root, given = shlex.quote(str(self.folder)), {**self.variables, **variables}
        words = ["/usr/bin/env", "-i", *(f"{name}={text}" for name, text in given.items())]
        steps = [
            f"mount --bind {root} {root}",
            f"mount -t tmpfs tmpfs {root}/tmp",
            f"mount -t tmpfs -o uid=10001,gid=10001,mode=700 tmpfs {root}/var/lib/isthmus",
            f"mount -t proc proc {root}/proc",
            f"mount -o remount,ro,bind {root}",
            f"exec chroot --userspec={user} --groups= {root} {shlex.join([*words, *arguments])}",
        ]
        namespaces = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        return [*namespaces, "sh", "-c", " && ".join(steps)]

    @property
    def variables(self) -> dict[str, str]:
        return dict(each.split("=", 1) for each in self.config["Env"])


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    missing = [each for each in ("buildah", "mmdebstrap", "unshare") if shutil.which(each) is None]
    if missing:
        pytest.fail(
            f"not installed: {', '.join(missing)} (Debian: apt-get install buildah mmdebstrap)"
        )
    if os.geteuid() != 0:
        pytest.fail("only root can build the image here: run `make packaging` as root")
    build = subprocess.run(
        [ROOT / "deploy/image/build.sh"],
        env={**os.environ, "TAG": TAG},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert build.returncode == 0, build.stdout + build.stderr
    container = buildah("from", "--pull-never", TAG)
    try:
        config = json.loads(buildah("inspect", "--type", "image", TAG))["Docker"]["config"]
        yield Image(Path(buildah("mount", container)), config)
    finally:
        buildah("rm", container)
        buildah("rmi", TAG)


def buildah(*arguments: str) -> str:
    done = subprocess.run(["buildah", *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_image_names_user_command_and_health_check(image: Image) -> None:
    assert image.config["User"] == "10001:10001"
    assert image.config["Entrypoint"] == ["isthmus"]
    assert image.config["Healthcheck"]["Test"] == ["CMD", "isthmus", "alive", "api"]


def test_root_file_system_is_read_only(image: Image) -> None:
    program = "id -u; isthmus --help; touch /var/lib/isthmus/a /tmp/a && echo kept; touch /opt/a"
    done = subprocess.run(image.command("sh", "-c", program), capture_output=True, text=True)
    assert done.stdout.startswith("10001\nUsage: isthmus [OPTIONS] COMMAND")
    assert done.stdout.endswith("kept\n")
    assert done.stderr.strip() == "touch: cannot touch '/opt/a': Read-only file system"


def test_image_has_no_installer_and_no_devnet(image: Image) -> None:
    packages = image.folder / "opt/isthmus/lib/python3.11/site-packages"
    present = [name for name in ("pip", "devnet", "pytest", "tests") if (packages / name).exists()]
    assert present == []
    assert (packages / "pipelines/dagster.yaml").is_file()


def test_api_answers_from_the_image(image: Image, postgres: Server) -> None:
    port, url = free_port(), postgres.url("image")
    migrate(make_url(url))
    api = image.command(
        *("isthmus", "api", "--bind", f"127.0.0.1:{port}", "--workers", "1"),
        DATABASE_URL=url,
    )
    with subprocess.Popen(api) as process:
        try:
            deadline = time.monotonic() + START_SECONDS
            while not answers(port):
                assert process.poll() is None, "the API ended"
                assert time.monotonic() < deadline, "the API does not answer"
                time.sleep(0.2)
        finally:
            process.kill()


def answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
    except httpx.TransportError:
        return False
