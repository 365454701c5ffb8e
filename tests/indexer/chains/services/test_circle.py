"""Client of Circle's attestation service, on recorded and documented responses."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from indexer.bridges.cctp.attestation import check_signatures
from indexer.chains.http.service import LockedOut, RateLimit, ServiceRefused
from indexer.chains.services.circle import BurnFee, Iris, IrisMessages, Reattestation
from indexer.config.networks import load_network
from indexer.errors import InconsistentAnswer, NodeUnavailable
from tests.factories.iris import FakeIris, make_complete, make_pending, serving
from warehouse_schema.identifiers import Bytes32, TxHash

GOLDEN = Path(__file__).parents[3] / "golden" / "cctp"
NONCE = Bytes32("0x" + "0e" * 32)
EVM_TX = TxHash("0x" + "ab" * 32)
STELLAR_TX = TxHash("cd" * 32)


@pytest.fixture
def service() -> Iterator[FakeIris]:
    service = FakeIris()
    with serving(service):
        yield service


@pytest.fixture
def iris(service: FakeIris, monkeypatch: pytest.MonkeyPatch) -> Iterator[Iris]:
    # The stand-in shuts nobody out for haste.
    monkeypatch.setattr("indexer.chains.services.circle.REQUESTS_PER_SECOND", 1000.0)
    client = Iris(service.url, timeout=20.0)
    yield client
    client.close()


def answer_messages(service: FakeIris, body: Any, status: int = 200) -> None:
    call = f"GET /v2/messages/6?transactionHash={EVM_TX}"
    service.answer(call, status, body if isinstance(body, bytes) else json.dumps(body).encode())


def ask(iris: Iris) -> IrisMessages:
    return iris.messages_of_transaction(6, EVM_TX)


# Recorded answers.


def test_recorded_attestation_has_testnet_signatures(service: FakeIris, iris: Iris) -> None:
    answer_messages(service, (GOLDEN / "service-answer-forwarded-testnet.json").read_bytes())
    found = ask(iris)
    (message,) = found.messages
    assert (message.usable, message.status, message.cctp_version) == (True, "complete", 2)
    assert message.event_nonce == (
        "0xb5aa937a5ea900b858cbb75974eb4842ba6fb01415e1613022a44c110e6895d1"
    )
    assert message.message is not None
    assert message.attestation is not None
    assert message.event_nonce[2:] == message.message[12:44].hex()
    assert message.delay_reason is None
    testnet = load_network("testnet")
    signing = check_signatures(
        message.message, message.attestation, testnet.attesters, testnet.attestation_threshold
    )
    assert signing.refusal is None
    assert signing.attesters == testnet.attesters


def test_recorded_fees_are_exact(service: FakeIris, iris: Iris) -> None:
    recorded = (GOLDEN / "service-burn-fees-base-to-arc.json").read_bytes()
    service.answer("GET /v2/burn/USDC/fees/6/26", 200, recorded)
    assert iris.burn_fees(6, 26) == (BurnFee(1000, Decimal("0.325")), BurnFee(2000, Decimal(0)))


def test_stellar_transaction_is_requested_without_0x(service: FakeIris, iris: Iris) -> None:
    service.publish(27, STELLAR_TX, make_pending())
    assert len(iris.messages_of_transaction(27, STELLAR_TX).messages) == 1
    assert service.calls == [f"GET /v2/messages/27?transactionHash={STELLAR_TX}"]


# Not yet.


@pytest.mark.parametrize(
    "body", [{"error": "Message not found"}, {"code": 404, "message": "Not found"}], ids=str
)
def test_service_404_is_not_seen(service: FakeIris, iris: Iris, body: Any) -> None:
    answer_messages(service, body, status=404)
    assert ask(iris) == IrisMessages(seen=False, messages=())


@pytest.mark.parametrize("body", [b"<html>not here</html>", b"{}", b"[]", b""], ids=str)
def test_foreign_404_is_inconsistent(service: FakeIris, iris: Iris, body: bytes) -> None:
    answer_messages(service, body, status=404)
    with pytest.raises(InconsistentAnswer):
        ask(iris)


def test_no_messages_is_seen_and_unprocessed(service: FakeIris, iris: Iris) -> None:
    answer_messages(service, {"messages": []})
    assert ask(iris) == IrisMessages(seen=True, messages=())


@pytest.mark.parametrize("message", [None, "0x", ""])
@pytest.mark.parametrize("attestation", [None, "PENDING", "0x"])
def test_pending_message_has_no_bytes(
    service: FakeIris, iris: Iris, message: str | None, attestation: str | None
) -> None:
    pending = make_pending(NONCE, message=message, attestation=attestation)
    answer_messages(service, {"messages": [pending]})
    (found,) = ask(iris).messages
    assert (found.message, found.attestation, found.usable) == (None, None, False)
    assert found.event_nonce == NONCE


@pytest.mark.parametrize(
    "missing", [{"attestation": "PENDING"}, {"message": "0x"}, {"attestation": None}], ids=str
)
def test_complete_without_bytes_is_not_usable(
    service: FakeIris, iris: Iris, missing: dict[str, Any]
) -> None:
    answer_messages(service, {"messages": [make_complete(b"m" * 376, b"s" * 130, **missing)]})
    assert not ask(iris).messages[0].usable


def test_v1_message_nonce_is_ignored(service: FakeIris, iris: Iris) -> None:
    item = make_complete(b"m" * 248, b"s" * 130, cctpVersion=1, eventNonce="9682")
    answer_messages(service, {"messages": [item]})
    (message,) = ask(iris).messages
    assert (message.cctp_version, message.event_nonce) == (1, None)


@pytest.mark.parametrize(
    "delay", ["insufficient_fee", "amount_above_max", "insufficient_allowance_available", "new"]
)
def test_delay_reason_is_parsed(service: FakeIris, iris: Iris, delay: str) -> None:
    answer_messages(service, {"messages": [make_pending(delayReason=delay)]})
    assert ask(iris).messages[0].delay_reason == delay


# What is no answer.


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b'{"messages": [',
        b"[]",
        b"null",
        b"{}",
        b'{"messages": {}}',
        b'{"messages": [7]}',
        b'{"messages": [{"cctpVersion": NaN}]}',
        json.dumps({"messages": [make_pending(status=None)]}).encode(),
        json.dumps({"messages": [make_pending(status=7)]}).encode(),
        json.dumps({"messages": [make_pending(cctpVersion=None)]}).encode(),
        json.dumps({"messages": [make_pending(cctpVersion=True)]}).encode(),
        json.dumps({"messages": [make_pending(cctpVersion="9" * 5000)]}).encode(),
        json.dumps({"messages": [make_pending(message="0xzz")]}).encode(),
        json.dumps({"messages": [make_pending(message="0x123")]}).encode(),
        json.dumps({"messages": [make_pending(attestation="SOON")]}).encode(),
        json.dumps({"messages": [make_pending("0x12")]}).encode(),
    ],
    ids=lambda body: body.decode()[:40],
)
def test_malformed_response_is_inconsistent(service: FakeIris, iris: Iris, body: bytes) -> None:
    answer_messages(service, body)
    with pytest.raises(InconsistentAnswer):
        ask(iris)


def test_endless_response_is_cut_off(service: FakeIris, iris: Iris) -> None:
    iris.max_bytes = 1000
    answer_messages(service, b" " * 1001)
    with pytest.raises(InconsistentAnswer, match="over 1000 bytes"):
        ask(iris)


@pytest.mark.parametrize("status", [500, 502, 503, 302])
def test_failing_service_is_unavailable(service: FakeIris, iris: Iris, status: int) -> None:
    answer_messages(service, b"down", status=status)
    with pytest.raises(NodeUnavailable, match=f"HTTP {status}"):
        ask(iris)


def test_unreachable_service_is_unavailable() -> None:
    iris = Iris("http://127.0.0.1:1", timeout=1.0)
    with pytest.raises(NodeUnavailable, match=r"127\.0\.0\.1:1"):
        ask(iris)
    iris.close()


def test_refused_request_is_permanent(service: FakeIris, iris: Iris) -> None:
    answer_messages(service, {"code": 400, "message": "bad transactionHash"}, status=400)
    with pytest.raises(ServiceRefused, match="bad transactionHash"):
        ask(iris)


# Attesting anew.


def test_reattestation_is_accepted(service: FakeIris, iris: Iris) -> None:
    service.on_reattest(NONCE, lambda: None)
    assert iris.reattest(NONCE) == Reattestation(
        True, "Re-attestation successfully requested for nonce."
    )
    assert service.calls == [f"POST /v2/reattest/{NONCE}"]


def test_refused_reattestation_has_detail(service: FakeIris, iris: Iris) -> None:
    refused = iris.reattest(NONCE)
    assert not refused.accepted
    assert "Message is already finalized." in refused.detail


# The limit.


class Clock:
    """Seconds that pass only by sleeping."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_rate_limit_after_the_burst() -> None:
    clock = Clock()
    limit = RateLimit(5.0, 3, clock=clock, sleep=clock.sleep)
    for _ in range(6):
        limit.wait()
    assert clock.slept == pytest.approx([0.2, 0.2, 0.2])


