"""Clients that sent a token and receive messages about their own transfers.

Two threads, started by the first token: a process without tokens pays nothing. One checks tokens,
which may ask the identity provider. The other reads new events, once for all clients, and in the
same snapshot whether tokens were revoked: nothing is sent to a token after its logout. Neither
waits for a client: sockets belong to the hub.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import TypeAlias

from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as NoFreeConnection

from api.auth.claims import AuthSession
from api.deps import read_snapshot
from api.errors import ApiError, Forbidden, Unauthorized
from api.notifications import Notification, NotificationListener, TransfersChanged
from api.stream import transfer_outbox
from api.stream.client import (
    OTHER_ACCOUNT,
    TOKEN_EXPIRED,
    TOKEN_REFUSED,
    TOKEN_REVOKED,
    TOKEN_UNCHECKED,
    Client,
    Ending,
)
from api.stream.messages import transfers_frame
from api.stream.reading_thread import ReadingThread
from api.stream.requests import TransfersRequest
from api.stream.transfer_outbox import TransferGreeting
from indexer.config.networks import Network
from warehouse_schema.identifiers import StellarAddress, UnixSeconds

logger = logging.getLogger(__name__)

_GREETED_AT_ONCE = 8
"""Greetings of one read: a client that reconnects again and again must not delay the others."""

ClientAction: TypeAlias = Callable[[Client, float], None]
"""Run in the hub's thread on a client that is still connected; the float is monotonic time."""


@dataclass(frozen=True, slots=True)
class TokenAccess:
    """How tokens are checked."""

    authenticate: Callable[[str], AuthSession]
    """Raises `ApiError`."""
    network: Network
    clock: Callable[[], UnixSeconds]


@dataclass(frozen=True, slots=True)
class _Joining:
    client: Client
    session: AuthSession
    after: int | None


class TransferSubscriptions:
    """Starts with the first token, ends once."""

    def __init__(
        self,
        engine: Engine,
        listener: NotificationListener | None,
        access: TokenAccess,
        *,
        post_to: Callable[[Client, ClientAction], None],
        on_end: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._access = access
        self._post_to = post_to
        self._on_end = on_end
        self._requests: SimpleQueue[tuple[Client, TransfersRequest] | None] = SimpleQueue()
        self._inbox: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._started = False
        self._stopped = False
        self._checker = threading.Thread(
            target=self._check_tokens, name="stream-tokens", daemon=True
        )
        self._reader = ReadingThread(
            "stream-transfers", listener, self._read, concerns=self._concerns, on_end=on_end
        )
        # Of the reading thread:
        self._joining: list[_Joining] = []
        self._sessions: dict[Client, AuthSession] = {}
        self._positions: dict[StellarAddress, int] = {}
        """Number of the last event that was sent to each subscribed owner."""

    def request(self, client: Client, request: TransfersRequest) -> None:
        """A client sent a token. Hub's thread."""
        if not self._started:
            self._started = True
            self._checker.start()
            self._reader.start()
        self._requests.put((client, request))

    def forget(self, client: Client) -> None:
        """A client is gone. Hub's thread."""
        if self._started:
            self._post(lambda: self._drop(client))

    def stop(self) -> None:
        """Begin nothing more. Does not wait, so a signal handler may call it."""
        self._stopped = True
        self._requests.put(None)
        self._reader.stop()

    def wait(self, seconds: float) -> None:
        """Wait for the end of the threads."""
        if self._started:
            self._checker.join(seconds)
            self._reader.wait(seconds)

    def _post(self, job: Callable[[], None]) -> None:
        self._inbox.put(job)
        self._reader.wake()

    def _end(self, client: Client, ending: Ending) -> None:
        self._post_to(client, lambda client, now: client.end(ending, now))

    # The thread that checks tokens

    def _check_tokens(self) -> None:
        try:
            while (entry := self._requests.get()) is not None and not self._stopped:
                self._check_token(*entry)
        finally:
            self._on_end()

    def _check_token(self, client: Client, request: TransfersRequest) -> None:
        try:
            session = self._access.authenticate(request.token)
        except (Unauthorized, Forbidden):
            self._end(client, TOKEN_REFUSED)
        except (ApiError, OperationalError, NoFreeConnection) as error:
            logger.warning("stream cannot check a token: %s", type(error).__name__)
            self._end(client, TOKEN_UNCHECKED)
        else:
            joining = _Joining(client, session, request.after)
            self._post(partial(self._joining.append, joining))

    # The thread that reads

    def _concerns(self, event: Notification) -> bool:
        # An owner without a position reads everything when it joins.
        return isinstance(event, TransfersChanged) and event.owner in self._positions

    def _drop(self, client: Client) -> None:
        self._joining[:] = [each for each in self._joining if each.client is not client]
        session = self._sessions.pop(client, None)
        others = (each.account for each in self._sessions.values())
        if session is not None and session.account not in others:
            self._positions.pop(session.account, None)

    def _end_where(self, is_over: Callable[[AuthSession], bool], ending: Ending) -> None:
        joining = ((each.client, each.session) for each in self._joining)
        for client, session in [*self._sessions.items(), *joining]:
            if is_over(session):
                self._drop(client)
                self._end(client, ending)

    def _read(self) -> None:
        while not self._inbox.empty():
            self._inbox.get()()
        now = self._access.clock()
        self._end_where(lambda session: session.expires_at <= now, TOKEN_EXPIRED)
        if not self._sessions and not self._joining:
            return
        network, positions = self._access.network, self._positions
        with read_snapshot(self._engine) as conn:
            sessions = [*self._sessions.values(), *(each.session for each in self._joining)]
            ids = {each.jti for each in sessions if each.jti is not None}
            revoked = transfer_outbox.revoked_among(conn, ids)
            self._end_where(lambda session: session.jti in revoked, TOKEN_REVOKED)
            new = None
            if positions:
                new = transfer_outbox.read_owner_messages(conn, network, positions)
            greetings = []
            for each in self._joining[:_GREETED_AT_ONCE]:
                account = each.session.account
                # A client that renews its token goes on from its position.
                renews = each.client in self._sessions
                after = positions.get(account) if renews else each.after
                greeting = transfer_outbox.read_greeting(conn, network, account, after)
                greetings.append((each, greeting))
        if new is not None:
            positions.update(
                (owner, number) for owner, number in new.positions.items() if owner in positions
            )
            frames = {owner: b"".join(parts) for owner, parts in new.frames.items()}
            for client, session in self._sessions.items():
                if session.account in frames:
                    self._send(client, frames[session.account], is_greeting=False)
        for each, greeting in greetings:
            # A client with several tokens may have been ended by an earlier one.
            if each in self._joining:
                self._joining.remove(each)
                self._greet(each, greeting)
        if self._joining or (new is not None and not new.is_complete):
            self._reader.wake()

    def _greet(self, joining: _Joining, greeting: TransferGreeting) -> None:
        client, session = joining.client, joining.session
        before = self._sessions.get(client)
        if before is not None and before.account != session.account:
            self._drop(client)
            self._end(client, OTHER_ACCOUNT)
            return
        self._sessions[client] = session
        self._positions.setdefault(session.account, greeting.number)
        marker = transfers_frame(greeting.mode, session, greeting.number)
        self._send(client, b"".join(greeting.frames) + marker, is_greeting=True)

    def _send(self, client: Client, data: bytes, *, is_greeting: bool) -> None:
        self._post_to(client, lambda client, now: client.send(data, now, is_greeting=is_greeting))
