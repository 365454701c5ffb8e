"""Faults of Stellar's nodes and of a data lake that take several steps to bring about."""

import base64
import sys
from typing import Any

import orjson

from devnet.order_book import OrderBook
from devnet.stellar.accounts import keypair
from devnet.stellar.registry import devnet_contracts
from devnet.stellar.rpc_errors import INVALID_REQUEST
from indexer.chains.stellar.xdr.ledgers import NEWEST_PROTOCOL
from indexer.config.networks import variable_suffix
from tests.factories.stellar_lake import batch_of, compressed, name_of, write_lake
from tests.system.chaos.stellar_faults import AnswerFault, EventsFault
from tests.system.drill.system import PROVIDER, System, wait_until
from tests.system.faults.fault import Call, Exchange, Fault, Response
from warehouse_schema.identifiers import Height

_CUT_BYTES = 1_000
"""Of a ledger's end: its header and its transactions stay whole."""
_ALWAYS = 1_000_000
_UNIT = 10**7


class ReadyForProtocol(AnswerFault):
    """Stellar node whose core can apply a newer protocol than the network runs."""

    method = "getVersionInfo"

    def __init__(self, protocol: int) -> None:
        super().__init__()
        self._protocol = protocol

    def spoil(self, params, result, rng):
        return {**result, "captiveCoreVersion": f"stellar-core {self._protocol}.0.0 (drill)"}


class LeavesOutEvents(EventsFault):
    """Stellar node that leaves the events of a contract out of its answers."""

    def __init__(self, contract: str) -> None:
        super().__init__()
        self._contract = contract

    def spoil_events(self, events, rng):
        return [event for event in events if event["contractId"] != self._contract]


class WithoutOldLedgers(Fault):
    """Stellar node that has pruned every ledger before `oldest`."""

    def __init__(self, oldest: int) -> None:
        super().__init__()
        self._oldest = oldest

    def respond(self, exchange: Exchange) -> Response | None:
        [call] = exchange.calls
        if call["method"] == "getHealth":
            [reply] = exchange.replies()
            result = {**reply["result"], "oldestLedger": self._oldest}
            return _response(call, result=result)
        start = call.get("params", {}).get("startLedger")
        if call["method"] not in ("getLedgers", "getEvents") or (start or self._oldest) >= (
            self._oldest
        ):
            return None
        text = f"startLedger must be within the ledger range from {self._oldest} on"
        return _response(call, error={"code": INVALID_REQUEST, "message": text})


def _response(call: Call, **answer: Any) -> Response:
    return Response(orjson.dumps({"jsonrpc": "2.0", "id": call["id"], **answer}))


def announce_protocol(system: System) -> None:
    """The node's operator installs a stellar-core for the next protocol; the follower starts."""
    system.stellar_node.inject(ReadyForProtocol(NEWEST_PROTOCOL + 1), times=_ALWAYS)
    system.start(system.follower(system.stellar))


def deploy_newer_build(system: System) -> None:
    """Install a release that reads the next protocol; it stays for the drills that follow."""
    command = [sys.executable, "-m", "tests.system.drill.newer_build", "follow"]
    system.install(system.follower(system.stellar), [*command, system.stellar])


def leave_out_event(system: System) -> None:
    """The node leaves out the second of a provider's three deposits, once."""
    _deposit(system)
    system.stellar_node.inject(LeavesOutEvents(devnet_contracts().escrow), times=_ALWAYS)
    left_out = _deposit(system)
    wait_until(lambda: system.cursor(system.stellar).height >= left_out, "the ledger read")
    system.stellar_node.heal()
    _deposit(system)


def damage_ledger(system: System) -> None:
    """The follower returns to a node that pruned what it missed, and to a lake with a bad object.

    In the lake a ledger with an event of ours ends too early: its header is right, and its
    transactions are those of the header, but not all of it can be decoded.
    """
    name, client = system.follower(system.stellar), system.world.stellar
    system.kill(name)
    height = _deposit(system)
    first = system.cursor(system.stellar).height + 1
    ledgers = client.server.get_ledgers(first, limit=200).ledgers
    metas = [base64.b64decode(str(each.metadata_xdr)) for each in ledgers]
    lake = system.folder / "lake"
    lake.mkdir()
    url = write_lake(lake, metas, first=first)
    cut = metas[height - first][:-_CUT_BYTES]
    (lake / name_of(height, height, 1, 1)).write_bytes(compressed(batch_of([cut], height)))
    oldest = first + len(metas)
    # A node that has pruned its own head would be another fault.
    wait_until(
        lambda: client.server.get_latest_ledger().sequence >= oldest, "a ledger after the lake's"
    )
    system.stellar_node.inject(WithoutOldLedgers(oldest), times=_ALWAYS)
    system.start(name, **{f"ISTHMUS_LAKE_{variable_suffix(system.stellar)}": url})


def _deposit(system: System) -> Height:
    """An event of the provider; its ledger."""
    return Height(OrderBook(system.world.stellar).deposit(keypair(PROVIDER), _UNIT).ledger)
