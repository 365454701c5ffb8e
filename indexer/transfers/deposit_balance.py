"""The money at a deposit address: received, moved on, refunded, owed. Pure.

Of every token, received = swept + returned + held; of what is held, `owed` has to go back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from indexer.transfers.inputs import ChainPosition, MatchedMovement, Payment, TransferInputs
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
    """Has to go back, also below the minimum of an automatic refund."""

    @property
    def held(self) -> BaseUnits:
        """The balance, as far as the chain was read."""
        return BaseUnits(max(0, self.received - self.swept - self.returned))


@dataclass(frozen=True, slots=True)
class DepositBalance:
    """All tokens at a deposit address, the transfer's own first."""

    lines: tuple[TokenBalance, ...]
    funded: ChainPosition | None
    """The payment that made up the amount, if the amount is held now or was moved on."""
    returned: tuple[Payment, ...]

    @property
    def own(self) -> TokenBalance:
        """The transfer's own token."""
        return self.lines[0]

    def owes(self, minimum: BaseUnits) -> bool:
        """Whether some token is owed with at least this amount."""
        return any(line.owed >= minimum > 0 for line in self.lines)

    def holds(self, minimum: BaseUnits) -> bool:
        """Whether some token is held with at least this amount, owed or not."""
        return any(line.held >= minimum > 0 for line in self.lines)


def compute_balance(
    inputs: TransferInputs, matched: Sequence[MatchedMovement], *, is_reserved: bool
) -> DepositBalance:
    """The balance after all inputs. `is_reserved`: the amount is still to be moved on, not owed."""
    terms = inputs.terms
    paid, returned = sorted(inputs.paid), sorted(inputs.returned)
    others = sorted({each.token for each in (*paid, *returned)} - {terms.source_token})
    lines: list[TokenBalance] = []
    for token in (terms.source_token, *others):
        is_own = token == terms.source_token
        received = sum(each.amount for each in paid if each.token == token)
        swept = terms.amount_in * len(matched) if is_own else 0
        back = sum(each.amount for each in returned if each.token == token)
        reserved = terms.amount_in if is_own and is_reserved else 0
        owed = max(0, max(0, received - swept - back) - reserved)
        lines.append(
            TokenBalance(
                token, BaseUnits(received), BaseUnits(swept), BaseUnits(back), BaseUnits(owed)
            )
        )
    funded, total = None, 0
    if matched or lines[0].held >= terms.amount_in:
        for each in paid:
            total += each.amount if each.token == terms.source_token else 0
            if total >= terms.amount_in:
                funded = each.place
                break
    return DepositBalance(tuple(lines), funded, tuple(returned))


def settling_refund(inputs: TransferInputs, closed_at: UnixSeconds) -> ChainPosition | None:
    """The refund after which nothing was owed any more; None before it.

    It is ours, or it came after the close and returned more than dust: anyone may pay dust and
    have it refunded. Later payments are owed again; the transfer stays refunded.
    """
    ours = {each.tx for each in inputs.attempts if each.purpose == "refund"}
    minimum = inputs.terms.min_refund
    held: dict[Address, int] = {}
    flows = sorted(
        [(each.place, each.token, each.amount) for each in inputs.paid]
        + [(each.place, each.token, -each.amount) for each in inputs.returned]
    )
    for place, token, amount in flows:
        was_due = any(each >= minimum for each in held.values())
        held[token] = held.get(token, 0) + amount
        is_due = any(each >= minimum for each in held.values())
        counts = place.tx in ours or (was_due and place.at >= closed_at)
        if amount < 0 and counts and not is_due:
            return place
    return None
