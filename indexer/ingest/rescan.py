"""Reading a final range again, from other nodes, and holding it against what is stored.

A node may leave logs out for hours without contradicting itself, and where a chain's blooms cannot
be relied on nothing shows it but another node. What is found is alarmed and mended by a backfill of
the range; nothing is mended here, because which side is wrong is not known here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from sqlalchemy import Engine

from indexer.chains.ports import Range
from indexer.chains.raw import Block, RawEvent
from indexer.chains.watchlist import Watched
from indexer.config.networks import Chain
from indexer.decode import decode
from indexer.errors import Undecodable
from indexer.facts import store
from indexer.facts.alarms import clear_alarm, raise_alarm
from indexer.facts.watchlist import StoredWatchlist
from warehouse_schema.identifiers import Height

Reading: TypeAlias = Callable[[Height, Height, Watched], Range]
"""`ChainReader.read` of another node, or `Quorum.agreed_range`."""

ALARM = "rescan"
_SHOWN = 20
"""An operator needs the first few; the rest is the same fault."""


def rescan(engine: Engine, read: Reading, chain: Chain, first: Height, last: Height) -> list[str]:
    """What `first … last` read anew has otherwise than stored, in sentences; none when it agrees.

    An alarm stands for the range while they differ. Ask for final blocks only: others may change
    between the two readings. Addresses that were watched only later show up as missed, and a
    backfill is right for these, too. Raises what `read` raises.
    """
    fresh = read(first, last, StoredWatchlist.of(engine, chain))
    with engine.begin() as conn:
        blocks = store.blocks_between(conn, chain.id, first, last)
        events = store.read_raw(conn, chain.id, first, last)
        unread = {ledger.block.height: ledger.reason for ledger in fresh.unread}
        events = (event for event in events if event.seen.height not in unread)
        found = [
            *unread.values(),
            *_differences(_hashes(blocks), _hashes(fresh.blocks)),
            *_differences(_kept(events, chain), _kept(fresh.events, chain)),
        ][:_SHOWN]
        subject = f"{first}-{last}"
        if found:
            raise_alarm(conn, chain.id, ALARM, subject, "; ".join(found))
        else:
            clear_alarm(conn, chain.id, ALARM, subject)
    return [f"{chain.id}: {each}" for each in found]


def _hashes(blocks: Iterable[Block]) -> dict[str, object]:
    return {f"block {block.height}": block.hash for block in blocks}


def _kept(events: Iterable[RawEvent], chain: Chain) -> dict[str, object]:
    """Events by their place; those that we make nothing of are stored or not, and left out."""
    return {
        f"log {event.seen.position} of block {event.seen.height}": event
        for event in events
        if _is_of_ours(event, chain)
    }


def _is_of_ours(event: RawEvent, chain: Chain) -> bool:
    try:
        return decode(event, chain) is not None
    except Undecodable:
        return True


def _differences(stored: Mapping[str, object], fresh: Mapping[str, object]) -> Iterator[str]:
    for place in sorted(stored.keys() | fresh.keys()):
        if place not in stored:
            yield f"{place} is not stored"
        elif place not in fresh:
            yield f"{place} is stored, the other nodes do not have it"
        elif stored[place] != fresh[place]:
            yield f"{place} is stored otherwise than the other nodes have it"
