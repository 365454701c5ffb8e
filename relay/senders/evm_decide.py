"""What comes next for a slot on an EVM chain, given rows and chain. Pure.

Until the chain has finally decided about a number, the same bytes are sent again and again, or ones
with the same number and a higher fee: never another number for the same purpose. So whatever is
killed when, at most one of all that was signed takes effect.
"""

from collections.abc import Collection
from dataclasses import replace

import rlp

from indexer.chains.evm.account_state import GasPrice
from relay.nonces import (
    AccountState,
    Attempt,
    CheckEffect,
    CloseSlot,
    Inclusion,
    NextStep,
    NonceSlot,
    ReplaceAttempt,
    SendAttempt,
    WaitForChain,
    final_outcome,
)
from relay.senders.evm_signing import GasBid
from warehouse_schema.identifiers import TxHash

MAX_ATTEMPTS = 6
"""Of a slot: five replacements raise a bid by 61 % at least."""
RESEND_SECONDS = 20.0
REPLACE_SECONDS = 60.0
"""Least age of an attempt that is replaced; and `REPLACE_BLOCKS` of its chain."""
REPLACE_BLOCKS = 5
_OUTBID = 3
"""A bid of so many times what the chain asks for is not what a transaction waits for."""


def next_step(
    slot: NonceSlot,
    sight: AccountState,
    price: GasPrice,
    *,
    buried: Collection[TxHash],
    block_seconds: float,
) -> NextStep:
    """What to do about a slot.

    `buried` are the transactions in blocks that we ingested and that are final.
    """
    included = [each for each in slot.attempts if each.tx in sight.inclusions]
    for attempt in included:
        if attempt.tx in buried:
            return _close(attempt, sight.inclusions[attempt.tx])
    if included:
        return WaitForChain()
    if sight.next_number > slot.number:
        return CheckEffect()
    newest = slot.newest
    if newest.sent_ago is None:
        return SendAttempt()
    is_old = newest.signed_ago > max(REPLACE_SECONDS, REPLACE_BLOCKS * block_seconds)
    is_next = sight.furthest_number >= slot.number
    may_replace = is_next and len(slot.attempts) < MAX_ATTEMPTS
    if is_old and may_replace and raised_bid(bid_of(newest.raw), price) is not None:
        return ReplaceAttempt()
    return SendAttempt() if newest.sent_ago > RESEND_SECONDS else WaitForChain()


def _close(attempt: Attempt, inclusion: Inclusion) -> CloseSlot:
    """What was carried counts as spent, though some of it may have come back."""
    close = final_outcome(attempt, inclusion)
    carried = value_of(attempt.raw) if inclusion.succeeded else 0
    return replace(close, spent=close.spent + carried)


def first_bid(price: GasPrice) -> GasBid:
    """What to bid at first: good until the base fee has doubled."""
    return GasBid(2 * price.base + price.tip, price.tip)


def raised_bid(old: GasBid, price: GasPrice) -> GasBid | None:
    """A bid that replaces an old one; None while the old one is far above what is asked for.

    Nodes take a replacement whose both figures are higher by a tenth.
    """
    asked = first_bid(price)
    if old.most >= _OUTBID * asked.most and old.tip >= _OUTBID * asked.tip:
        return None
    most, tip = max(_more(old.most), asked.most), max(_more(old.tip), asked.tip)
    return GasBid(max(most, tip), tip)


def _more(wei: int) -> int:
    return wei + wei // 10 + 1


def bid_of(raw: bytes) -> GasBid:
    """The bid inside a signed transaction."""
    return GasBid(_number(raw, 3), _number(raw, 2))


def value_of(raw: bytes) -> int:
    """Wei that a signed transaction carries."""
    return _number(raw, 6)


def _number(raw: bytes, place: int) -> int:
    return int.from_bytes(rlp.decode(raw[1:])[place], "big")
