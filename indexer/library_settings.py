"""Settings that libraries read from the environment when they are imported.

This module is imported before any of them. Values that an operator has set are kept.
"""

import os

ALLOCATOR = "_RJEM_MALLOC_CONF"
"""Read by polars's allocator when it is loaded, and by nothing of ours."""

SETTINGS = {
    # By default each thread keeps memory of its own: a tenth more of a backfill's peak, and no
    # faster (docs/performance.md).
    ALLOCATOR: "narenas:1",
    # pycryptodome, the default, takes five times as long for a hash and 55 ms more to import.
    "ETH_HASH_BACKEND": "pysha3",
    # Nothing here extends pydantic; looking for it among all installed packages takes 25 ms.
    "PYDANTIC_DISABLE_PLUGINS": "true",
}

for name, value in SETTINGS.items():
    os.environ.setdefault(name, value)


def add_allocator_settings(settings: str) -> None:
    """Add `name:value,…` before polars is imported; overrides an operator's of the same name."""
    os.environ[ALLOCATOR] += f",{settings}"
