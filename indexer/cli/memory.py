"""Memory of a long command."""

import ctypes

from indexer.library_settings import add_allocator_settings
from warehouse_schema.configuration import set_variables

_M_ARENA_MAX = -8
"""From glibc's malloc.h; described in `man 3 mallopt`."""
_GIVE_BACK = "dirty_decay_ms:100,muzzy_decay_ms:0"
"""Polars gives freed memory back after a tenth of a second, not after a second and a half.

Followers keep its own setting: with the next ledger they would ask for the memory again.
"""


def use_little_memory() -> None:
    """Keep the memory of this process small; to be called before polars is imported.

    For a command that decodes ranges side by side: more threads of polars would take more memory
    and no less time, so it has one, whatever the followers of the same environment have. What
    polars frees goes back to the system soon, or a chunk would get new memory beside that of the
    one before. And the C library allocates for all threads from one arena, not from up to eight
    for each core.
    """
    set_variables({"POLARS_MAX_THREADS": "1"})
    add_allocator_settings(_GIVE_BACK)
    # None where the C library is not glibc.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
