"""Client of LayerZero Scan."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indexer.chains.http.service import LockedOut, ServiceRefused
from indexer.chains.services.layerzero_scan import LzScan, ScanStatus
from indexer.errors import InconsistentAnswer, NodeUnavailable
from tests.factories.iris import FakeService, serving
from tests.factories.transfers import make_packet_sent
from warehouse_schema.identifiers import Bytes32

RECORDED = Path(__file__).parents[3] / "golden" / "lz" / "scan-message-delivered.json"
GUID = Bytes32("0xa5b53ad0b8f5d8eeaa53c01f355b8efffe6b0cb074a94133d7e6d043e6bb8e12")
PACKET = replace(
    make_packet_sent(dst_eid=40231),
    guid=GUID,
    nonce=267,
    src_eid=40161,
    sender=Bytes32("0x" + "00" * 12 + "fb112f7fc5725de9f630abb23e4916d6fd7526d3"),
)
CALL = f"GET /v1/messages/guid/{GUID}"


@pytest.fixture
def service() -> Iterator[FakeService]:
    service = FakeService()
    with serving(service):
        yield service


@pytest.fixture
def scan(service: FakeService) -> Iterator[LzScan]:
    client = LzScan(service.url + "/v1", timeout=20.0)
    yield client
    client.close()


def recorded() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(RECORDED.read_text())
    return document


def test_recorded_response_is_parsed(service: FakeService, scan: LzScan) -> None:
    service.answer(CALL, 200, RECORDED.read_bytes())
    assert scan.status_of(PACKET) == ScanStatus(GUID, "DELIVERED", "Executor transaction confirmed")
    assert service.calls == [CALL]


@pytest.mark.parametrize(
    "other",
    [
        replace(PACKET, nonce=268),
        replace(PACKET, src_eid=30101),
        replace(PACKET, sender=Bytes32("0x" + "11" * 32)),
    ],
    ids=["nonce", "source endpoint", "sender"],
)
def test_other_message_is_inconsistent(service: FakeService, scan: LzScan, other: Any) -> None:
    service.answer(CALL, 200, RECORDED.read_bytes())
    with pytest.raises(InconsistentAnswer, match="another message"):
        scan.status_of(other)


def test_other_guid_is_inconsistent(service: FakeService, scan: LzScan) -> None:
    document = recorded()
    document["data"][0]["guid"] = "0x" + "00" * 32
    service.answer(CALL, 200, json.dumps(document).encode())
    with pytest.raises(InconsistentAnswer, match="another message"):
        scan.status_of(PACKET)


def test_packet_is_found_among_others(service: FakeService, scan: LzScan) -> None:
    document = recorded()
    other = recorded()["data"][0]
    other["pathway"]["nonce"] = 1
    other["pathway"]["sender"]["address"] = "So11111111111111111111111111111111111111112"
    document["data"].insert(0, other)
    service.answer(CALL, 200, json.dumps(document).encode())
    assert scan.status_of(PACKET) is not None


def test_stellar_sender_is_32_bytes(service: FakeService, scan: LzScan) -> None:
    document = recorded()
    document["data"][0]["pathway"]["sender"]["address"] = "0x" + "C0" * 32
    service.answer(CALL, 200, json.dumps(document).encode())
    assert scan.status_of(replace(PACKET, sender=Bytes32("0x" + "c0" * 32))) is not None


@pytest.mark.parametrize(
    ("status", "body"), [(404, b'{"message": "Not found"}'), (200, b'{"data": []}')]
)
def test_unknown_packet_has_no_status(
    service: FakeService, scan: LzScan, status: int, body: bytes
) -> None:
    service.answer(CALL, status, body)
    assert scan.status_of(PACKET) is None


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (429, b"{}", LockedOut),
        (503, b"", NodeUnavailable),
        (400, b"{}", ServiceRefused),
        (200, b"<html>", InconsistentAnswer),
        (200, b'{"data": [{}]}', InconsistentAnswer),
        (200, b'{"data": null}', InconsistentAnswer),
    ],
)
def test_bad_response_raises(
    service: FakeService, scan: LzScan, status: int, body: bytes, error: type[Exception]
) -> None:
    service.answer(CALL, status, body)
    with pytest.raises(error):
        scan.status_of(PACKET)
