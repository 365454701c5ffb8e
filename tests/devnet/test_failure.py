"""Output of a demo that failed."""

import os
import subprocess
from pathlib import Path

from devnet.demo import failure
from devnet.services import isthmus


def test_failure_names_problem_logs_and_next_step(tmp_path: Path) -> None:
    (tmp_path / "api.log").write_text("INFO on\nERROR a\nTraceback (most recent call last)\n")
    (tmp_path / "evm.log").write_text("Listening\n")
    assert failure(["the summary: offerCount is 1, and must be 2"], tmp_path).splitlines() == [
        "",
        "THE DEMO FAILED: 1 problem",
        "  the summary: offerCount is 1, and must be 2",
        f"The logs are in {tmp_path}.",
        "Errors in api.log: 2, the first:",
        "  ERROR a",
        "  Traceback (most recent call last)",
        "Run `make demo` again once the cause is mended: it begins from nothing.",
    ]
    assert "2 problems" in failure(["one", "another"], tmp_path)


def test_unreachable_database_fails_the_demo_without_traceback(tmp_path: Path) -> None:
    ended = subprocess.run(
        isthmus("demo"),
        env={
            **os.environ,
            "ISTHMUS_HOME": str(tmp_path),
            "DATABASE_URL": "postgresql://nobody:x@127.0.0.1:1/isthmus",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "THE DEMO FAILED: 1 problem\n  the database does not answer" in ended.stdout
    assert f"The logs are in {tmp_path}/demo/logs." in ended.stdout
