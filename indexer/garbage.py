"""Python's garbage collector, around work that makes many objects and no cycles."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def rare_collections(objects: int) -> Iterator[None]:
    """Collect only after so many new objects, in the whole process.

    By default the collector looks for cycles after every 700 new objects. Events, rows and orders
    are in none: looking took a quarter of a fold, and a tenth of a full Stellar ledger.
    """
    before = gc.get_threshold()
    gc.set_threshold(objects, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
