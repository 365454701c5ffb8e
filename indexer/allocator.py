"""How much memory polars's allocator keeps. Imported before polars, whatever imports that."""

import os

VARIABLE = "_RJEM_MALLOC_CONF"
"""Read by the allocator when it is loaded, and by nothing of ours."""

# By default each thread keeps memory of its own: a tenth more of a backfill's peak, and no faster
# (docs/performance.md).
os.environ.setdefault(VARIABLE, "narenas:1")
