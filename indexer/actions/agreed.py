"""Terms that the owner of a transfer signs, and how a submission differs from them."""

from dataclasses import dataclass

from indexer.movements.fold import STELLAR_PER_SHARED
from indexer.transfers.inputs import TransferTerms
from warehouse_schema.identifiers import AssetId, BaseUnits, NativeAmount


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement(TransferTerms):
    """A transfer's terms, and the promises of its quote."""

    source_asset: AssetId
    dest_asset: AssetId
    amount_out: BaseUnits
    """Minimum that arrives, destination chain base units."""
    finality_threshold: int | None
    """Of a CCTP burn: 1000 fast, 2000 standard; None without a burn."""
    native_fee: NativeAmount | None
    """LayerZero fee of an OFT send, in the source chain's native token; None without a send."""

    @property
    def least_sent(self) -> BaseUnits:
        """Minimum to arrive of a deposit, in the source's 6 decimals.

        Raises `ValueError` if it is no whole number or exceeds the payment.
        """
        least, rest = divmod(self.amount_out, STELLAR_PER_SHARED)
        if rest or not 0 < least <= self.amount_in:
            raise ValueError(f"{self.amount_out} cannot be what arrives of {self.amount_in}")
        return BaseUnits(least)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why a submitted transaction is none of the issued ones."""

    fields: tuple[str, ...]
    """Of an EVM transaction `status`, `contract`, or the fields that differ in the nearest log; on
    Stellar `signed_xdr`, `transaction`, `signatures` or `time`."""
    message: str
