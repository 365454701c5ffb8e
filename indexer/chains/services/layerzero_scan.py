"""LayerZero Scan: where a message is, as LayerZero's explorer sees it.

A hint and no more. It was seen to answer with another application's message, so an answer is held
against the packet that the source chain emitted before it is given. Its limits are not published:
we ask once a second at most.
"""

from dataclasses import dataclass
from typing import Protocol

from indexer.chains.http.service import (
    HttpService,
    JsonFields,
    ServiceRefused,
    host_of,
    shared_limit,
)
from indexer.errors import InconsistentAnswer
from warehouse_schema.identifiers import Bytes32, parse_bytes32

REQUESTS_PER_SECOND = 1.0
LOCK_OUT_SECONDS = 300.0

_NOT_FOUND = 404
_REFUSAL = 400


@dataclass(frozen=True, slots=True)
class ScanStatus:
    """A message's state in the explorer's words."""

    guid: Bytes32
    name: str
    """`INFLIGHT`, `CONFIRMING`, `DELIVERED`, `PAYLOAD_STORED`, `FAILED`, `BLOCKED` or another."""
    message: str | None


class Packet(Protocol):
    """A LayerZero message by its id and its origin."""

    @property
    def guid(self) -> Bytes32:
        """Id of the message."""

    @property
    def src_eid(self) -> int:
        """Endpoint of the source chain."""

    @property
    def sender(self) -> Bytes32:
        """Contract that sent it."""

    @property
    def nonce(self) -> int:
        """Number in its pathway."""


class LzScan:
    """The explorer's API at one URL, version included. Safe to share between threads."""

    def __init__(self, url: str, *, timeout: float = 10.0) -> None:
        self._http = HttpService(
            url,
            timeout=timeout,
            limit=shared_limit(host_of(url), REQUESTS_PER_SECOND, 1),
            lock_out_seconds=LOCK_OUT_SECONDS,
        )

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def status_of(self, packet: Packet) -> ScanStatus | None:
        """The status of a packet; None when the explorer does not know it yet.

        Raises `InconsistentAnswer` when it answers with another message: guid, source endpoint,
        sender and nonce must be the packet's.
        """
        path = f"/messages/guid/{packet.guid}"
        answer = self._http.get(path)
        if answer.status == _NOT_FOUND:
            return None
        if answer.status >= _REFUSAL:
            raise ServiceRefused(f"{self._http.host} refuses {path}: HTTP {answer.status}")
        items = JsonFields(answer.body, path).objects("data")
        if not items:
            return None
        for item in items:
            if _is_of(item, packet):
                status = item.object("status")
                return ScanStatus(packet.guid, status.text("name"), status.optional_text("message"))
        raise InconsistentAnswer(f"{self._http.host} answered {path} with another message")


def _is_of(item: JsonFields, packet: Packet) -> bool:
    pathway = item.object("pathway")
    return (
        item.text("guid").lower() == packet.guid
        and pathway.whole("srcEid") == packet.src_eid
        and pathway.whole("nonce") == packet.nonce
        and _word(pathway.object("sender").text("address")) == packet.sender
    )


def _word(address: str) -> Bytes32 | None:
    """An address as a packet carries it, 32 bytes; None for one that is not hex."""
    try:
        return parse_bytes32("0x" + address.removeprefix("0x").rjust(64, "0"))
    except ValueError:
        return None
