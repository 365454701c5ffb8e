"""Check of what each socket received against what was committed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass
class SequenceResult:
    """Counts over all clients. A ledger that a snapshot replaced is neither lost nor missing."""

    deliveries: int = 0
    lost: int = 0
    twice: int = 0
    out_of_order: int = 0

    @property
    def is_exact(self) -> bool:
        """Every client received each ledger of its provider once, in order."""
        return not (self.lost or self.twice or self.out_of_order)


def check_sequences(
    committed: Mapping[str, Sequence[int]], report: Mapping[str, Any]
) -> SequenceResult:
    """`committed`: provider → its ledgers in order. `report` is that of `sockets`."""
    result = SequenceResult()
    for provider, clients in report["received"].items():
        ledgers = committed.get(provider, ())
        for received, snapshots in zip(clients, report["snapshots"][provider], strict=True):
            _check_client(result, ledgers, [ledger for ledger, _ in received], snapshots)
    return result


def _check_client(
    result: SequenceResult,
    committed: Sequence[int],
    received: Sequence[int],
    snapshots: Sequence[Sequence[float]],
) -> None:
    result.deliveries += len(received)
    result.twice += len(received) - len(set(received))
    result.out_of_order += sum(b < a for a, b in pairwise(received))
    known = set(received)
    # Between two snapshots all ledgers have to be there up to the last one received; the next
    # snapshot has the others.
    ends = [*(int(each[1]) for each in snapshots[1:]), len(received)]
    for place, ((first, start, _), end) in enumerate(zip(snapshots, ends, strict=True)):
        is_last = place == len(snapshots) - 1
        own = received[int(start) : end]
        until = committed[-1] if is_last and committed else max(own, default=int(first))
        result.lost += sum(first < ledger <= until and ledger not in known for ledger in committed)
