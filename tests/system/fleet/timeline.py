"""What clients and the warehouse saw between two moments, from records of the whole run."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any


def longest_pause(times: Iterable[float], since: float, until: float) -> float:
    """Seconds of the longest time within the window that has no event."""
    inside = [since, *sorted(at for at in times if since < at < until), until]
    return max(later - earlier for earlier, later in pairwise(inside))


def of_requests(found: Mapping[str, Any], since: float, until: float) -> dict[str, Any]:
    """Errors, the longest time without an answer, and the slowest answer."""
    errors = Counter(reason for at, reason in found["errors"] if since <= at < until)
    done = [due + seconds for due, seconds in found["answers"]]
    slowest = max(
        (seconds for due, seconds in found["answers"] if since <= due < until), default=0.0
    )
    return {
        "errors": dict(errors),
        "pause_s": round(longest_pause(done, since, until), 2),
        "slowest_s": round(slowest, 2),
    }


def of_sockets(report: Mapping[str, Any], since: float, until: float) -> dict[str, Any]:
    """Connections that were lost, how long it took to resume, and snapshots instead.

    `last_back_s` is from the beginning of the window, so it includes the time until a client sees
    that its connection is lost.
    """
    closed = [(lost, back) for lost, back in report["away"] if since <= lost < until]
    away = [back - lost for lost, back in closed]
    snapshots = sum(
        since <= at < until
        for clients in report["snapshots"].values()
        for own in clients
        for _, _, at in own[1:]
    )
    return {
        "closed": len(closed),
        "last_back_s": round(max(back for _, back in closed) - since, 2) if closed else None,
        "resumed_p50_s": _share(away, 0.5),
        "resumed_max_s": _share(away, 1.0),
        "snapshots": snapshots,
    }


def message_pause(report: Mapping[str, Any], since: float, until: float) -> float:
    """The longest time without a message at any socket."""
    times = (
        at for clients in report["received"].values() for received in clients for _, at in received
    )
    return round(longest_pause(times, since, until), 2)


def _share(values: Sequence[float], share: float) -> float | None:
    if not values:
        return None
    return round(sorted(values)[min(len(values) - 1, int(share * len(values)))], 2)
