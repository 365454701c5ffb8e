"""Circle's attestation service for CCTP V2 ("Iris"), as its OpenAPI document describes it.

No key is needed. 35 requests a second are allowed; who exceeds them is shut out for five minutes.
Fields of the decoded message are null wherever an address is Stellar's, so they are not read: the
message's own bytes say all of it.
"""

from dataclasses import dataclass
from decimal import Decimal

from indexer.chains.http.service import (
    HttpAnswer,
    HttpService,
    JsonFields,
    ServiceRefused,
    host_of,
    shared_limit,
)
from indexer.errors import InconsistentAnswer
from warehouse_schema.identifiers import (
    BaseUnits,
    Bytes32,
    TxHash,
    parse_bytes32,
)

REQUESTS_PER_SECOND = 5.0
"""Of the 35 allowed: other processes of ours ask as well, and a lock-out costs five minutes."""
LOCK_OUT_SECONDS = 300.0

_BURST = 5
_VERSION = 2
_NOT_FOUND = 404
_REFUSAL = 400
_NOT_YET = ("", "0x", "PENDING")


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
    """`pending_confirmations` or `complete`; other words may come."""
    delay_reason: str | None
    """`insufficient_fee`, `amount_above_max`, `insufficient_allowance_available` or another."""
    forward_state: str | None
    forward_tx: str | None
    destination_mint_tx: str | None

    @property
    def usable(self) -> bool:
        """Whether there is something to verify: the status alone is no proof of it."""
        return self.status == "complete" and bool(self.message) and bool(self.attestation)


@dataclass(frozen=True, slots=True)
class IrisMessages:
    """What the service knows of a transaction or a nonce. Nothing found is nothing yet."""

    seen: bool
    """False: it has not observed the transaction, or was asked about the wrong one."""
    messages: tuple[IrisMessage, ...]
    """In order of their logs; empty also while the transaction is seen and not processed."""
    source_tx: str | None


@dataclass(frozen=True, slots=True)
class Reattestation:
    """Whether the service took the request to attest a message anew, in its words."""

    accepted: bool
    detail: str


@dataclass(frozen=True, slots=True)
class ForwardFee:
    """What Circle asks for submitting the mint, 6 decimals."""

    low: BaseUnits
    med: BaseUnits
    high: BaseUnits


@dataclass(frozen=True, slots=True)
class BurnFee:
    """The fee of one speed on one path."""

    finality_threshold: int
    """1000 fast, 2000 standard."""
    minimum_fee_bps: Decimal
    """Of the amount; may have a fraction."""
    forward: ForwardFee | None


class Iris:
    """The service at one URL. Safe to share between threads."""

    def __init__(self, url: str, *, timeout: float = 10.0) -> None:
        self._http = HttpService(
            url,
            timeout=timeout,
            limit=shared_limit(host_of(url), REQUESTS_PER_SECOND, _BURST),
            lock_out_seconds=LOCK_OUT_SECONDS,
        )

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def messages_of_transaction(self, source_domain: int, tx_hash: TxHash) -> IrisMessages:
        """The messages of a burn transaction: `0x` hex from EVM chains, bare hex from Stellar."""
        return self._messages(source_domain, {"transactionHash": tx_hash})

    def reattest(self, nonce: Bytes32) -> Reattestation:
        """Ask for a message attested before finality to be attested as finalized."""
        answer = self._http.request("POST", f"/v2/reattest/{nonce}")
        accepted = answer.status < _REFUSAL
        fields = JsonFields(answer.body, "reattest")
        words = [fields.optional_text(key) for key in ("error", "message")]
        detail = ": ".join(word for word in words if word) or f"HTTP {answer.status}"
        return Reattestation(accepted, detail)

    def burn_fees(self, source_domain: int, destination_domain: int) -> tuple[BurnFee, ...]:
        """The fees for burning USDC here and minting it there."""
        path = f"/v2/burn/USDC/fees/{source_domain}/{destination_domain}"
        answer = self._expect_success(self._http.get(path), path)
        fees = JsonFields({"fees": answer.body}, path).objects("fees")
        return tuple(_burn_fee(fee) for fee in fees)

    def _messages(self, source_domain: int, params: dict[str, str]) -> IrisMessages:
        path = f"/v2/messages/{source_domain}"
        answer = self._http.get(path, params)
        if answer.status == _NOT_FOUND:
            self._require_own_words(answer)
            return IrisMessages(seen=False, messages=(), source_tx=None)
        body = JsonFields(self._expect_success(answer, path).body, path)
        return IrisMessages(
            seen=True,
            messages=tuple(_message(item) for item in body.objects("messages")),
            source_tx=body.optional_text("sourceTxHash"),
        )

    def _require_own_words(self, answer: HttpAnswer) -> None:
        """A 404 of the service says so in JSON; one of a wrong URL must not read as patience."""
        fields = JsonFields(answer.body, "404")
        if fields.optional_text("error") is None and fields.optional_text("message") is None:
            raise InconsistentAnswer(
                f"{self._http.host} answered 404 in words that are not its own"
            )

    def _expect_success(self, answer: HttpAnswer, path: str) -> HttpAnswer:
        if answer.status >= _REFUSAL:
            raise ServiceRefused(
                f"{self._http.host} refuses {path}: HTTP {answer.status} {answer.body!r:.200}"
            )
        return answer


def _message(item: JsonFields) -> IrisMessage:
    version = item.whole("cctpVersion")
    return IrisMessage(
        message=_bytes(item, "message"),
        attestation=_bytes(item, "attestation"),
        event_nonce=_nonce(item) if version == _VERSION else None,
        cctp_version=version,
        status=item.text("status"),
        delay_reason=item.optional_text("delayReason"),
        forward_state=item.optional_text("forwardState"),
        forward_tx=item.optional_text("forwardTxHash"),
        destination_mint_tx=item.optional_text("destinationMintTxHash"),
    )


def _bytes(item: JsonFields, key: str) -> bytes | None:
    text = item.optional_text(key)
    if text is None or text in _NOT_YET:
        return None
    try:
        if not text.startswith("0x"):
            raise ValueError("no 0x")
        return bytes.fromhex(text[2:])
    except ValueError as error:
        raise item.wrong(key, f"is not hex: {text:.40}") from error


def _nonce(item: JsonFields) -> Bytes32 | None:
    text = item.optional_text("eventNonce")
    if text is None or text in _NOT_YET:
        return None
    try:
        return parse_bytes32(text)
    except ValueError as error:
        raise item.wrong("eventNonce", "is not 32 bytes") from error


def _burn_fee(fee: JsonFields) -> BurnFee:
    forward = fee.optional_object("forwardFee")
    return BurnFee(
        finality_threshold=fee.whole("finalityThreshold"),
        minimum_fee_bps=fee.decimal("minimumFee"),
        forward=None
        if forward is None
        else ForwardFee(*(BaseUnits(forward.whole(speed)) for speed in ("low", "med", "high"))),
    )
