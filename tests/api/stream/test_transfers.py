"""Owners get their own transfers on the stream, as REST shows them."""

import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, insert
from wsproto.events import TextMessage

from api.auth.authenticator import Authenticator
from api.auth.claims import AuthSession
from api.auth.revocation import Revocations
from api.deps import read_snapshot
from api.errors import IdentityUnavailable
from api.metrics import Metrics
from api.notifications import NotificationListener
from api.stream import outbox, transfer_outbox, transfer_subscriptions
from api.stream.client import Client
from api.stream.hub import Hub
from api.stream.limits import StreamLimits, StreamSlots
from api.stream.requests import SubscribeRequest
from api.stream.transfer_subscriptions import TokenAccess
from indexer.transfers.store import refold_transfers
from tests.api.stream.far import Far, wait_for
from tests.factories.api_server import TIMEOUT
from tests.factories.app import NOW
from tests.factories.projections import address, insert_book
from tests.factories.started import NETWORK, insert_transfer, make_transfer_app, show
from tests.factories.tokens import ACCOUNT, make_tokens
from warehouse_schema.engine import make_engine
from warehouse_schema.identifiers import StellarAddress, UnixSeconds
from warehouse_schema.intake import cancellations

MINE, THEIRS = StellarAddress(ACCOUNT), address(7)
LIMITS = StreamLimits(close_seconds=TIMEOUT)
TOKENS = make_tokens(lifetime=3_600)


def token(account: str = MINE, jti: str | None = None) -> str:
    return TOKENS.issue(account, jti=jti or secrets.token_hex(32))


@dataclass
class House:
    """A hub at work on a book of nothing, and who moves transfers."""

    hub: Hub
    engine: Engine
    """Of the indexer."""
    owner_engine: Engine
    api_engine: Engine
    now: list[int]
    admit: list[Callable[[str], AuthSession]]
    """What looks at tokens; the first."""
    slots: StreamSlots = field(default_factory=lambda: StreamSlots(LIMITS))
    ends: list[socket.socket] = field(default_factory=list)

    def connect(self, said: Any = None) -> Far:
        near, far = socket.socketpair()
        near.setblocking(False)
        far.settimeout(TIMEOUT)
        self.ends.append(far)
        client = Client(near, "a", self.slots.take("10.0.0.1"), LIMITS, time.monotonic())
        self.hub.join(client, SubscribeRequest(), None)
        end = Far(far)
        if said is not None:
            say(end, said)
        return end

    def listen(self, account: str = MINE, **more: Any) -> Far:
        """Connect and authenticate; back when the greeting has been heard."""
        far = self.connect({"auth": token(account), **more})
        return far.read_until(lambda: marker(far) is not None)

    def start(self, owner: str = MINE) -> str:
        with self.owner_engine.begin() as conn:
            transfer = insert_transfer(conn, owner=owner)
        self.fold(transfer)
        return transfer

    def cancel(self, transfer: str) -> None:
        with self.owner_engine.begin() as conn:
            conn.execute(insert(cancellations).values(transfer=transfer))
        self.fold(transfer)

    def fold(self, *transfers: str) -> None:
        with self.engine.begin() as conn:
            refold_transfers(conn, NETWORK, transfers)


def say(far: Far, said: Any) -> None:
    text = said if isinstance(said, str) else json.dumps(said)
    far.socket.sendall(far.protocol.send(TextMessage(text)))


def marker(far: Far) -> dict[str, Any] | None:
    return next((each for each in reversed(far.messages) if "expiresAt" in each), None)


def is_greeted(far: Far) -> bool:
    return marker(far) is not None


def has_heard(far: Far, many: int) -> bool:
    return len(told(far)) == many


def told(far: Far) -> list[tuple[int, str, str]]:
    """Number, transfer and stage of each message about one."""
    shown = [each for each in far.messages if "transfer" in each]
    return [(each["number"], each["transfer"]["id"], each["transfer"]["stage"]) for each in shown]