def test_idle_time_earns_at_most_the_burst() -> None:
    clock = Clock()
    limit = RateLimit(5.0, 3, clock=clock, sleep=clock.sleep)
    clock.now += 3600
    for _ in range(4):
        limit.wait()
    assert clock.slept == pytest.approx([0.2])


def test_lock_out_applies_to_all_requests() -> None:
    clock = Clock()
    limit = RateLimit(5.0, 3, clock=clock, sleep=clock.sleep)
    limit.lock_out(300)
    limit.lock_out(10)
    clock.now += 299
    with pytest.raises(LockedOut) as caught:
        limit.wait()
    assert caught.value.retry_after == pytest.approx(1)
    clock.now += 1
    limit.wait()


def test_429_locks_out_the_host_for_five_minutes(service: FakeIris, iris: Iris) -> None:
    service.shut = True
    with pytest.raises(LockedOut) as caught:
        ask(iris)
    assert caught.value.retry_after == 300
    service.shut = False
    other = Iris(service.url, timeout=20.0)
    for client in (iris, other):
        with pytest.raises(LockedOut):
            client.burn_fees(6, 27)
    other.close()
    assert len(service.calls) == 1


def test_longer_retry_after_extends_the_lock_out(service: FakeIris, iris: Iris) -> None:
    service.answer(f"GET /v2/messages/6?transactionHash={EVM_TX}", 429, b"{}", retry_after="900")
    with pytest.raises(LockedOut) as caught:
        ask(iris)
    assert caught.value.retry_after == 900
