"""Deeply nested input: Python's recursion limit, and readers that do not depend on it."""

import subprocess
import sys

IMPORT_ALL = """
import importlib, pkgutil, sys
usual = sys.getrecursionlimit()
import api
for module in pkgutil.walk_packages(api.__path__, "api."):
    # Two that do more than be imported: one serves, one is for a server's worker.
    if module.name not in ("api.server", "api.wsgi"):
        importlib.import_module(module.name)
import indexer.ingest.readers, indexer.config.warehouse
assert "api.auth.sep10" in sys.modules
assert sys.getrecursionlimit() == usual, sys.getrecursionlimit()
"""


def test_python_raises_recursion_error() -> None:
    # One library in reach (py_ecc) raises it to 100,000. The C stack ends before that, and with it
    # the process, in whatever reads nested input: JSON, XDR.
    command = [sys.executable, "-c", IMPORT_ALL]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr


def test_nested_input_overflows_no_stack() -> None:
    # In a process of its own: when it goes wrong, the process is gone.
    command = [sys.executable, "-m", "tests.factories.deep_readers"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, (said.returncode, said.stderr)