@pytest.fixture
def house(database, engine: Engine, indexer_engine: Engine, api_engine: Engine) -> Iterator[House]:
    with engine.begin() as conn:
        insert_book(conn)
    listening = make_engine(database, role="api", pool_size=1)
    changes = NotificationListener(listening)
    changes.start()
    now, gate = [NOW], Authenticator([TOKENS], Revocations(api_engine))
    admit: list[Callable[[str], AuthSession]] = [lambda shown: gate.admit(f"Bearer {shown}")]
    access = TokenAccess(lambda shown: admit[0](shown), NETWORK, lambda: UnixSeconds(now[0]))
    with read_snapshot(api_engine) as conn:
        start = outbox.read_book_snapshot(conn, NETWORK.stellar.id)
    hub = Hub(api_engine, NETWORK.stellar.id, changes, start, Metrics(), access)
    hub.start()
    house = House(hub, indexer_engine, engine, api_engine, now, admit)
    yield house
    hub.stop()
    for far in house.ends:
        far.close()
    hub.wait(TIMEOUT)
    changes.stop()
    listening.dispose()
    assert len(house.slots) == 0
    assert not any(each.is_alive() for each in threading.enumerate() if "stream" in each.name)


def test_owner_gets_own_transfers_as_rest_shows(house: House):
    mine, theirs = house.start(), house.start(THEIRS)
    public, me, they = house.connect(), house.listen(), house.listen(THEIRS)
    assert told(me) == [(1, mine, "AWAITING_SIGNATURE")]
    assert told(they) == [(1, theirs, "AWAITING_SIGNATURE")]
    rest = make_transfer_app(house.api_engine).test_client()
    assert me.messages[0]["transfer"] == show(rest, mine).json
    assert marker(me) == {
        "channel": "transfer",
        "mode": "snapshot",
        "account": MINE,
        "expiresAt": marker(me)["expiresAt"],
        "number": 1,
    }
    later = house.start()
    house.cancel(theirs)
    house.cancel(mine)
    me.read_until(lambda: len(told(me)) >= 3)
    they.read_until(lambda: len(told(they)) >= 2)
    assert told(me)[1:] == [(2, later, "AWAITING_SIGNATURE"), (3, mine, "CANCELLED")]
    assert told(they)[1:] == [(2, theirs, "CANCELLED")]
    assert me.messages[-1]["transfer"] == show(rest, mine).json
    assert {each["transfer"]["id"] for each in they.messages if "transfer" in each} == {theirs}
    public.read_what_is_there()
    assert public.messages == []


def test_resume_includes_transfers_that_are_over(house: House):
    first, second = house.start(), house.start()
    before = house.listen()
    assert marker(before)["number"] == 2
    house.cancel(first)
    third = house.start()
    house.cancel(third)
    again = house.listen(after=2)
    assert told(again) == [(3, first, "CANCELLED"), (5, third, "CANCELLED")]
    assert (marker(again)["mode"], marker(again)["number"]) == ("resume", 5)
    assert told(house.listen(after=5)) == []
    # A number that was never given is somebody else's, or of another database.
    for after in (6, 10**18):
        anew = house.listen(after=after)
        assert (marker(anew)["mode"], told(anew)) == (
            "snapshot",
            [(2, second, "AWAITING_SIGNATURE")],
        )


