"""The client's book equals REST at every ledger while servers are killed."""

import threading

import pytest

from isthmus_client import Invalid, Isthmus, Moment
from tests.factories.api_server import TIMEOUT, Server
from tests.factories.streaming import Book, identity


class Follower:
    """What a client receives, in a thread that ends with the test."""

    def __init__(self, server: Server) -> None:
        self.books: dict[int, Book] = {}
        self._changed = threading.Condition()
        self._over = False
        self._isthmus = Isthmus(server.url)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        for moment in self._isthmus.follow(markers=True, should_stop=lambda: self._over):
            with self._changed:
                self.books[moment.ledger] = shown(moment)
                self._changed.notify_all()

    def wait_for(self, ledger: int) -> Book:
        with self._changed:
            assert self._changed.wait_for(lambda: ledger in self.books, TIMEOUT), sorted(self.books)
            return self.books[ledger]

    def stop(self) -> None:
        self._over = True


def shown(moment: Moment) -> Book:
    offers = [offer.as_json() for offer in moment.offers.values()]
    return {identity(offer): offer for offer in offers}


def test_client_book_is_exact_while_servers_are_killed(stand, serve):
    server = serve(workers=1)
    follower = Follower(server)
    follower.wait_for(stand.market.ledger)
    for round_ in range(3):
        for _ in range(3):
            ledger = stand.move()
            assert follower.wait_for(ledger) == stand.shown[ledger]
        if round_ < 2:
            server.kill_workers()
    follower.stop()


def test_bad_query_raises_instead_of_retrying(stand, serve):
    server = serve(workers=1)
    with Isthmus(server.url) as isthmus, pytest.raises(Invalid) as refused:
        next(isthmus.follow(currency="euro"))
    assert refused.value.code == "BAD_FILTER"
