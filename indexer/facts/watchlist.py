"""Watched addresses of a chain: those of the network file, and those that clients stored."""

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from operator import itemgetter
from time import monotonic as _now

from sqlalchemy import Connection, Text, bindparam, select

from indexer.config.networks import Chain
from indexer.facts.alarms import raise_alarm
from indexer.facts.queries import CompiledQuery, fetch_all, joined
from indexer.facts.sessions import reading
from warehouse_schema.identifiers import is_evm, parse_evm_address
from warehouse_schema.intake import watched_addresses
from warehouse_schema.queries import any_in

ALARM = "watched_address"

_WATCHED = CompiledQuery[str](
    select(watched_addresses.c.address).where(
        watched_addresses.c.chain == bindparam("chain", type_=Text),
        watched_addresses.c.address == any_in("addresses"),
    ),
    itemgetter(0),
)

_REFRESH_SECONDS, _MAX_AGE_SECONDS = 2.0, 10.0


class StoredWatchlist:
    """A `Watchlist` over `intake.watched_addresses`, queried on every call but `recent_up_to`."""

    def __init__(
        self, chain: Chain, begin: Callable[[], AbstractContextManager[Connection]]
    ) -> None:
        """`begin` opens a connection for one transaction; an engine's is thread-safe."""
        self._chain, self._begin = chain, begin
        self._fixed = frozenset(chain.watched)
        self._recent: Collection[str] | None = None
        self._recent_limit, self._read_at = -1, float("-inf")

    @classmethod
    def on(cls, conn: Connection, chain: Chain) -> "StoredWatchlist":
        """On a connection that is outside a transaction at each call."""

        @contextmanager
        def begin() -> Iterator[Connection]:
            # Before each commit of a range, which is fenced. An alarm that is raised here is true
            # also when another process has the lease.
            with reading(conn):
                yield conn

        return cls(chain, begin)

    def intersection(self, addresses: Collection[str]) -> Collection[str]:
        """Those of `addresses` that are watched."""
        if not addresses:
            return frozenset()
        parameters = {"chain": self._chain.id, "addresses": joined(addresses)}
        with self._begin() as conn:
            [found] = fetch_all(conn, [(_WATCHED, parameters)])
        return self._fixed.intersection(addresses).union(found)

    def addresses_up_to(self, limit: int) -> Collection[str] | None:
        """All of them; None when there are more than `limit`."""
        columns = watched_addresses.c
        query = select(columns.address).where(columns.chain == self._chain.id).limit(limit + 1)
        with self._begin() as conn:
            found = self._fixed.union(conn.scalars(query))
            if len(found) > limit:
                return None
            malformed = set[str]()
            for each in found if is_evm(self._chain.id) else ():
                try:
                    parse_evm_address(each)
                except ValueError:
                    malformed.add(each)
            # The table's CHECK rejects them; one that got in all the same must not stop a chain.
            for each in malformed:
                raise_alarm(conn, self._chain.id, ALARM, each[:100], "is no address: not watched")
            return found - malformed

    def recent_up_to(self, limit: int) -> Collection[str] | None:
        """As `addresses_up_to`, read again when older than `_MAX_AGE_SECONDS`."""
        is_old = _now() > self._read_at + _MAX_AGE_SECONDS
        if is_old or limit != self._recent_limit:
            self._read_recent(limit)
        return self._recent

    def refresh(self) -> None:
        """Read `recent_up_to` again if it is due soon: called while no block waits."""
        if _now() > self._read_at + _REFRESH_SECONDS and self._recent_limit >= 0:
            self._read_recent(self._recent_limit)

    def _read_recent(self, limit: int) -> None:
        self._recent, self._recent_limit = self.addresses_up_to(limit), limit
        self._read_at = _now()
