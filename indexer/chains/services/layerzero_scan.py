"""Client of LayerZero Scan, LayerZero's explorer.

Its status is a hint. It was seen to answer with another application's message, so an answer is
checked against the packet that the source chain emitted. Its limits are not published: we send at
most one request a second.
"""

from dataclasses import dataclass
from typing import Protocol

from indexer.chains.http.service import (
    HttpService,
    JsonFields,
    ServiceRefused,
)
from indexer.errors import InconsistentAnswer
from warehouse_schema.identifiers import Bytes32

REQUESTS_PER_SECOND = 1.0


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


class LzScan(HttpService):
    """The explorer's API at one URL, version included. Threads may share it."""

    def __init__(self, url: str, *, timeout: float = 10.0) -> None:
        super().__init__(url, timeout=timeout, per_second=REQUESTS_PER_SECOND)

    def status_of(self, packet: Packet) -> ScanStatus | None:
        """The status of a packet; None when the explorer does not know it yet.

        Raises `InconsistentAnswer` when it answers with another message: guid, source endpoint,
        sender and nonce must be the packet's.
        """
        path = f"/messages/guid/{packet.guid}"
        answer = self.request("GET", path)
        if answer.status == 404:
            return None
        if answer.status >= 400:
            raise ServiceRefused(f"{self.host} refuses {path}: HTTP {answer.status}")
        items = JsonFields(answer.body, path).objects("data")
        if not items:
            return None
        for item in items:
            pathway = item.object("pathway")
            # In this order: of another message, no further field has to be well-formed.
            if (
                item.text("guid").lower() == packet.guid
                and pathway.whole("srcEid") == packet.src_eid
                and pathway.whole("nonce") == packet.nonce
                and _word(pathway.object("sender").text("address")) == packet.sender
            ):
                status = item.object("status")
                return ScanStatus(packet.guid, status.text("name"), status.optional_text("message"))
        raise InconsistentAnswer(f"{self.host} answered {path} with another message")


def _word(address: str) -> str:
    """An address, left-padded to 32 bytes, as a packet carries it."""
    return "0x" + address.lower().removeprefix("0x").rjust(64, "0")
