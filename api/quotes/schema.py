"""Response bodies of `/v1/quotes`."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from api.amounts import amount
from api.text_types import BaseUnitsText, Time
from api.trustlines import NeededTrustline

_OF_FEE = "base units of the fee's `asset`"


class FeeDetail(TypedDict):
    """A fee that is deducted from the sent amount."""

    name: Literal["cctp_fast_fee", "cctp_standard_fee", "oft_fee", "service_fee"]
    amount: Annotated[BaseUnitsText, amount(_OF_FEE, "1560", "Maximum.")]


class NativeFee(TypedDict):
    """A fee in a chain's native token."""

    name: Literal["lz_native_fee", "relay_gas", "deposit_sweep", "sponsored_reserve"]
    amount: Annotated[
        BaseUnitsText, amount("wei on EVM chains, stroops on Stellar", "43000000000000")
    ]
    chain: Annotated[str, Field(description="CAIP-2 id of the chain.")]


class QuoteFee(TypedDict):
    """The fees of a transfer."""

    total: Annotated[BaseUnitsText, amount(_OF_FEE, "1560", "Maximum; the sum of `details`.")]
    asset: Annotated[str, Field(description="The sent asset.")]
    details: list[FeeDetail]
    native_details: Annotated[
        list[NativeFee], Field(description="Value of the user's call; the excess is refunded.")
    ]
    operator_details: Annotated[
        list[NativeFee], Field(description="Estimated costs of the operator; not charged.")
    ]


class Quote(TypedDict):
    """A price for one transfer, guaranteed until `expires_at`."""

    id: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    expires_at: Time
    sell_asset: Annotated[str, Field(description="CAIP-19, or `stellar:CODE:ISSUER`.")]
    buy_asset: Annotated[str, Field(description="CAIP-19, or `stellar:CODE:ISSUER`.")]
    sell_amount: Annotated[BaseUnitsText, amount("base units of `sell_asset`", "10000000")]
    buy_amount: Annotated[
        BaseUnitsText, amount("base units of `buy_asset`", "99984400", "Minimum that arrives.")
    ]
    price: Annotated[
        str,
        Field(pattern=r"^(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$"),
        amount(
            "whole tokens that arrive for 1 that is sent",
            "0.999844",
            "`buy_amount` by `sell_amount`; 12 significant digits.",
        ),
    ]
    fee: QuoteFee
    needs_trustline: Annotated[
        NeededTrustline | None,
        Field(description="Trustline that a deposit's owner must open before the delivery."),
    ]
