"""Job sources: where an account's jobs are read from."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Generic, Protocol

from sqlalchemy import Connection

from relay.nonces import C, JobName, RelayJob


class JobSource(Protocol[C]):
    """Source of one kind of jobs on a chain."""

    def jobs(self, conn: Connection) -> Sequence[RelayJob[C]]:
        """Jobs that are not done yet, the oldest first."""
        ...

    def rejection(self, conn: Connection, job: RelayJob[C]) -> str | None:
        """Reason why a first attempt must not be stored; None when it may be.

        Runs in the transaction that stores it: locks what the answer depends on until commit.
        """
        ...

    def recognize(self, conn: Connection, raw: bytes) -> JobName | None:
        """Job of a signed transaction of this kind; None for any other."""
        ...


class JobSources(Generic[C]):
    """Several sources of one account, interleaved so that none delays another."""

    def __init__(self, *sources: JobSource[C]) -> None:
        self._sources = sources

    def jobs(self, conn: Connection) -> Sequence[RelayJob[C]]:
        """Jobs of all sources, the first of each first."""
        found = [source.jobs(conn) for source in self._sources]
        return [job for round_ in zip_longest(*found) for job in round_ if job is not None]

    def rejection(self, conn: Connection, job: RelayJob[C]) -> str | None:
        """First rejection of any source; each rejects only its own jobs."""
        reasons = (source.rejection(conn, job) for source in self._sources)
        return next((reason for reason in reasons if reason is not None), None)

    def recognize(self, conn: Connection, raw: bytes) -> JobName | None:
        """Job of a signed transaction, by the source that recognizes it."""
        jobs = (source.recognize(conn, raw) for source in self._sources)
        return next((job for job in jobs if job is not None), None)
