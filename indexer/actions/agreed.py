"""What a transfer's owner is held to: what he signs says this and nothing else."""

from dataclasses import dataclass

from indexer.movements.fold import STELLAR_PER_SHARED
from indexer.transfers.inputs import TransferTerms
from warehouse_schema.identifiers import BaseUnits


@dataclass(frozen=True, slots=True)
class Agreement:
    """A transfer's terms, and what its quote promised beside them."""

    terms: TransferTerms
    amount_out: BaseUnits
    """Least that arrives, destination chain base units."""
    finality_threshold: int | None
    """What a CCTP burn asks for: 1000 fast, 2000 standard; None without a burn."""
    native_fee: BaseUnits | None
    """What an OFT send carries for LayerZero, in the source chain's native token; None without."""

    @property
    def least_sent(self) -> BaseUnits:
        """Of a deposit: what has to arrive, in the source's 6 decimals.

        Raises `ValueError` when that is no whole number, or more than is paid: no quote of ours.
        """
        least, rest = divmod(self.amount_out, STELLAR_PER_SHARED)
        if rest or not 0 < least <= self.terms.amount_in:
            raise ValueError(f"{self.amount_out} cannot be what arrives of {self.terms.amount_in}")
        return BaseUnits(least)
