"""Response bodies of `/v1/quotes`."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from api.text_types import BaseUnitsText, Time
from api.trustlines import NeededTrustline


class FeeDetail(TypedDict):
    """A fee that is deducted from the sent amount."""

    name: Literal["cctp_fast_fee", "cctp_standard_fee", "oft_fee", "service_fee"]
    amount: Annotated[BaseUnitsText, Field(description="Maximum; base units of `asset`.")]


class NativeFee(TypedDict):
    """A fee in a chain's native token."""

    name: Literal["lz_native_fee", "relay_gas", "deposit_sweep", "sponsored_reserve"]
    amount: Annotated[BaseUnitsText, Field(description="In wei or stroops.")]
    chain: Annotated[str, Field(description="CAIP-2 id of the chain.")]


class QuoteFee(TypedDict):
    """The fees of a transfer."""

    total: Annotated[BaseUnitsText, Field(description="Maximum; the sum of `details`.")]
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
    sell_amount: Annotated[BaseUnitsText, Field(description="Base units of `sell_asset`.")]
    buy_amount: Annotated[BaseUnitsText, Field(description="Minimum; base units of `buy_asset`.")]
    price: Annotated[
        str,
        Field(
            pattern=r"^(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$",
            description="`buy_amount` by `sell_amount`, in whole units; 12 significant digits.",
        ),
    ]
    fee: QuoteFee
    needs_trustline: Annotated[
        NeededTrustline | None,
        Field(description="Trustline that a deposit's owner must open before the delivery."),
    ]
