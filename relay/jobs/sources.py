"""Several ledgers of one account, heard in turn."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Generic

from sqlalchemy import Connection

from relay.account import JobSource
from relay.nonces import C, RelayJob


class JobSources(Generic[C]):
    """One of each at a time, so that none keeps another waiting."""

    def __init__(self, *ledgers: JobSource[C]) -> None:
        self._ledgers = ledgers

    def owed(self, conn: Connection) -> Sequence[RelayJob[C]]:
        """What all of them say, the first of each first."""
        said = [ledger.owed(conn) for ledger in self._ledgers]
        return [each for round_ in zip_longest(*said) for each in round_ if each is not None]

    def objection(self, conn: Connection, owed: RelayJob[C]) -> str | None:
        """The first that one has; each objects to its own alone."""
        found = (ledger.objection(conn, owed) for ledger in self._ledgers)
        return next((each for each in found if each is not None), None)
