"""Stand-in for Circle's attestation service: fees of burns, and attestations of transactions.

    GET /v2/burn/USDC/fees/<source domain>/<destination domain>
    GET /v2/messages/<source domain>?transactionHash=<hash>
    POST /v2/reattest/<nonce>

Responses have the service's members and numbers: 1.3 basis points for a fast burn from an EVM
chain, as Base to Stellar cost in 2026; a standard burn is free. Burns that are final at once (all
of Stellar's, fast burns that pay enough) are attested at the first request. A standard burn of an
EVM chain stays pending: a demo does not wait 15 minutes. A fast burn's attestation may expire; a
re-attestation is final and has no expiration.

It listens on the loopback address alone, and only networks of local chains accept its URL
(`ISTHMUS_IRIS_URL`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

from devnet.bridges import sent_messages
from devnet.evm import DOMAIN, STELLAR_DOMAIN, EvmDevnet, expected_addresses
from devnet.evm_messages import CONFIRMED, FINALIZED, Attesters, message_nonce
from devnet.evm_node import JsonRpc
from devnet.evm_sending import Receipt
from devnet.local_http import HOST
from devnet.local_server import Handler, Server, answering
from devnet.stellar.client import DevnetClient

_FEES = re.compile(r"/v2/burn/USDC/fees/([0-9]{1,9})/([0-9]{1,9})")
_MESSAGES = re.compile(r"/v2/messages/([0-9]{1,9})")
_REATTEST = re.compile(r"/v2/reattest/0x([0-9a-f]{64})")
_NOT_FOUND = {"code": 404, "message": "Not found"}

# Offsets in a burn message.
_DESTINATION = slice(8, 12)
_MIN_FINALITY = slice(140, 144)
_AMOUNT = slice(216, 248)
_MAX_FEE = slice(280, 312)

Sent: TypeAlias = Callable[[str], Sequence[bytes] | None]
"""The messages of a transaction, in order of its logs; None for one that is in no block."""


Expires: TypeAlias = Callable[[int], int]
"""Block or ledger of a destination domain at which a fast burn's attestation ends; 0 for never."""


def never(_: int) -> int:
    """Attestations have no end."""
    return 0


