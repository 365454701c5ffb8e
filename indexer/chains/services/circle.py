"""Client of Circle's attestation service for CCTP V2 ("Iris"), by its OpenAPI document.

No key is needed. 35 requests a second are allowed; a client that exceeds them is locked out for
five minutes. Fields of the decoded message are null wherever an address is Stellar's, so they are
not read: the message's own bytes have all of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

from indexer.chains.http.service import (
    HttpAnswer,
    HttpService,
    JsonFields,
    ServiceRefused,
)
from indexer.errors import InconsistentAnswer
from warehouse_schema.identifiers import Bytes32, TxHash, parse_bytes32

T = TypeVar("T")

REQUESTS_PER_SECOND = 5.0
"""Of the 35 allowed: other processes of ours ask as well, and a lock-out costs five minutes."""

_BURST = 5
_VERSION = 2
_NOT_READY = ("", "0x", "PENDING")


@dataclass(frozen=True, slots=True)
class IrisMessage:
    """One message of a burn transaction."""

    message: bytes | None
    """Attested bytes; None until they are ready."""
    attestation: bytes | None
    """Signatures; None until they are ready."""
    event_nonce: Bytes32 | None
    """None until it is chosen, and for a V1 message."""
    cctp_version: int
    status: str
    """`pending_confirmations` or `complete`; others may be added."""
    delay_reason: str | None
    """`insufficient_fee`, `amount_above_max`, `insufficient_allowance_available` or another."""

    @property
    def usable(self) -> bool:
        """Whether there is something to verify: the status alone does not mean that."""
        return self.status == "complete" and bool(self.message) and bool(self.attestation)


@dataclass(frozen=True, slots=True)
class IrisMessages:
    """The service's messages of a transaction."""

    seen: bool
    """False: it has not observed the transaction yet, or the request named the wrong one."""
    messages: tuple[IrisMessage, ...]
    """In order of their logs; empty also while the transaction is seen and not processed."""


@dataclass(frozen=True, slots=True)
class Reattestation:
    """Whether the service accepted a request to attest a message again, with its answer."""

    accepted: bool
    detail: str


@dataclass(frozen=True, slots=True)
class BurnFee:
    """The fee of one speed on one path."""

    finality_threshold: int
    """1000 fast, 2000 standard."""
    minimum_fee_bps: Decimal
    """Of the amount; may have a fraction."""


class Iris(HttpService):
    """The service at one URL. Threads may share it."""

    def __init__(self, url: str, *, timeout: float = 10.0) -> None:
        super().__init__(url, timeout=timeout, per_second=REQUESTS_PER_SECOND, burst=_BURST)

    def messages_of_transaction(self, source_domain: int, tx_hash: TxHash) -> IrisMessages:
        """The messages of a burn transaction: `0x` hex from EVM chains, bare hex from Stellar."""
        path = f"/v2/messages/{source_domain}"
        answer = self.request("GET", path, {"transactionHash": tx_hash})
        if answer.status == 404:
            fields = JsonFields(answer.body, "404")
            # A 404 of the service has one of these; one of a wrong URL must not read as "not yet".
            if fields.optional_text("error") is None and fields.optional_text("message") is None:
                raise InconsistentAnswer(f"{self.host} answered 404 without `error` or `message`")
            return IrisMessages(seen=False, messages=())
        body = JsonFields(self._expect_success(answer, path).body, path)
        return IrisMessages(
            seen=True, messages=tuple(_message(item) for item in body.objects("messages"))
        )

    def reattest(self, nonce: Bytes32) -> Reattestation:
        """Request that a message attested before finality is attested as finalized."""
        answer = self.request("POST", f"/v2/reattest/{nonce}")
        fields = JsonFields(answer.body, "reattest")
        texts = [fields.optional_text(key) for key in ("error", "message")]
        detail = ": ".join(text for text in texts if text) or f"HTTP {answer.status}"
        return Reattestation(answer.status < 400, detail)

    def burn_fees(self, source_domain: int, destination_domain: int) -> tuple[BurnFee, ...]:
        """The fees for burning USDC on one domain and minting it on the other."""
        path = f"/v2/burn/USDC/fees/{source_domain}/{destination_domain}"
        answer = self._expect_success(self.request("GET", path), path)
        return tuple(
            BurnFee(fee.whole("finalityThreshold"), fee.decimal("minimumFee"))
            for fee in JsonFields({"fees": answer.body}, path).objects("fees")
        )

    def _expect_success(self, answer: HttpAnswer, path: str) -> HttpAnswer:
        if answer.status >= 400:
            raise ServiceRefused(
                f"{self.host} refuses {path}: HTTP {answer.status} {answer.body!r:.200}"
            )
        return answer


def _message(item: JsonFields) -> IrisMessage:
    version = item.whole("cctpVersion")
    nonce = _parse(item, "eventNonce", parse_bytes32, "32 bytes") if version == _VERSION else None
    return IrisMessage(
        message=_parse(item, "message", _hex, "hex"),
        attestation=_parse(item, "attestation", _hex, "hex"),
        event_nonce=nonce,
        cctp_version=version,
        status=item.text("status"),
        delay_reason=item.optional_text("delayReason"),
    )


def _parse(item: JsonFields, key: str, parse: Callable[[str], T], what: str) -> T | None:
    """A field that is absent, empty or `PENDING` until the message is ready."""
    text = item.optional_text(key)
    if text is None or text in _NOT_READY:
        return None
    try:
        return parse(text)
    except ValueError as error:
        raise item.wrong(key, f"is not {what}: {text:.40}") from error


def _hex(text: str) -> bytes:
    if not text.startswith("0x"):
        raise ValueError("no 0x")
    return bytes.fromhex(text[2:])
