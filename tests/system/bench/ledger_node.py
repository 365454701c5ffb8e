"""A Stellar RPC node of protocol 30 whose ledgers are full of transfers of one asset.

A ledger's events are its own; its meta has the header of its own and, for its size, one transfer of
the devnet as many times as the ledger has transfers: a reader of RPC takes the header alone.
Everything follows from the height, so that two runs with the same options store the same rows.
Answers are joined from text made beforehand: the node takes little of the machine it shares.
"""

import base64
import random
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from typing import Any

import orjson
from stellar_sdk import StrKey, scval, xdr

from devnet.local_http import HOST
from devnet.local_server import Handler, Server, answering
from devnet.stellar.accounts import USDC
from devnet.stellar.asset_events import token_contract
from devnet.stellar.ledger import Agreed, Head, header, header_hash
from indexer.chains.stellar.xdr.event_ids import EventId
from indexer.config.networks import StellarChain
from tests.devnet.stellar.chain import UNIT, Chain
from tests.factories.sdk_ledgers import closed_ledger, parse_meta
from warehouse_schema.identifiers import Height

_NOTHING = bytes(32)
_LAST_EVENT = (1 << 32) - 1
_PROTOCOL = 30
_MUXED_EVERY = 10
"""Of the transfers one in ten goes to a muxed account."""


@dataclass(frozen=True)
class FullLedger:
    """A closed ledger as the node answers with it, and what its events sum up to."""

    height: int
    record: bytes
    """In getLedgers, up to the meta's base64."""
    header: bytes
    """The `LedgerHeaderHistoryEntry`."""
    events: Sequence[bytes]
    ids: Sequence[str]
    amount: int


class LedgerNode:
    """Serves the ledgers `first … first + len(ledgers) - 1` once `latest` has reached them."""

    def __init__(self, chain: StellarChain, ledgers: Sequence[FullLedger]) -> None:
        self._passphrase = chain.passphrase
        self._ledgers = ledgers
        self.first = self.latest = ledgers[0].height
        """The first ledger is there from the start."""

    def answer(self, method: str, params: Mapping[str, Any]) -> Sequence[bytes]:
        """The result of a call, as pieces of JSON: a meta is too large to be copied into one.

        Raises `KeyError` for a method that no follower calls.
        """
        if method == "getLedgers":
            return self.get_ledgers(params)
        return [_METHODS[method](self, params)]

    def get_network(self, _: Mapping[str, Any]) -> bytes:
        """Passphrase and protocol."""
        return orjson.dumps({"passphrase": self._passphrase, "protocolVersion": _PROTOCOL})

    def get_version_info(self, _: Mapping[str, Any]) -> bytes:
        """Versions of RPC and core."""
        core = "stellar-core 30.0.0 (a benchmark)"
        return orjson.dumps(
            {"version": "30.0.0", "captiveCoreVersion": core, "protocolVersion": _PROTOCOL}
        )

    def get_health(self, _: Mapping[str, Any]) -> bytes:
        """The window of ledgers."""
        return b'{"status":"healthy",%s}' % self._ends()

    def get_ledgers(self, params: Mapping[str, Any]) -> Sequence[bytes]:
        """Ledgers with their whole meta."""
        start = params["startLedger"]
        found = self._from(start)[: params["pagination"]["limit"]]
        pieces = [b'{"ledgers":[']
        for number, each in enumerate(found):
            before = b"," if number else b""
            pieces += [before, each.record, *_meta(each.header, len(each.events)), b'"}']
        last = start + len(found) - 1
        return [*pieces, b'],"cursor":"%d",%s}' % (last, self._ends())]

    def get_events(self, params: Mapping[str, Any]) -> bytes:
        """Events from a ledger or behind a cursor on; all of them pass the follower's filters."""
        limit, cursor = params["pagination"]["limit"], params["pagination"].get("cursor")
        start = params["startLedger"] if cursor is None else int(cursor[:19]) >> 32
        end = min(params.get("endLedger", self.latest + 1), self.latest + 1)
        events: list[bytes] = []
        last = f"{((end - 1) << 32) | 0xFFFFFFFF:019d}-{_LAST_EVENT}"
        for ledger in self._from(start)[: max(0, end - start)]:
            # Every event of a ledger has an id of its own, in order.
            begin = 0 if cursor is None else bisect_right(ledger.ids, cursor)
            taken = ledger.events[begin : begin + limit - len(events)]
            events += taken
            if len(events) == limit:
                last = ledger.ids[begin + len(taken) - 1]
                break
        return b'{"events":[%s],"cursor":"%s",%s}' % (
            b",".join(events),
            last.encode(),
            self._ends(),
        )

    def _from(self, start: int) -> Sequence[FullLedger]:
        if not self.first <= start <= self.latest:
            raise ValueError(f"ledger {start} is not of {self.first} to {self.latest}")
        return self._ledgers[start - self.first : self.latest + 1 - self.first]

    def _ends(self) -> bytes:
        return b'"oldestLedger":%d,"latestLedger":%d' % (self.first, self.latest)


_METHODS = {
    "getNetwork": LedgerNode.get_network,
    "getVersionInfo": LedgerNode.get_version_info,
    "getHealth": LedgerNode.get_health,
    "getEvents": LedgerNode.get_events,
}


