"""What a long run tells the asset pages, and how often."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Generic, Protocol, Self, TypeVar

import dagster as dg

from indexer.facts.status import ChainStatus
from indexer.ingest.attestations import PollProgress
from indexer.ingest.ranges import RangeProgress
from indexer.transfers import keeper

Metadata = dict[str, dg.MetadataValue]


class Summable(Protocol):
    """What may be added up until it is time to report it."""

    def then(self, later: Self) -> Self:
        """Both, as one."""
        ...

    def over(self, seconds: float) -> Self:
        """The same, having taken so long."""
        ...


S = TypeVar("S", bound=Summable)


@dataclass(frozen=True, slots=True)
class Report:
    """Where a chain stands, and what was committed since the last report."""

    latest: RangeProgress
    blocks: int
    events: int
    undecodable: int
    quarantined: int
    reorgs: int
    seconds: float = 0.0
    """How long that took."""

    @classmethod
    def of(cls, progress: RangeProgress) -> "Report":
        """What one range amounts to. One that takes blocks back is a reorg."""
        rewound = progress.blocks < 0
        return cls(
            latest=progress,
            blocks=0 if rewound else progress.blocks,
            events=progress.events,
            undecodable=progress.undecodable,
            quarantined=progress.quarantined,
            reorgs=int(rewound),
        )

    def then(self, later: "Report") -> "Report":
        """Both, as one."""
        return replace(
            later,
            blocks=self.blocks + later.blocks,
            events=self.events + later.events,
            undecodable=self.undecodable + later.undecodable,
            quarantined=self.quarantined + later.quarantined,
            reorgs=self.reorgs + later.reorgs,
        )

    def over(self, seconds: float) -> "Report":
        """The same, having taken so long."""
        return replace(self, seconds=seconds)


@dataclass(frozen=True, slots=True)
class AttestationReport:
    """What services answered since the last report."""

    answers: PollProgress

    def then(self, later: "AttestationReport") -> "AttestationReport":
        """Both, as one; whether a service shuts us out is as it was last."""
        before, after = self.answers, later.answers
        return AttestationReport(
            replace(
                after,
                polled=before.polled + after.polled,
                attested=before.attested + after.attested,
                unverified=before.unverified + after.unverified,
                unanswered=before.unanswered + after.unanswered,
            )
        )

    def over(self, seconds: float) -> "AttestationReport":
        """The same: how long it took says how many waited, nothing of us."""
        return self


@dataclass(frozen=True, slots=True)
class KeeperReport:
    """What was done for transfers since the last report."""

    done: keeper.KeeperProgress

    def then(self, later: "KeeperReport") -> "KeeperReport":
        """Both, as one."""
        before, after = self.done, later.done
        return KeeperReport(
            keeper.KeeperProgress(before.moved + after.moved, before.expired + after.expired)
        )

    def over(self, seconds: float) -> "KeeperReport":
        """The same: there is nothing to do most of the time."""
        return self


def chain_metadata(report: Report) -> Metadata:
    """How far a chain is, how late, and what was committed meanwhile."""
    latest = report.latest
    rate = report.blocks / max(report.seconds, 0.001)
    return {
        "height": dg.MetadataValue.int(latest.height),
        "head": dg.MetadataValue.int(latest.head_height),
        "lag_blocks": dg.MetadataValue.int(latest.lag_blocks),
        "lag_seconds": dg.MetadataValue.int(latest.lag_seconds),
        "as_of": dg.MetadataValue.timestamp(float(latest.block_time)),
        "blocks": dg.MetadataValue.int(report.blocks),
        "blocks_per_second": dg.MetadataValue.float(round(rate, 1)),
        "events": dg.MetadataValue.int(report.events),
        "undecodable": dg.MetadataValue.int(report.undecodable),
        "quarantined": dg.MetadataValue.int(report.quarantined),
        "reorgs": dg.MetadataValue.int(report.reorgs),
    }


def projection_metadata(report: Report) -> Metadata:
    """As of when a projection is, and how late, by the chain that was folded into it last."""
    latest = report.latest
    return {
        "chain": dg.MetadataValue.text(latest.chain),
        "as_of": dg.MetadataValue.timestamp(float(latest.block_time)),
        "as_of_height": dg.MetadataValue.int(latest.height),
        "lag_seconds": dg.MetadataValue.int(latest.lag_seconds),
    }


def asked_metadata(asked: AttestationReport) -> Metadata:
    """What came of the questions; `locked_out` in seconds, 0 when no service shuts us out."""
    answers = asked.answers
    return {
        "polled": dg.MetadataValue.int(answers.polled),
        "attested": dg.MetadataValue.int(answers.attested),
        "unverified": dg.MetadataValue.int(answers.unverified),
        "unanswered": dg.MetadataValue.int(answers.unanswered),
        "locked_out": dg.MetadataValue.float(answers.locked_out or 0.0),
    }


def kept_metadata(kept: KeeperReport) -> Metadata:
    """How many transfers moved, and how many of these because their time was over."""
    return {
        "moved": dg.MetadataValue.int(kept.done.moved),
        "expired": dg.MetadataValue.int(kept.done.expired),
    }


def status_metadata(status: ChainStatus) -> Metadata:
    """How far a chain is, as the warehouse has it."""
    if status.height is None:
        return {"height": dg.MetadataValue.text("nothing ingested yet")}
    return {
        "height": dg.MetadataValue.int(status.height),
        "head": dg.MetadataValue.int(status.head_height or status.height),
        "lag_blocks": dg.MetadataValue.int(status.lag_blocks or 0),
        "lag_seconds": dg.MetadataValue.int(status.lag_seconds or 0),
    }


Event = dg.AssetMaterialization | dg.AssetObservation


class LaterReports(Enum):
    """What is said of an asset after a run's first report, at which each is materialized.

    A check counts as not evaluated from the next materialization on, so an asset with checks must
    not have one every few seconds.
    """

    MATERIALIZE = auto()
    OBSERVE = auto()
    NOTHING = auto()


@dataclass(frozen=True, slots=True)
class AssetReporter(Generic[S]):
    """An asset that a long run writes, and what is said of it."""

    key: dg.AssetKey
    metadata: Callable[[S], Metadata]
    later: LaterReports

    def event(self, report: S, *, first: bool) -> Event | None:
        """What to log for a report."""
        if first or self.later is LaterReports.MATERIALIZE:
            return dg.AssetMaterialization(self.key, metadata=self.metadata(report))
        if self.later is LaterReports.OBSERVE:
            return dg.AssetObservation(self.key, metadata=self.metadata(report))
        return None


class Reporter(Generic[S]):
    """Turns a stream of small reports into a few events every few seconds.

    An event is a row of about 1.5 kB: one a block would outgrow the facts themselves.
    """

    def __init__(
        self,
        log: Callable[[Event], None],
        told: Sequence[AssetReporter[S]],
        every: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._told = told
        self._every = every
        self._clock = clock
        self._since = clock()
        self._pending: S | None = None
        self._first = True

    def __call__(self, report: S) -> None:
        """Take note of one step; report if it is time. The first step is reported at once."""
        self._pending = report if self._pending is None else self._pending.then(report)
        if self._first or self._clock() - self._since >= self._every:
            self.flush()

    def flush(self) -> None:
        """Report what is pending; nothing happens if nothing is."""
        if self._pending is None:
            return
        now = self._clock()
        report = self._pending.over(now - self._since)
        for told in self._told:
            event = told.event(report, first=self._first)
            if event is not None:
                self._log(event)
        self._pending, self._since, self._first = None, now, False
