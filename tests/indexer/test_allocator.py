"""The setting of polars's allocator is one that it knows, and it takes effect."""

import os
import subprocess
import sys

import pytest

from indexer.allocator import VARIABLE

SCRIPT = f"""
import os
import indexer
os.environ["{VARIABLE}"] += ",stats_print:true"
import polars
polars.DataFrame({{"number": [1, 2]}}).sort("number")
"""


@pytest.mark.parametrize(("given", "arenas"), [({}, 1), ({VARIABLE: "narenas:3"}, 3)])
def test_polars_allocates_in_one_arena(given: dict[str, str], arenas: int) -> None:
    """Unless an operator sets another number."""
    variables = {name: value for name, value in os.environ.items() if name != VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=variables | given,
        check=True,
        capture_output=True,
        text=True,
    )
    # The allocator prints its settings at the end of the process.
    assert f"opt.narenas: {arenas}\n" in done.stderr
