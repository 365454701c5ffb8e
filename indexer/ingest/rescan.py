"""Comparison of a finalized range with the same range read from other nodes.

A node may omit logs for hours without contradicting itself, and where a chain's blooms are not
reliable only another node shows it. Differences are alarmed; an operator repairs them with a
backfill, because a comparison does not tell which side is wrong.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from sqlalchemy import Engine

from indexer.chains.ports import Range
from indexer.chains.raw import RawEvent
from indexer.chains.watchlist import Watched
from indexer.config.networks import Chain
from indexer.decode import decode
from indexer.errors import RangeTooWide, Undecodable
from indexer.facts import store
from indexer.facts.alarms import clear_alarm, raise_alarm
from indexer.facts.watchlist import StoredWatchlist
from warehouse_schema.identifiers import Height

Reading: TypeAlias = Callable[[Height, Height, Watched], Range]
"""`ChainReader.read` of another node, or `Quorum.agreed_range`."""

ALARM = "rescan"
_MAX_LISTED = 20
"""Differences listed."""


def rescan(engine: Engine, read: Reading, chain: Chain, first: Height, last: Height) -> list[str]:
    """Differences between `first … last` as stored and as read now, in sentences.

    Raises an alarm for the range, or clears it. Finalized blocks only: others may change between
    the two reads. Events of addresses that were watched later show up as not stored, and a backfill
    is right for these, too. Raises what `read` raises.
    """
    fresh = _read_whole(read, first, last, StoredWatchlist(chain, engine.begin))
    with engine.begin() as conn:
        blocks = store.blocks_between(conn, chain.id, first, last)
        events = store.read_raw(conn, chain.id, first, last)
        hashes: dict[str, object] = {f"block {each.height}": each.hash for each in blocks}
        fresh_hashes: dict[str, object] = {
            f"block {each.height}": each.hash for each in fresh.blocks
        }
        unread = {ledger.block.height: ledger.reason for ledger in fresh.unread}
        events = (event for event in events if event.seen.height not in unread)
        found = [
            *unread.values(),
            *_differences(hashes, fresh_hashes),
            *_differences(_decodable(events, chain), _decodable(fresh.events, chain)),
        ][:_MAX_LISTED]
        subject = f"{first}-{last}"
        if found:
            raise_alarm(conn, chain.id, ALARM, subject, "; ".join(found))
        else:
            clear_alarm(conn, chain.id, ALARM, subject)
    return [f"{chain.id}: {each}" for each in found]


def _read_whole(read: Reading, first: Height, last: Height, watched: Watched) -> Range:
    """The range, in halves where it is too wide to be read at once."""
    try:
        return read(first, last, watched)
    except RangeTooWide:
        if first == last:
            raise
    middle = (first + last) // 2
    low = _read_whole(read, first, Height(middle), watched)
    high = _read_whole(read, Height(middle + 1), last, watched)
    return Range(low.blocks + high.blocks, low.events + high.events, low.unread + high.unread)


def _decodable(events: Iterable[RawEvent], chain: Chain) -> dict[str, object]:
    """Events by place, without those that decode to nothing: some of these are not stored."""
    found: dict[str, object] = {}
    for event in events:
        try:
            is_ours = decode(event, chain) is not None
        except Undecodable:
            is_ours = True
        if is_ours:
            found[f"log {event.seen.position} of block {event.seen.height}"] = event
    return found


def _differences(stored: Mapping[str, object], fresh: Mapping[str, object]) -> Iterator[str]:
    for place in sorted(stored.keys() | fresh.keys()):
        if place not in stored:
            yield f"{place} is not stored"
        elif place not in fresh:
            yield f"{place} is stored, the other nodes do not have it"
        elif stored[place] != fresh[place]:
            yield f"{place} is stored otherwise than the other nodes have it"
