"""Verification of attested messages, and statuses of burns from a service's answer. Pure."""

from collections.abc import Sequence

from indexer.bridges.cctp.attestation import check_signatures
from indexer.bridges.cctp.events import MessageSent
from indexer.bridges.cctp.message import (
    CctpMessage,
    attestation_digest,
    burn_key,
    parse_message,
    source_bytes,
)
from indexer.chains.services.circle import IrisMessage, IrisMessages
from indexer.chains.services.messages import Attestation, MessageStatus, burn_id
from indexer.config.networks import Network
from indexer.errors import Undecodable
from indexer.facts.messages import printable_line
from indexer.movements.polls import WaitingMessage
from warehouse_schema.identifiers import TxHash, bytes32

_FAST_THRESHOLD = 1000
_NO_NONCE = bytes32(bytes(32))


def assess_message(
    network: Network, wait: WaitingMessage, sent: Sequence[MessageSent], item: IrisMessage
) -> Attestation | None:
    """The attestation of a message, verified or with the reason of its refusal.

    `sent` are the messages that the transaction emitted. None when there is nothing to verify yet,
    and for a message that is not a burn.
    """
    if not item.usable or item.message is None or item.attestation is None:
        return None
    parsed = _parse(item.message)
    body = None if parsed is None else parsed.body
    is_ours = parsed is not None and source_bytes(item.message) in {event.message for event in sent}
    if is_ours and body is None:
        return None
    signing = check_signatures(
        item.message, item.attestation, network.attesters, network.attestation_threshold
    )
    refusal = signing.refusal
    if not is_ours:
        refusal = "the message is none that the transaction emitted"
    elif parsed is not None and item.event_nonce not in (None, parsed.nonce):
        refusal = f"the service calls it {item.event_nonce}, the message {parsed.nonce}"
    return Attestation(
        source_domain=sent[0].source_domain,
        nonce=(item.event_nonce or _NO_NONCE) if parsed is None else parsed.nonce,
        message_hash=bytes32(attestation_digest(item.message)),
        source_chain=wait.chain,
        source_tx=TxHash(wait.subject),
        burn_key=None
        if parsed is None
        else burn_key(
            parsed.source_domain, parsed.destination_domain, parsed.sender, parsed.raw_body
        ),
        message=item.message,
        attestation=item.attestation,
        status=printable_line(item.status),
        finality_threshold_executed=None if parsed is None else parsed.finality_threshold_executed,
        fee_executed=None if body is None else body.fee_executed,
        expiration_block=None if body is None else body.expiration_block,
        attesters=signing.attesters,
        refusal=refusal,
    )


def _parse(message: bytes) -> CctpMessage | None:
    try:
        return parse_message(message)
    except Undecodable:
        return None


def burn_statuses(
    wait: WaitingMessage,
    answer: IrisMessages,
    sent: Sequence[MessageSent],
    messages: Sequence[IrisMessage],
    findings: Sequence[Attestation | None],
    fresh: Sequence[Attestation],
) -> dict[str, MessageStatus | None]:
    """Status of each burn of the transaction by `burn_id`; None for no status.

    The service lists messages in the order of their logs. If their number differs from ours, they
    cannot be assigned to burns.
    """
    found: dict[str, MessageStatus | None] = {}
    for number, event in enumerate(sent):
        if event.burn_key is None:
            continue
        status: tuple[str, str | None] | None = None
        if not messages:
            status = ("seen, not processed yet" if answer.seen else "not seen yet", None)
        elif len(messages) == len(sent):
            status = _status_and_detail(wait, messages[number], findings[number], fresh)
        key = burn_id(event.seen)
        found[key] = None if status is None else MessageStatus("iris", key, event.burn_key, *status)
    return found


def _status_and_detail(
    wait: WaitingMessage,
    item: IrisMessage,
    finding: Attestation | None,
    fresh: Sequence[Attestation],
) -> tuple[str, str | None] | None:
    if finding is None:
        reason = printable_line(item.delay_reason or "") or None
        if item.status == "complete":
            reason = "without a message and attestation to use"
        return printable_line(item.status), reason
    if finding.refusal is not None:
        return "unverified", finding.refusal
    if finding.nonce in wait.expired and finding not in fresh:
        return "expired", "a new attestation was asked for"
    return None


def asks_for_fast(event: MessageSent) -> bool:
    """True for a burn that asks to be attested before it is final."""
    parsed = _parse(event.message)
    return parsed is not None and parsed.min_finality_threshold <= _FAST_THRESHOLD
