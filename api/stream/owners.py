"""Clients that showed a token, and are told of their own transfers.

Two threads, begun by the first token that comes: a process whose clients show none pays nothing.
One checks tokens, for which a service may have to be asked. The other reads what is new, once for
all of them, and looks each time whether tokens are still good, in the same state of the warehouse:
nothing is told to a token after its logout. Neither waits for a client, which is the hub's alone.
"""

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Protocol

from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as NoFreeConnection

from api.auth.claims import AuthSession
from api.deps import read_snapshot
from api.errors import ApiError, Forbidden, Unauthorized
from api.notifications import Notification, NotificationListener, Resync, TransfersChanged
from api.stream import owned
from api.stream.client import EXPIRED, OTHER, REFUSED, REVOKED, UNCHECKED, Client, Ending
from api.stream.client_messages import TransfersRequest
from api.stream.messages import transfer_frame, transfers_frame
from api.stream.owned import Greeting, Item, OwnerMessages
from indexer.config.networks import Network
from warehouse_schema.identifiers import StellarAddress, UnixSeconds

logger = logging.getLogger(__name__)

_UNPROMPTED_SECONDS = 2.0
"""From one look to the next, for what nobody tells: a logout, an expiry, a notice that was lost."""
_GREETED_AT_ONCE = 8
"""Whoever comes again and again, with many transfers, does not hold up the news of others."""
_PAUSE_SECONDS = 0.5
"""Until a warehouse that did not answer is asked again."""


@dataclass(frozen=True, slots=True)
class Access:
    """Who may be told what."""

    admit: Callable[[str], AuthSession]
    """Whose a token is. Raises `ApiError`."""
    network: Network
    clock: Callable[[], UnixSeconds]


class OwnerSubscribers(Protocol):
    """Who passes on what is said; any thread may ask."""

    def tell_one(self, client: Client, data: bytes, *, greeting: bool) -> None:
        """Send frames to a client that is still there."""

    def end_one(self, client: Client, ending: Ending) -> None:
        """End a client that is still there."""

    def lose_owners(self) -> None:
        """They have stopped, and nobody asked them to."""


@dataclass(frozen=True, slots=True)
class _Joining:
    client: Client
    session: AuthSession
    after: int | None


