"""What a long run reports to the asset pages, and how often."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum, auto
from typing import Any, ClassVar, Generic, Protocol, Self, TypeAlias, TypeVar

import dagster as dg

from indexer.facts.status import ChainStatus
from indexer.ingest.ranges import RangeProgress

Metadata: TypeAlias = dict[str, str | int | float | dg.MetadataValue | None]


class DataclassReport(Protocol):
    """Any dataclass: what was done in one step of a run."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


S = TypeVar("S", bound=DataclassReport)
P = TypeVar("P")


def add_reports(before: S, after: S) -> S:
    """Integers are summed; a list keeps its last non-empty value; of the rest the latest counts."""
    merged = {}
    for name in (field.name for field in fields(after)):
        old, new = getattr(before, name), getattr(after, name)
        if isinstance(new, int):
            merged[name] = old + new
        elif isinstance(new, list):
            merged[name] = new or old
    return replace(after, **merged)


def counts_metadata(report: DataclassReport, _: float = 0.0) -> Metadata:
    """Each field of a report of numbers and lists of sentences; a missing number is 0."""
    metadata: Metadata = {}
    for name in (field.name for field in fields(report)):
        value = getattr(report, name)
        if isinstance(value, list):
            metadata[name] = "\n".join(value) or "nothing"
        elif isinstance(value, int):
            metadata[name] = value
        else:
            metadata[name] = value or 0.0
    return metadata


@dataclass(frozen=True, slots=True)
class IngestReport:
    """A chain's latest range, and what was committed since the last report."""

    latest: RangeProgress
    blocks: int
    events: int
    undecodable: int
    quarantined: int
    reorgs: int

    @classmethod
    def of(cls, progress: RangeProgress) -> "IngestReport":
        """One range. Negative blocks are a rewind, which counts as a reorg."""
        rewound = progress.blocks < 0
        return cls(
            latest=progress,
            blocks=0 if rewound else progress.blocks,
            events=progress.events,
            undecodable=progress.undecodable,
            quarantined=progress.quarantined,
            reorgs=int(rewound),
        )


def chain_metadata(report: IngestReport, seconds: float) -> Metadata:
    """How far a chain is, how late, and what was committed in the seconds since the last report."""
    latest = report.latest
    rate = report.blocks / max(seconds, 0.001)
    return {
        "height": latest.height,
        "head": latest.head_height,
        "lag_blocks": latest.lag_blocks,
        "lag_seconds": latest.lag_seconds,
        "as_of": dg.MetadataValue.timestamp(float(latest.block_time)),
        "blocks": report.blocks,
        "blocks_per_second": round(rate, 1),
        "events": report.events,
        "undecodable": report.undecodable,
        "quarantined": report.quarantined,
        "reorgs": report.reorgs,
    }


def projection_metadata(report: IngestReport, _: float) -> Metadata:
    """As of when a projection is, and how late, by the chain that was folded into it last."""
    latest = report.latest
    return {
        "chain": latest.chain,
        "as_of": dg.MetadataValue.timestamp(float(latest.block_time)),
        "as_of_height": latest.height,
        "lag_seconds": latest.lag_seconds,
    }


def status_metadata(status: ChainStatus) -> Metadata:
    """How far a chain is, as the warehouse has it."""
    if status.height is None:
        return {"height": "nothing ingested yet"}
    return {
        "height": status.height,
        "head": status.head_height or status.height,
        "lag_blocks": status.lag_blocks or 0,
        "lag_seconds": status.lag_seconds or 0,
    }


Event = dg.AssetMaterialization | dg.AssetObservation


class LaterReports(Enum):
    """Events after a run's first report, which materializes the asset.

    A check counts as not evaluated from the next materialization on, so an asset with checks must
    not be materialized every few seconds.
    """

    MATERIALIZE = auto()
    OBSERVE = auto()
    NOTHING = auto()


@dataclass(frozen=True, slots=True)
class AssetReporter(Generic[S]):
    """An asset that a long run writes, and its metadata by report and seconds."""

    key: dg.AssetKey
    metadata: Callable[[S, float], Metadata]
    later: LaterReports


class LatestReporter(Generic[P]):
    """Writes the latest report, every few seconds and at the end of its block."""

    def __init__(
        self,
        write: Callable[[P], None],
        every: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write, self._every, self._clock = write, every, clock
        self._written_at = clock()
        self._pending: P | None = None

    def __call__(self, report: P) -> None:
        """Take one report; write it if it is time."""
        self._pending = report
        if self._clock() - self._written_at >= self._every:
            self.flush()

    def flush(self) -> None:
        """Write the pending report, if there is one."""
        report, self._pending = self._pending, None
        if report is not None:
            self._written_at = self._clock()
            self._write(report)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.flush()


class Reporter(Generic[S]):
    """Sums many small reports into a few events.

    An event is a row of about 1.5 kB: one for each block would outgrow the facts themselves.
    """

    def __init__(
        self,
        log: Callable[[Event], None],
        assets: Sequence[AssetReporter[S]],
        every: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._assets = assets
        self._every = every
        self._clock = clock
        self._since = clock()
        self._pending: S | None = None
        self._first = True

    def __call__(self, report: S) -> None:
        """Add one step; log if it is time. The first step is logged at once."""
        self._pending = report if self._pending is None else add_reports(self._pending, report)
        if self._first or self._clock() - self._since >= self._every:
            self.flush()

    def flush(self) -> None:
        """Log the pending report, if there is one."""
        if self._pending is None:
            return
        now = self._clock()
        for asset in self._assets:
            metadata = asset.metadata(self._pending, now - self._since)
            if self._first or asset.later is LaterReports.MATERIALIZE:
                self._log(dg.AssetMaterialization(asset.key, metadata=metadata))
            elif asset.later is LaterReports.OBSERVE:
                self._log(dg.AssetObservation(asset.key, metadata=metadata))
        self._pending, self._since, self._first = None, now, False
