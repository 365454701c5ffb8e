"""What an attested message is worth, and what a service's words say of a burn. Pure."""

from collections.abc import Sequence
from typing import TypeAlias

from indexer.bridges.cctp.attestation import check_signatures, strip_attestation
from indexer.bridges.cctp.events import MessageSent
from indexer.bridges.cctp.message import CctpMessage, attestation_digest, burn_key, parse_message
from indexer.chains.services.circle import IrisMessage, IrisMessages
from indexer.chains.services.messages import Attestation, MessageStatus, burn_id
from indexer.config.networks import Network
from indexer.errors import Undecodable
from indexer.facts.messages import printable_line
from indexer.movements.polls import WaitingMessage
from warehouse_schema.identifiers import EvmAddress, TxHash, bytes32

_FAST_THRESHOLD = 1000
_NO_NONCE = bytes32(bytes(32))

_Words: TypeAlias = tuple[str, str | None]
"""Status and detail."""


def assess_message(
    network: Network, wait: WaitingMessage, sent: Sequence[MessageSent], item: IrisMessage
) -> Attestation | None:
    """What an attested message is worth. Pure.

    `sent` are the messages that the transaction emitted. None when there is nothing to verify yet,
    and for somebody's own message that is no burn.
    """
    if not item.usable or item.message is None or item.attestation is None:
        return None
    parsed = _parsed(item.message)
    emitted = {event.message for event in sent}
    is_ours = parsed is not None and strip_attestation(item.message) in emitted
    if is_ours and parsed is not None and parsed.body is None:
        return None
    signing = check_signatures(
        item.message, item.attestation, network.attesters, network.attestation_threshold
    )
    refusal = signing.refusal
    if not is_ours:
        refusal = "the message is none that the transaction emitted"
    elif parsed is not None and item.event_nonce not in (None, parsed.nonce):
        refusal = f"the service calls it {item.event_nonce}, the message {parsed.nonce}"
    return _attestation(wait, item, parsed, sent[0].source_domain, signing.attesters, refusal)


def _attestation(
    wait: WaitingMessage,
    item: IrisMessage,
    parsed: CctpMessage | None,
    source_domain: int,
    attesters: tuple[EvmAddress, ...],
    refusal: str | None,
) -> Attestation:
    message, body = item.message or b"", None if parsed is None else parsed.body
    nonce = (item.event_nonce or _NO_NONCE) if parsed is None else parsed.nonce
    return Attestation(
        source_domain=source_domain,
        nonce=nonce,
        message_hash=bytes32(attestation_digest(message)),
        source_chain=wait.chain,
        source_tx=TxHash(wait.subject),
        burn_key=None
        if parsed is None
        else burn_key(
            parsed.source_domain, parsed.destination_domain, parsed.sender, parsed.raw_body
        ),
        message=message,
        attestation=item.attestation or b"",
        status=printable_line(item.status),
        finality_threshold_executed=None if parsed is None else parsed.finality_threshold_executed,
        fee_executed=None if body is None else body.fee_executed,
        expiration_block=None if body is None else body.expiration_block,
        attesters=attesters,
        refusal=refusal,
    )


def _parsed(message: bytes) -> CctpMessage | None:
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
    """What the service says of each burn of the transaction, by `burn_id`; None for nothing.

    Messages are listed in order of their logs. Where their number is another than ours, nobody can
    say which is which.
    """
    said: dict[str, MessageStatus | None] = {}
    is_listed = len(messages) == len(sent)
    for number, event in enumerate(sent):
        if event.burn_key is None:
            continue
        words: _Words | None = None
        if not messages:
            words = ("seen, not processed yet" if answer.seen else "not seen yet", None)
        elif is_listed:
            words = _words(wait, messages[number], findings[number], fresh)
        place = burn_id(event.seen)
        said[place] = (
            None if words is None else MessageStatus("iris", place, event.burn_key, *words)
        )
    return said


def _words(
    wait: WaitingMessage,
    item: IrisMessage,
    finding: Attestation | None,
    fresh: Sequence[Attestation],
) -> _Words | None:
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
    """Whether a burn asks to be attested before it is final."""
    parsed = _parsed(event.message)
    return parsed is not None and parsed.min_finality_threshold <= _FAST_THRESHOLD