def test_too_many_missed_events_lead_to_a_snapshot(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(transfer_outbox, "MAX_EVENTS", 2)
    monkeypatch.setattr(transfer_outbox, "MAX_OPEN", 2)
    me = house.listen(after=0)
    assert (marker(me)["mode"], marker(me)["number"]) == ("resume", 0)
    made = [house.start() for _ in range(3)]
    house.cancel(made[0])
    # Read in parts, nothing is left out.
    me.read_until(lambda: len(told(me)) >= 4)
    assert {each[1] for each in told(me)} == set(made)
    late = house.listen(after=1)
    assert (marker(late)["mode"], {each[1] for each in told(late)}) == ("snapshot", set(made[1:]))


def test_many_greetings_are_read_in_batches(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(transfer_subscriptions, "_GREETED_AT_ONCE", 1)
    mine = house.start()
    coming = [house.connect({"auth": token()}) for _ in range(5)]
    for far in coming:
        far.read_until(partial(is_greeted, far))
    house.cancel(mine)
    for far in coming:
        far.read_until(partial(has_heard, far, 2))
        assert told(far) == [(1, mine, "AWAITING_SIGNATURE"), (2, mine, "CANCELLED")]


def test_revoked_or_expired_token_ends_the_stream(house: House):
    jti = secrets.token_hex(32)
    leaving = house.connect({"auth": token(jti=jti)})
    staying, theirs = house.listen(), house.listen(THEIRS)
    leaving.read_until(lambda: marker(leaving) is not None)
    Revocations(house.api_engine).add(jti, UnixSeconds(NOW + 3_600), UnixSeconds(NOW))
    mine = house.start()
    assert leaving.read_to_close() == (1008, "token revoked")
    assert told(leaving) == []
    staying.read_until(lambda: told(staying) == [(1, mine, "AWAITING_SIGNATURE")])
    house.now[0] = NOW + 3_600
    for far in (staying, theirs):
        assert far.read_to_close() == (1008, "token expired")
    assert house.connect({"auth": token(jti=jti)}).read_to_close() == (1008, "token refused")


def test_bad_token_closes_with_token_refused(house: House):
    for said in (
        {"auth": "x"},
        {"auth": token() + "x"},
        {"auth": None},
        {"auth": {"auth": "x"}},
        {"auth": token(), "after": -1},
        {"auth": token(), "after": True},
        {"auth": token(), "after": "1"},
        {"auth": token() + " " + token()},
    ):
        assert house.connect(said).read_to_close() == (1008, "token refused"), said


def test_unavailable_provider_closes_with_not_checked(house: House):
    def fail(_: str) -> AuthSession:
        raise IdentityUnavailable

    good, house.admit[0] = house.admit[0], fail
    assert house.connect({"auth": token()}).read_to_close() == (1013, "token not checked")
    house.admit[0] = good
    assert marker(house.listen()) is not None


def test_renewed_token_goes_on_other_account_ends(house: House):
    house.start()
    me = house.listen()
    house.now[0] = NOW + 1_000
    longer = AuthSession(MINE, None, "another issuer", UnixSeconds(NOW + 9_000))
    good, house.admit[0] = house.admit[0], lambda _: longer
    say(me, {"auth": "another", "after": 0})
    me.read_until(lambda: marker(me)["mode"] == "resume")
    house.now[0] = NOW + 5_000
    mine = house.start()
    me.read_until(lambda: len(told(me)) == 2)
    assert told(me)[1] == (2, mine, "AWAITING_SIGNATURE")
    house.admit[0] = good
    house.now[0] = NOW
    theirs = {"auth": token(THEIRS)}
    say(me, theirs)
    assert me.read_to_close() == (1008, "token of another account")
    # Looked at together, and the second is the end.
    staying, eager = house.listen(), house.connect()
    eager.socket.sendall(
        b"".join(
            eager.protocol.send(TextMessage(json.dumps(each)))
            for each in ({"auth": token()}, theirs, theirs, {"auth": token()}, theirs)
        )
    )
    assert eager.read_to_close() == (1008, "token of another account")
    later = house.start()
    staying.read_until(lambda: told(staying)[-1:] == [(3, later, "AWAITING_SIGNATURE")])


def test_other_messages_are_ignored(house: House):
    public = house.connect()
    for said in ("", "x", "[" * 2_000, "7", "null", '"auth"', '["auth"]', '{"author": 1}'):
        say(public, said)
    # Whatever was said before has been read by then.
    far = house.connect({"hello": 1})
    say(far, {"auth": 1})
    assert far.read_to_close() == (1008, "token refused")
    public.read_what_is_there()
    assert (public.messages, public.closed) == ([], None)
    assert not house.hub._transfers._started


def test_client_gone_during_token_check_is_forgotten(house: House):
    looked_at, may_go_on = threading.Event(), threading.Event()
    good = house.admit[0]

    def slowly(shown: str) -> AuthSession:
        looked_at.set()
        assert may_go_on.wait(TIMEOUT)
        return good(shown)

    house.admit[0] = slowly
    gone = house.connect({"auth": token()})
    assert looked_at.wait(TIMEOUT)
    gone.socket.close()
    wait_for(lambda: len(house.slots) == 0)
    may_go_on.set()
    house.admit[0] = good
    house.listen(THEIRS)
    wait_for(lambda: [each.account for each in house.hub._transfers._sessions.values()] == [THEIRS])
    assert set(house.hub._transfers._positions) == {THEIRS}


def test_lost_warehouse_loses_no_event(house: House):
    me = house.listen()
    with house.owner_engine.begin() as conn:
        conn.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    house.engine.dispose()
    made = [house.start() for _ in range(3)]
    me.read_until(lambda: len(told(me)) >= 3)
    assert [each[1] for each in told(me)] == made
