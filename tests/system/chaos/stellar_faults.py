"""A faulty Stellar RPC node in front of the stand-in (`tests/system/faults/proxy.py` is for EVM).

Faults of the wire are those of that module. The others change what one answer says, as public RPC
servers were seen to do: instances behind one address differ, pages are empty before the end, old
ledgers go. Not among them: an event that is simply missing, which no other answer contradicts.
"""

import random
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import httpx
import orjson

from devnet.local_http import HOST
from devnet.local_server import Handler, Server, answering
from tests.system.faults.fault import Call, Exchange, Fault, Reply, Response

_TOID_LEDGER = 32
_END_OF_LEDGER = 0xFFFF_FFFF


class AnswerFault(Fault):
    """Spoils the result of one method."""

    method = ""

    def respond(self, exchange: Exchange) -> Response | None:
        [call], [reply] = exchange.calls, exchange.replies()
        if call["method"] != self.method or "result" not in reply:
            return None
        spoilt = self.spoil(call.get("params", {}), reply["result"], exchange.rng)
        if spoilt is None:
            return None
        return Response(orjson.dumps({**reply, "result": spoilt}))

    def spoil(
        self, params: dict[str, Any], result: dict[str, Any], rng: random.Random
    ) -> dict[str, Any] | None:
        """The result in its place; None where the fault does not show."""
        raise NotImplementedError


class EventsFault(AnswerFault):
    """Spoils a page of events that has some."""

    method = "getEvents"

    def spoil(self, params, result, rng):
        if not result["events"]:
            return None
        return {**result, "events": self.spoil_events(result["events"], rng)}

    def spoil_events(self, events: list[dict[str, Any]], rng: random.Random) -> list[Any]:
        raise NotImplementedError


class EmptyPage(AnswerFault):
    """No events, and a cursor that has come no further than the first ledger."""

    method = "getEvents"

    def spoil(self, params, result, rng):
        first = params.get("startLedger")
        if first is None or first >= params["endLedger"] - 1:
            return None
        # All of it is in the next pages: this one ends before the first ledger's first event.
        before = (first << _TOID_LEDGER) - 1
        return {**result, "events": [], "cursor": f"{before:019d}-{0:010d}"}


class EventsBehind(AnswerFault):
    """The instance that answers for events has not got as far as the one with the ledgers."""

    method = "getEvents"

    def __init__(self, behind: int) -> None:
        super().__init__()
        self.behind = behind

    def spoil(self, params, result, rng):
        latest = result["latestLedger"] - self.behind
        kept = [event for event in result["events"] if event["ledger"] <= latest]
        cursor = (latest << _TOID_LEDGER) | _END_OF_LEDGER
        return {
            **result,
            "events": kept,
            "latestLedger": latest,
            "cursor": f"{cursor:019d}-{_END_OF_LEDGER:010d}",
        }


class StandingCursor(AnswerFault):
    """The cursor does not move on."""

    method = "getEvents"

    def spoil(self, params, result, rng):
        cursor = params["pagination"].get("cursor") or "0000000000000000000-0000000000"
        return {**result, "events": [], "cursor": cursor}


class RepeatedEvents(EventsFault):
    """Pages overlap: some events come twice."""

    def spoil_events(self, events, rng):
        return [*events, *rng.sample(events, rng.randint(1, len(events)))]


class FailedCalls(EventsFault):
    """Events of calls that failed are among them."""

    def spoil_events(self, events, rng):
        failed = {**rng.choice(events), "inSuccessfulContractCall": False}
        return [*events, failed]


class EventOfAnotherLedger(EventsFault):
    """An event says that it is of another ledger than its id does."""

    def spoil_events(self, events, rng):
        spoilt = {**events[0], "ledger": events[0]["ledger"] + 1}
        return [spoilt, *events[1:]]


class EventAtAnotherTime(EventsFault):
    """An event's close time is not its ledger's."""

    def spoil_events(self, events, rng):
        return [*events[:-1], {**events[-1], "ledgerClosedAt": "2020-01-01T00:00:00Z"}]


class UnaskedEvent(EventsFault):
    """An event of a contract that was not asked for."""

    def spoil_events(self, events, rng):
        stranger = "CAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAD2KM"
        return [*events, {**events[-1], "contractId": stranger}]


class EventsGone(AnswerFault):
    """Events begin after the ledger asked for: the chain is put on hold."""

    method = "getEvents"

    def spoil(self, params, result, rng):
        return {**result, "events": [], "oldestLedger": result["latestLedger"] + 1}


class LedgersFault(AnswerFault):
    """Spoils a page of ledgers."""

    method = "getLedgers"

    def spoil(self, params, result, rng):
        spoilt = self.spoil_ledgers(result["ledgers"], rng)
        return None if spoilt is None else {**result, "ledgers": spoilt}

    def spoil_ledgers(self, ledgers: list[dict[str, Any]], rng: random.Random) -> Any:
        raise NotImplementedError


