"""The money at a deposit address: what came, what was carried on, what went back. Pure.

Nothing is ever kept silently: of every token, received = carried on + returned + held, and of what
is held `owed` has to go back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from indexer.transfers.inputs import (
    ChainPosition,
    MatchedMovement,
    Payment,
    TransferInputs,
    TransferTerms,
)
from warehouse_schema.identifiers import Address, BaseUnits, UnixSeconds


@dataclass(frozen=True, slots=True)
class TokenBalance:
    """One token at a deposit address, base units."""

    token: Address
    received: BaseUnits
    swept: BaseUnits
    """Burned or sent on towards the owner."""
    returned: BaseUnits
    owed: BaseUnits
    """Has to go back, by itself or below the least that does."""

    @property
    def held(self) -> BaseUnits:
        """What is there, as far as all of it was read."""
        return BaseUnits(max(0, self.received - self.swept - self.returned))


@dataclass(frozen=True, slots=True)
class DepositBalance:
    """All tokens at a deposit address, that of the transfer first."""

    lines: tuple[TokenBalance, ...]
    funded: ChainPosition | None
    """The payment with which the amount was there, if it is there now or was carried on."""
    returned: tuple[Payment, ...]

    @property
    def own(self) -> TokenBalance:
        """The line of the transfer's own token."""
        return self.lines[0]

    def owes(self, least: BaseUnits) -> bool:
        """Whether at least so much is owed in some token."""
        return any(line.owed >= least > 0 for line in self.lines)

    def holds(self, least: BaseUnits) -> bool:
        """Whether at least so much of some token is there, owed or not."""
        return any(line.held >= least > 0 for line in self.lines)


def compute_balance(
    evidence: TransferInputs, carried: Sequence[MatchedMovement], *, is_reserved: bool
) -> DepositBalance:
    """What the till says once all of `evidence` is counted.

    `is_reserved`: the amount is still meant to be carried on, so it is not owed.
    """
    terms = evidence.terms
    paid, returned = sorted(evidence.paid), sorted(evidence.returned)
    others = sorted({each.token for each in (*paid, *returned)} - {terms.source_token})
    lines = tuple(
        _line(terms, token, paid, returned, len(carried), is_reserved=is_reserved)
        for token in (terms.source_token, *others)
    )
    is_there = bool(carried) or lines[0].held >= terms.amount_in
    return DepositBalance(lines, _reached(terms, paid) if is_there else None, tuple(returned))


def _line(
    terms: TransferTerms,
    token: Address,
    paid: Sequence[Payment],
    returned: Sequence[Payment],
    sweeps: int,
    *,
    is_reserved: bool,
) -> TokenBalance:
    is_own = token == terms.source_token
    line = TokenBalance(
        token=token,
        received=_sum(paid, token),
        swept=BaseUnits(terms.amount_in * sweeps if is_own else 0),
        returned=_sum(returned, token),
        owed=BaseUnits(0),
    )
    reserve = terms.amount_in if is_own and is_reserved else 0
    owed = BaseUnits(max(0, line.held - reserve))
    return TokenBalance(line.token, line.received, line.swept, line.returned, owed)


def _sum(payments: Sequence[Payment], token: Address) -> BaseUnits:
    return BaseUnits(sum(each.amount for each in payments if each.token == token))


def _reached(terms: TransferTerms, paid: Sequence[Payment]) -> ChainPosition | None:
    """The payment whose arrival made the sum reach the amount."""
    total = 0
    for each in paid:
        if each.token == terms.source_token:
            total += each.amount
            if total >= terms.amount_in:
                return each.place
    return None


def settling_refund(evidence: TransferInputs, closed_at: UnixSeconds) -> ChainPosition | None:
    """The refund after which nothing was owed any more; None before it.

    A refund settles when it is ours, or came after the transfer was closed and gave back more than
    dust: anybody may pay dust and have it sent back. What is paid after it is owed again, and
    changes nothing about the transfer's having been refunded.
    """
    ours = {each.tx for each in evidence.attempts if each.purpose == "refund"}
    held: dict[Address, int] = {}
    flows = sorted(
        [(each.place, each.token, each.amount) for each in evidence.paid]
        + [(each.place, each.token, -each.amount) for each in evidence.returned]
    )
    for place, token, amount in flows:
        was_due = any(each >= evidence.terms.min_refund for each in held.values())
        held[token] = held.get(token, 0) + amount
        is_due = any(each >= evidence.terms.min_refund for each in held.values())
        counts = place.tx in ours or (was_due and place.at >= closed_at)
        if amount < 0 and counts and not is_due:
            return place
    return None
