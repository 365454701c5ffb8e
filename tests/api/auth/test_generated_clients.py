"""Clients generated from `/openapi.json` compile, sign in and read an answer."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import jwt
import pytest
from flask.testing import FlaskClient

from tests.api.auth.conftest import Serve
from tests.factories.sep10 import WALLET

GENERATED = Path(__file__).parent / "generated"
ROOT = Path(__file__).parents[3]
NPM = ROOT / "node_modules"
COMPILE = ("--strict", "--exactOptionalPropertyTypes", "--skipLibCheck")


@pytest.fixture
def document(signed_in: FlaskClient, tmp_path: Path) -> Path:
    """`/openapi.json` in a file."""
    path = tmp_path / "openapi.json"
    path.write_bytes(signed_in.get("/openapi.json").data)
    return path


def run(command: Sequence[str | Path], folder: Path, **environment: str) -> str:
    """What the command prints. Fails with its errors where it does."""
    usual = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=usual | environment,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def assert_signed_in(printed: str) -> None:
    answers = json.loads(printed)
    claims = jwt.decode(answers.pop("token"), options={"verify_signature": False})
    assert claims["sub"] == WALLET.public_key
    assert answers == {
        "status": 400,
        "code": "BAD_AMOUNT",
        # Members that were left out are not sent.
        "submission": {"kind": "stellar_tx", "signed_xdr": "AAAA"},
    }


def test_openapi_typescript_client_compiles_and_signs_in(
    serve: Serve, document: Path, tmp_path: Path
) -> None:
    (tmp_path / "node_modules").symlink_to(NPM)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "client.ts").write_bytes((GENERATED / "client.ts").read_bytes())
    run([NPM / ".bin/openapi-typescript", document, "-o", "isthmus.ts"], tmp_path)
    modern = ("--module", "nodenext", "--target", "es2022")
    run([NPM / ".bin/tsc", *COMPILE, *modern, "client.ts"], tmp_path)
    with serve("host:port") as home:
        assert_signed_in(run(["node", "client.js", home, WALLET.secret], tmp_path))


def test_openapi_python_client_imports_and_signs_in(
    serve: Serve, document: Path, tmp_path: Path
) -> None:
    # Without the hooks it would format what it made.
    (tmp_path / "config.yaml").write_text("post_hooks: []\n")
    run(
        [
            *(sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"),
            *("--path", document, "--config", "config.yaml"),
            *("--output-path", tmp_path / "isthmus_generated"),
        ],
        tmp_path,
    )
    with serve("host:port") as home:
        script: list[str | Path] = [sys.executable, GENERATED / "client.py", home, WALLET.secret]
        printed = run(script, tmp_path, PYTHONPATH=str(tmp_path))
    assert_signed_in(printed)