class NoLedgers(LedgersFault):
    """None, though the node has just named its latest."""

    def spoil_ledgers(self, ledgers, rng):
        return []


class MissingLedger(LedgersFault):
    """One in the middle is left out."""

    def spoil_ledgers(self, ledgers, rng):
        return None if len(ledgers) < 2 else [ledgers[0], *ledgers[2:]]


class OtherLedgerHash(LedgersFault):
    """A ledger's name is not the hash of its header."""

    def spoil_ledgers(self, ledgers, rng):
        return [*ledgers[:-1], {**ledgers[-1], "hash": rng.randbytes(32).hex()}]


class LatestBehind(AnswerFault):
    """The instance that is asked for the head is some ledgers behind."""

    method = "getHealth"

    def __init__(self, behind: int) -> None:
        super().__init__()
        self.behind = behind

    def spoil(self, params, result, rng):
        latest = max(result["oldestLedger"], result["latestLedger"] - self.behind)
        return {**result, "latestLedger": latest}


class LatestAhead(AnswerFault):
    """The instance that is asked for the head knows ledgers that the others do not have yet."""

    method = "getHealth"

    def spoil(self, params, result, rng):
        return {**result, "latestLedger": result["latestLedger"] + 2}


class Unhealthy(AnswerFault):
    """It catches up."""

    method = "getHealth"

    def spoil(self, params, result, rng):
        return {**result, "status": "catching up"}


class WrongPassphrase(AnswerFault):
    """The URL leads to another network: the chain is put on hold."""

    method = "getNetwork"

    def spoil(self, params, result, rng):
        return {**result, "passphrase": "Test SDF Network ; September 2015"}


class InternalError(Fault):
    """A JSON-RPC error."""

    def respond(self, exchange: Exchange) -> Response | None:
        error = {"code": -32603, "message": "[INTERNAL] try again"}
        return Response(orjson.dumps({"jsonrpc": "2.0", "id": 1, "error": error}))


class FaultyStellarNode:
    """Serves `url`, and answers as the stand-in does unless a fault is injected."""

    def __init__(self, upstream: str, *, seed: int) -> None:
        self._rng = random.Random(seed)
        self.watch: Callable[[Sequence[Call]], None] = lambda _: None
        """Called with the call of each request, before it is passed on."""
        self._upstream = upstream
        self._lock = threading.Lock()
        self._injected: list[list[Any]] = []
        """Pairs of a fault and how often it is still to show."""
        self._by_chance: tuple[list[Fault], float] = ([], 0.0)
        self._client = httpx.Client(timeout=30.0, trust_env=False)
        self._doors = ExitStack()
        self.url = self._doors.enter_context(answering(_serving(self.respond)))

    def close(self) -> None:
        """Stop serving."""
        self.heal()
        self._doors.close()
        self._client.close()

    def inject(self, fault: Fault, *, times: int) -> None:
        """Spoil the next requests in which the fault shows."""
        with self._lock:
            self._injected.append([fault, times])

    def inject_by_chance(self, faults: list[Fault], rate: float) -> None:
        """Spoil that share of the requests, each by one of these."""
        with self._lock:
            self._by_chance = (faults, rate)

    def heal(self) -> None:
        """No more faults."""
        with self._lock:
            for fault in [*(fault for fault, _ in self._injected), *self._by_chance[0]]:
                fault.release()
            self._injected.clear()
            self._by_chance = ([], 0.0)

    def respond(self, body: bytes) -> Response:
        """The answer to one request."""
        call = orjson.loads(body)
        with self._lock:
            self.watch([call])
            exchange = Exchange([call], self._ask, random.Random(self._rng.random()))
            faults = [fault for fault, _ in self._injected]
            drawn, rate = self._by_chance
            if drawn and self._rng.random() < rate:
                faults.append(self._rng.choice(drawn))
        for fault in faults:
            response = fault.respond(exchange)
            if response is not None:
                self._count(fault)
                return response
        return Response(orjson.dumps(exchange.replies()[0]))

    def _count(self, fault: Fault) -> None:
        with self._lock:
            fault.fired += 1
            for pair in self._injected:
                if pair[0] is fault:
                    pair[1] -= 1
            self._injected = [pair for pair in self._injected if pair[1] > 0]

    def _ask(self, calls: list[Call]) -> list[Reply]:
        [call] = calls
        headers = {"content-type": "application/json"}
        response = self._client.post(self._upstream, content=orjson.dumps(call), headers=headers)
        return [orjson.loads(response.content)]


def _serving(respond: Callable[[bytes], Response]) -> Server:
    class RequestHandler(Handler):
        def do_POST(self) -> None:
            response = respond(self.body())
            length = {"content-length": str(len(response.body) + response.cut)}
            self.answer(response.status, response.body, {**length, **response.headers})
            if response.cut:
                self.close_connection = True

    return Server((HOST, 0), RequestHandler)
