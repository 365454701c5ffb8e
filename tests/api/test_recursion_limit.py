"""Nothing that the api imports raises Python's recursion limit."""

import subprocess
import sys


def test_python_still_notices_what_nests_too_deep() -> None:
    # One library in reach (py_ecc) raises it to 100,000. The C stack ends before that, and with it
    # the process, in whatever reads nested input: JSON, XDR.
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; usual = sys.getrecursionlimit()\n"
            "import api.app, api.settings, api.auth.accounts, indexer.readers, indexer.warehouse\n"
            "assert sys.getrecursionlimit() == usual, sys.getrecursionlimit()",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
