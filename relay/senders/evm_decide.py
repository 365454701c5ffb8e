"""Decisions about a slot on an EVM chain, from its row and the account state. Pure.

Until the chain's decision about a nonce is final, the relay sends the same bytes again, or bytes
with the same nonce and a higher fee, and never another nonce for the same job. So at most one
attempt takes effect, no matter when a process is killed.
"""

from collections.abc import Collection
from dataclasses import replace

import rlp

from indexer.chains.evm.account_state import GasPrice
from relay.nonces import (
    AccountState,
    NextStep,
    NonceSlot,
    SlotStep,
    final_outcome,
)
from relay.senders.evm_signing import GasBid
from warehouse_schema.identifiers import TxHash, Wei

MAX_ATTEMPTS = 6
"""Per slot: five replacements raise a bid by at least 61 %."""
RESEND_SECONDS = 20.0
REPLACE_SECONDS = 60.0
"""Minimum age of an attempt that is replaced, together with `REPLACE_BLOCKS` of its chain."""
REPLACE_BLOCKS = 5
_MAX_OVERBID = 3
"""A bid this many times the current price is not what delays a transaction."""


def next_step(
    slot: NonceSlot,
    state: AccountState,
    price: GasPrice,
    *,
    finalized: Collection[TxHash],
    block_seconds: float,
) -> NextStep:
    """Decide about a slot; `finalized` are transactions in ingested, finalized blocks."""
    included = [each for each in slot.attempts if each.tx in state.inclusions]
    for attempt in included:
        if attempt.tx in finalized:
            inclusion = state.inclusions[attempt.tx]
            close = final_outcome(attempt, inclusion)
            # The value counts as spent, though some of it may have come back.
            value = _fields(attempt.raw)[6] if inclusion.succeeded else 0
            return replace(close, spent=Wei(close.spent + value))
    if included:
        return SlotStep.WAIT
    if state.next_number > slot.number:
        return SlotStep.CHECK_NONCE
    newest = slot.newest
    if newest.sent_ago is None:
        return SlotStep.SEND
    is_old = newest.signed_ago > max(REPLACE_SECONDS, REPLACE_BLOCKS * block_seconds)
    is_next = state.furthest_number >= slot.number
    may_replace = is_next and len(slot.attempts) < MAX_ATTEMPTS
    if is_old and may_replace and raised_bid(bid_of(newest.raw), price) is not None:
        return SlotStep.REPLACE
    return SlotStep.SEND if newest.sent_ago > RESEND_SECONDS else SlotStep.WAIT


def first_bid(price: GasPrice) -> GasBid:
    """Bid of a first attempt: sufficient until the base fee has doubled."""
    return GasBid(Wei(2 * price.base + price.tip), price.tip)


def raised_bid(old: GasBid, price: GasPrice) -> GasBid | None:
    """Bid that replaces an old one; None while the old one is far above the current price.

    Nodes accept a replacement when both figures are higher by a tenth.
    """
    asked = first_bid(price)
    if old.most >= _MAX_OVERBID * asked.most and old.tip >= _MAX_OVERBID * asked.tip:
        return None
    most = max(old.most + old.most // 10 + 1, asked.most)
    tip = max(old.tip + old.tip // 10 + 1, asked.tip)
    return GasBid(Wei(max(most, tip)), Wei(tip))


def bid_of(raw: bytes) -> GasBid:
    """Bid inside a signed transaction."""
    fields = _fields(raw)
    return GasBid(most=Wei(fields[3]), tip=Wei(fields[2]))


def _fields(raw: bytes) -> list[int]:
    """First seven fields of an EIP-1559 transaction: chain, nonce, tip, max fee, gas, to, value."""
    return [int.from_bytes(field, "big") for field in rlp.decode(raw[1:])[:7]]
