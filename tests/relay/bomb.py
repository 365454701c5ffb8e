"""Simulates a kill at any point that leaves state behind."""

from collections.abc import Callable

from sqlalchemy import Connection, event

from indexer.chains.evm.account_state import EvmAccountNodes
from indexer.chains.stellar.account_state import StellarAccountNodes


class Killed(BaseException):
    """The simulated kill."""


class Bomb:
    """Counts the points of a possible kill, and raises at one of them.

    They are before and after each commit that wrote something, and each sending.
    """

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.passed: list[str] = []
        self._wrote = self._committed = False

    def watch(self, conn: Connection) -> None:
        """Count commits of a session as points."""
        event.listen(conn, "before_cursor_execute", self._statement)
        event.listen(conn, "commit", self._commit)
        event.listen(conn, "begin", self._go_on)

    def around_sending(self, send: Callable[[], str]) -> str:
        """A broadcast, with a point before and after it."""
        self._go_on()
        self._point("before a sending")
        answer = send()
        self._point("after a sending")
        return answer

    def _point(self, name: str) -> None:
        self.passed.append(name)
        if len(self.passed) - 1 == self.at:
            raise Killed(name)

    def _statement(self, conn: object, cursor: object, sql: str, *rest: object) -> None:
        self._wrote = self._wrote or sql.startswith(("INSERT", "UPDATE"))

    def _commit(self, conn: object) -> None:
        if self._wrote:
            self._point("before a commit")
        self._wrote, self._committed = False, self._wrote

    def _go_on(self, conn: object = None) -> None:
        if self._committed:
            self._committed = False
            self._point("after a commit")


def evm_nodes(bomb: Bomb) -> type[EvmAccountNodes]:
    """Nodes with points around each broadcast."""

    class Watched(EvmAccountNodes):
        def send(self, raw: bytes) -> str:
            return bomb.around_sending(lambda: EvmAccountNodes.send(self, raw))

    return Watched


def stellar_nodes(bomb: Bomb) -> type[StellarAccountNodes]:
    """As `evm_nodes`."""

    class Watched(StellarAccountNodes):
        def send(self, raw: bytes) -> str:
            return bomb.around_sending(lambda: StellarAccountNodes.send(self, raw))

    return Watched
