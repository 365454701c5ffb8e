"""The settings of libraries are ones that they know, and they take effect."""

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from indexer.library_settings import ALLOCATOR, SETTINGS


def run_after_import(script: str, given: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run lines in a process whose operator has set these settings and no others of ours."""
    variables = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    return subprocess.run(
        [sys.executable, "-c", f"import indexer\n{script}"],
        env={**variables, **given},
        check=True,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(("given", "arenas"), [({}, 1), ({ALLOCATOR: "narenas:3"}, 3)])
def test_polars_allocates_in_one_arena(given: dict[str, str], arenas: int) -> None:
    """Unless an operator sets another number."""
    script = f"""
import os
os.environ["{ALLOCATOR}"] += ",stats_print:true"
import polars
polars.DataFrame({{"number": [1, 2]}}).sort("number")
"""
    # The allocator prints its settings at the end of the process.
    assert f"opt.narenas: {arenas}\n" in run_after_import(script, given).stderr


@pytest.mark.parametrize(
    ("given", "loaded"), [({}, "sha3"), ({"ETH_HASH_BACKEND": "pycryptodome"}, "Crypto")]
)
def test_hashes_are_those_of_one_library(given: dict[str, str], loaded: str) -> None:
    script = """
import sys
from eth_hash.auto import keccak
print(keccak(b"").hex(), *sorted({"sha3", "Crypto"} & sys.modules.keys()))
"""
    empty = "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    assert run_after_import(script, given).stdout == f"{empty} {loaded}\n"


def test_pydantic_looks_for_no_plugins() -> None:
    script = """
from importlib import metadata
def distributions():
    raise AssertionError("pydantic looks for plugins")
metadata.distributions = distributions
from pydantic import BaseModel
class Model(BaseModel):
    pass
"""
    assert run_after_import(script, {}).stderr == ""
