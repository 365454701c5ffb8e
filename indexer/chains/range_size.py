"""How many events of several blocks are held at once."""

from indexer.errors import RangeTooWide
from warehouse_schema.identifiers import ChainId, Height

MAX_EVENTS = 20_000
"""Some 40 MB, and twice as much while the next ones are requested. Three full Stellar ledgers."""


def check_events(chain: ChainId, first: Height, last: Height, events: int) -> None:
    """Raise `RangeTooWide` when so many events are too many for several blocks.

    The caller halves the range. One block is read whatever it has.
    """
    if first < last and events > MAX_EVENTS:
        raise RangeTooWide(f"{chain}: {first} to {last} has over {MAX_EVENTS} events")