def fast_fee(amount: int) -> int:
    """Fee of a fast burn from an EVM chain, USDC base units: 1.3 basis points, rounded up."""
    return -(-amount * 13 // 100_000)


def fees(source: int) -> bytes:
    """The answer for burns of a domain; Stellar's are final at once, and fast costs nothing."""
    fast = "0" if source == STELLAR_DOMAIN else "1.3"
    speeds = ((1000, fast), (2000, "0"))
    listed = (f'{{"finalityThreshold":{each},"minimumFee":{bps}}}' for each, bps in speeds)
    return f"[{','.join(listed)}]".encode()


class Attestations:
    """Attestations of burn transactions; `sent` reads each domain's chain."""

    def __init__(self, sent: Mapping[int, Sent], expires: Expires = never) -> None:
        self._sent = sent
        self._expires = expires
        self._ends: dict[bytes, int] = {}
        """By nonce, of fast burns."""
        self._final: set[bytes] = set()
        """Nonces of fast burns that were attested again."""
        self._attesters = Attesters()
        self._lock = Lock()
        self._seen: dict[bytes, list[tuple[str, int]]] = {}

    def of(self, domain: int, tx: str) -> list[dict[str, Any]] | None:
        """A member for each message of a transaction; None where there is no such transaction."""
        with self._lock:
            sent = self._sent[domain](tx) if domain in self._sent else None
            if sent is None:
                return None
            return [self._attestation(domain, each, tx, place) for place, each in enumerate(sent)]

    def reattest(self, nonce: bytes) -> bool:
        """Attest a fast burn as final, without an end; False for a nonce that is not known."""
        with self._lock:
            if nonce not in self._ends:
                return False
            self._ends[nonce] = 0
            self._final.add(nonce)
            return True

    def _attestation(self, domain: int, message: bytes, tx: str, place: int) -> dict[str, Any]:
        executed = _executed(domain, message)
        if executed is None:
            asks_for_fast = int.from_bytes(message[_MIN_FINALITY], "big") <= CONFIRMED
            reason = "insufficient_fee" if asks_for_fast else None
            return _shaped(b"", "PENDING", None, "pending_confirmations", reason)
        finality, fee = executed
        nonce = message_nonce(message, self._counter(message, tx, place))
        end = 0
        if finality == CONFIRMED:
            if nonce not in self._ends:
                destination = int.from_bytes(message[_DESTINATION], "big")
                self._ends[nonce] = self._expires(destination)
            end = self._ends[nonce]
            finality = CONFIRMED if nonce not in self._final else FINALIZED
        attested, signatures = self._attesters.attest(
            message, nonce=nonce, finality_executed=finality, fee_executed=fee, expiration=end
        )
        return _shaped(attested, f"0x{signatures.hex()}", f"0x{nonce.hex()}", "complete", None)

    def _counter(self, message: bytes, tx: str, place: int) -> int:
        """Number of earlier burns of the same bytes."""
        known = self._seen.setdefault(message, [])
        if (tx, place) not in known:
            known.append((tx, place))
        return known.index((tx, place))


def _executed(domain: int, message: bytes) -> tuple[int, int] | None:
    """Finality and fee with which a burn is attested now; None while it is not."""
    if domain == STELLAR_DOMAIN:
        return FINALIZED, 0
    fee = fast_fee(int.from_bytes(message[_AMOUNT], "big"))
    is_fast = int.from_bytes(message[_MIN_FINALITY], "big") <= CONFIRMED
    if is_fast and fee <= int.from_bytes(message[_MAX_FEE], "big"):
        return CONFIRMED, fee
    return None


def _shaped(
    message: bytes, attestation: str, nonce: str | None, status: str, reason: str | None
) -> dict[str, Any]:
    return {
        "message": f"0x{message.hex()}",
        "attestation": attestation,
        "eventNonce": nonce,
        "cctpVersion": 2,
        "status": status,
        "delayReason": reason,
        "decodedMessage": None,
    }


@dataclass(frozen=True)
class _Service:
    attestations: Attestations | None

    def answer(self, target: str) -> tuple[int, bytes]:
        """Status and body."""
        parts = urlsplit(target)
        if (match := _FEES.fullmatch(parts.path)) is not None:
            return 200, fees(int(match[1]))
        if self.attestations is not None and (match := _MESSAGES.fullmatch(parts.path)) is not None:
            [tx] = parse_qs(parts.query).get("transactionHash", [""])
            attestations = self.attestations.of(int(match[1]), tx)
            if attestations is None:
                return 404, b'{"error":"Message not found for the given transaction hash"}'
            return 200, json.dumps({"messages": attestations, "sourceTxHash": tx}).encode()
        return 404, json.dumps(_NOT_FOUND).encode()

    def taken(self, target: str) -> tuple[int, bytes]:
        """The same of a POST."""
        match = _REATTEST.fullmatch(target)
        if match is None or self.attestations is None:
            return 404, json.dumps(_NOT_FOUND).encode()
        if not self.attestations.reattest(bytes.fromhex(match[1])):
            return 404, b'{"error":"Message not found for the given nonce"}'
        return 200, json.dumps({"message": "Re-attestation requested", "nonce": match[1]}).encode()


class _Handler(Handler):
    """A connection serves one request, so that none outlives the chains that it reads."""

    protocol_version = "HTTP/1.0"
    server: _Server

    def do_GET(self) -> None:
        """Fees and messages."""
        self._answer(*self.server.service.answer(self.path))

    def do_POST(self) -> None:
        """Re-attestation; it needs no body."""
        self._answer(*self.server.service.taken(self.path))

    def _answer(self, status: int, raw: bytes) -> None:
        self.answer(status, raw, {"Content-Type": "application/json"})


class _Server(Server):
    def __init__(self, port: int, service: _Service) -> None:
        super().__init__((HOST, port), _Handler)
        self.service = service


@contextmanager
def serving(port: int = 0, attestations: Attestations | None = None) -> Iterator[str]:
    """Its base URL while it serves; port 0 picks a free one. Without attestations, fees alone."""
    with answering(_Server(port, _Service(attestations))) as url:
        yield url


@contextmanager
def reading(evm_url: str, stellar_url: str, expires: Expires = never) -> Iterator[Attestations]:
    """Attestations of what is on two running chains."""
    with ExitStack() as stack:
        rpc = stack.enter_context(JsonRpc(evm_url))
        stellar = stack.enter_context(DevnetClient(stellar_url))
        sent = {DOMAIN: _of_evm(rpc), STELLAR_DOMAIN: _of_stellar(stellar)}
        yield Attestations(sent, expires)


def _of_evm(rpc: JsonRpc) -> Sent:
    chain = EvmDevnet(rpc, expected_addresses())

    def sent(tx: str) -> Sequence[bytes] | None:
        found = rpc("eth_getTransactionReceipt", tx)
        return None if found is None else chain.sent_messages(Receipt.from_rpc(found))

    return sent


def _of_stellar(stellar: DevnetClient) -> Sent:
    def sent(tx: str) -> Sequence[bytes] | None:
        outcome = stellar.outcome(tx)
        return None if outcome is None else sent_messages(outcome)

    return sent