class Owners:
    """Begins with the first token, ends once, for good."""

    def __init__(
        self,
        engine: Engine,
        changes: NotificationListener | None,
        access: Access,
        ears: OwnerSubscribers,
    ) -> None:
        self._engine = engine
        self._changes = changes
        self._access = access
        self._ears = ears
        self._asked: SimpleQueue[tuple[Client, TransfersRequest] | None] = SimpleQueue()
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._wake = threading.Event()
        self._over = threading.Event()
        self._threads: tuple[threading.Thread, ...] = ()
        # Of the thread that reads:
        self._joining: list[_Joining] = []
        self._sessions: dict[Client, AuthSession] = {}
        self._positions: dict[StellarAddress, int] = {}
        """Up to which number of its own each owner who listens has been told everything."""

    # The hub's thread

    def hear(self, client: Client, asked: TransfersRequest) -> None:
        """A client showed a token."""
        if not self._threads:
            self._threads = (
                _thread("stream-tokens", self._guard, self._check),
                _thread("stream-owners", self._guard, self._follow),
            )
            for each in self._threads:
                each.start()
        self._asked.put((client, asked))

    def forget(self, client: Client) -> None:
        """A client is gone."""
        if self._threads:
            self._post(lambda: self._drop(client))

    # Any thread

    def stop(self) -> None:
        """Begin nothing more. Does not wait, so that a signal's handler can ask."""
        self._over.set()
        self._asked.put(None)
        self._wake.set()

    def wait(self, seconds: float) -> None:
        """Wait for the end of what is under way."""
        for each in self._threads:
            each.join(seconds)

    def _post(self, job: Callable[[], None]) -> None:
        self._inbox.put(job)
        self._wake.set()

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            if not self._over.is_set():
                self._ears.lose_owners()

    # The thread that checks

    def _check(self) -> None:
        while (each := self._asked.get()) is not None and not self._over.is_set():
            client, asked = each
            try:
                session = self._access.admit(asked.token)
            except (Unauthorized, Forbidden):
                self._ears.end_one(client, REFUSED)
            except (ApiError, OperationalError, NoFreeConnection) as error:
                logger.warning("stream cannot check a token: %s", type(error).__name__)
                self._ears.end_one(client, UNCHECKED)
            else:
                self._join(_Joining(client, session, asked.after))

    def _join(self, joining: _Joining) -> None:
        self._post(lambda: self._joining.append(joining))

    # The thread that reads

    def _follow(self) -> None:
        unsubscribe = None if self._changes is None else self._changes.subscribe(self._hear)
        try:
            while not self._over.is_set():
                self._wake.wait(_UNPROMPTED_SECONDS if self._sessions else None)
                self._wake.clear()
                self._do_jobs()
                self._look_patiently()
        finally:
            if unsubscribe is not None:
                unsubscribe()

    def _hear(self, told: Notification) -> None:
        # Whoever is not known here yet reads everything when it comes.
        if isinstance(told, Resync) or (
            isinstance(told, TransfersChanged) and told.owner in self._positions
        ):
            self._wake.set()

    def _do_jobs(self) -> None:
        while True:
            try:
                job = self._inbox.get_nowait()
            except Empty:
                return
            job()

    def _drop(self, client: Client) -> None:
        self._joining = [each for each in self._joining if each.client is not client]
        session = self._sessions.pop(client, None)
        others = (each.account for each in self._sessions.values())
        if session is not None and session.account not in others:
            self._positions.pop(session.account, None)

    def _end(self, client: Client, ending: Ending) -> None:
        self._drop(client)
        self._ears.end_one(client, ending)

    def _look_patiently(self) -> None:
        try:
            self._look()
        except (OperationalError, NoFreeConnection) as error:
            # Not the error as a whole: it would quote the statement.
            reason = getattr(error, "orig", None) or error.args[0]
            logger.warning("owners' streams wait for the warehouse: %s", reason)
            self._over.wait(_PAUSE_SECONDS)
            self._wake.set()

    def _look(self) -> None:
        self._end_expired()
        if not self._sessions and not self._joining:
            return
        network, owners = self._access.network, self._positions
        with read_snapshot(self._engine) as conn:
            self._end_revoked(owned.revoked_among(conn, self._ids()))
            news = owned.read_owner_messages(conn, network, owners) if owners else None
            greetings = [
                (each, owned.read_greeting(conn, network, each.session.account, self._after(each)))
                for each in self._joining[:_GREETED_AT_ONCE]
            ]
        if news is not None:
            self._spread(news)
        for each, greeting in greetings:
            # A client that showed several tokens may have come to its end by an earlier one.
            if each in self._joining:
                self._joining.remove(each)
                self._greet(each, greeting)
        if self._joining:
            self._wake.set()

    def _ids(self) -> set[str]:
        sessions = [*self._sessions.values(), *(each.session for each in self._joining)]
        return {each.jti for each in sessions if each.jti is not None}

    def _end_expired(self) -> None:
        now = self._access.clock()
        self._end_where(lambda session: session.expires_at <= now, EXPIRED)

    def _end_revoked(self, revoked: set[str]) -> None:
        self._end_where(lambda session: session.jti in revoked, REVOKED)

    def _end_where(self, is_over: Callable[[AuthSession], bool], ending: Ending) -> None:
        listening = [*self._sessions.items(), *((e.client, e.session) for e in self._joining)]
        for client, session in listening:
            if is_over(session):
                self._end(client, ending)

    def _after(self, joining: _Joining) -> int | None:
        """Who shows a new token in time is told on as before."""
        if joining.client in self._sessions:
            return self._positions.get(joining.session.account)
        return joining.after

    def _spread(self, news: OwnerMessages) -> None:
        self._positions.update(
            (owner, number) for owner, number in news.positions.items() if owner in self._positions
        )
        frames = {owner: _frames(items) for owner, items in news.items.items()}
        for client, session in self._sessions.items():
            if session.account in frames:
                self._ears.tell_one(client, frames[session.account], greeting=False)
        if not news.is_all:
            self._wake.set()

    def _greet(self, joining: _Joining, greeting: Greeting) -> None:
        client, session = joining.client, joining.session
        before = self._sessions.get(client)
        if before is not None and before.account != session.account:
            self._end(client, OTHER)
            return
        self._sessions[client] = session
        self._positions.setdefault(session.account, greeting.number)
        marker = transfers_frame(greeting.mode, session, greeting.number)
        self._ears.tell_one(client, _frames(greeting.items) + marker, greeting=True)


def _thread(name: str, work: Callable[..., None], *given: object) -> threading.Thread:
    return threading.Thread(target=work, name=name, args=given, daemon=True)


def _frames(items: Iterable[Item]) -> bytes:
    return b"".join(transfer_frame(item.transfer, item.number) for item in items)