@contextmanager
def serving(node: LedgerNode) -> Iterator[str]:
    """The node's URL."""

    class RequestHandler(Handler):
        def do_POST(self) -> None:
            request = orjson.loads(self.body())
            result = node.answer(request["method"], request.get("params", {}))
            pieces = [b'{"jsonrpc":"2.0","id":1,"result":', *result, b"}"]
            self.answer(200, headers={"content-length": str(sum(map(len, pieces)))})
            self.wfile.writelines(pieces)
            self.wfile.flush()

    with answering(Server((HOST, 0), RequestHandler)) as url:
        yield url


def account_keys(count: int) -> list[bytes]:
    """The raw keys of the accounts that pay each other."""
    return [sha256(b"account %d" % number).digest() for number in range(count)]


def full_ledgers(
    chain: StellarChain, first: int, count: int, transfers: int, accounts: int, seconds: float
) -> Iterator[FullLedger]:
    """Ledgers that follow one another, so many seconds apart."""
    name, contract = chain.usdc.removeprefix("stellar:"), chain.usdc_contract
    addresses = [StrKey.encode_ed25519_public_key(key) for key in account_keys(accounts)]
    topics = [scval.to_address(address).to_xdr() for address in addresses]
    shape = (
        '{"type":"contract","ledger":%d,"ledgerClosedAt":"%s","contractId":"' + contract + '",'
        '"id":"%s","operationIndex":0,"transactionIndex":%d,"txHash":"%s",'
        f'"topic":["{scval.to_symbol("transfer").to_xdr()}","%s","%s",'
        f'"{scval.to_string(name).to_xdr()}"],"value":"%s"}}'
    )
    head = Head(first - 1, _NOTHING, 1_767_225_600_000, 0, _PROTOCOL)
    for height in range(first, first + count):
        chosen = random.Random(height)
        closed_ms = head.close_time_ms + round(seconds * 1000)
        closed_at = datetime.fromtimestamp(closed_ms // 1000, UTC).isoformat()[:19] + "Z"
        senders = chosen.sample(topics, transfers)
        recipients = chosen.sample(topics, transfers)
        amounts = [chosen.randrange(1, 10**12) for _ in range(transfers)]
        ids = [str(EventId(Height(height), each, 0, 0)) for each in range(1, transfers + 1)]
        events = [
            (shape % (height, closed_at, ids[n], n + 1, tx_hash, senders[n], recipients[n], value))
            for n in range(transfers)
            for tx_hash in (sha256(b"%d/%d" % (height, n)).hexdigest(),)
            for value in (_value(amounts[n], n),)
        ]
        closed = header(head, Agreed(closed_ms), _NOTHING, _NOTHING, _NOTHING, 0)
        own_hash = header_hash(closed)
        head = Head(height, own_hash, closed_ms, 0, _PROTOCOL)
        entry = xdr.LedgerHeaderHistoryEntry(
            xdr.Hash(own_hash), closed, xdr.LedgerHeaderHistoryEntryExt(0)
        )
        record = (
            f'{{"hash":"{own_hash.hex()}","sequence":{height},'
            f'"ledgerCloseTime":"{closed_ms // 1000}","headerXdr":"{entry.to_xdr()}",'
            f'"metadataXdr":"'
        )
        yield FullLedger(
            height=height,
            record=record.encode(),
            header=entry.to_xdr_bytes(),
            events=[each.encode() for each in events],
            ids=ids,
            amount=sum(amounts),
        )


def _value(amount: int, number: int) -> str:
    if number % _MUXED_EVERY:
        return base64.b64encode(_i128(amount)).decode()
    fields = {
        scval.to_symbol("amount"): scval.to_int128(amount),
        scval.to_symbol("to_muxed_id"): scval.to_uint64(number),
    }
    return scval.to_map(fields).to_xdr()


def _i128(amount: int) -> bytes:
    return _uint32(xdr.SCValType.SCV_I128) + amount.to_bytes(16, "big", signed=True)


def _meta(entry: bytes, transfers: int) -> tuple[bytes, bytes]:
    """Base64 of the meta. What follows the header is the same for all, and megabytes."""
    before, behind = _around_header(transfers)
    begin = before + entry
    rest = -len(begin) % _BASE64_BYTES
    return base64.b64encode(begin + behind[:rest]), _base64_behind(transfers, rest)


_BASE64_BYTES = 3
"""Of a group that is encoded by itself."""


@cache
def _base64_behind(transfers: int, start: int) -> bytes:
    return base64.b64encode(_around_header(transfers)[1][start:])


@cache
def _around_header(transfers: int) -> tuple[bytes, bytes]:
    """The meta of a devnet's ledger around its header, its one transfer so many times in it."""
    chain = Chain()
    alice, bob = chain.open("alice", usdc=UNIT), chain.open("bob", usdc=0)
    parties = [scval.to_address(each.public_key) for each in (alice, bob)]
    token = token_contract(USDC)
    row = chain.call(alice, token, "transfer", *parties, scval.to_int128(1))
    latest = chain.node.latest
    applied = closed_ledger(parse_meta(latest.meta)).tx_processing[0].to_xdr_bytes()
    before, behind = latest.meta.split(latest.header)
    for each in (row.envelope, applied):
        # An array of one element is made one of many.
        one, many = _uint32(1) + each, _uint32(transfers) + each * transfers
        if behind.count(one) != 1:
            raise ValueError("the devnet's ledger is not of one transfer")
        behind = behind.replace(one, many)
    return before, behind


def _uint32(number: int) -> bytes:
    return number.to_bytes(4, "big")
