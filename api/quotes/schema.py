"""What `/v1/quotes` shows, as types: `responses.py` makes them, the document is made of them."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from api.text_types import BaseUnitsText, Time
from api.trustlines import NeededTrustline


class FeeDetail(TypedDict):
    """A fee that is taken out of what is sent."""

    name: Literal["cctp_fast_fee", "cctp_standard_fee", "oft_fee", "service_fee"]
    amount: Annotated[BaseUnitsText, Field(description="At most; base units of `asset`.")]


class NativeFee(TypedDict):
    """A fee in a chain's own token."""

    name: Literal["lz_native_fee", "relay_gas", "deposit_sweep", "sponsored_reserve"]
    amount: Annotated[BaseUnitsText, Field(description="Smallest units: wei, stroops.")]
    chain: Annotated[str, Field(description="CAIP-2 id of the chain whose own token it is.")]


class QuoteFee(TypedDict):
    """What the transfer costs."""

    total: Annotated[BaseUnitsText, Field(description="At most; the sum of `details`.")]
    asset: Annotated[str, Field(description="What it is in: what is sent.")]
    details: list[FeeDetail]
    native_details: Annotated[
        list[NativeFee], Field(description="Carried by the user's call; a rest is refunded.")
    ]
    operator_details: Annotated[
        list[NativeFee], Field(description="About what the operator pays; not charged.")
    ]


class Quote(TypedDict):
    """A price that is promised until `expires_at`, for one transfer."""

    id: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    expires_at: Time
    sell_asset: Annotated[str, Field(description="CAIP-19, or `stellar:CODE:ISSUER`.")]
    buy_asset: Annotated[str, Field(description="CAIP-19, or `stellar:CODE:ISSUER`.")]
    sell_amount: Annotated[BaseUnitsText, Field(description="Base units of `sell_asset`.")]
    buy_amount: Annotated[BaseUnitsText, Field(description="At least; units of `buy_asset`.")]
    price: Annotated[
        str,
        Field(
            pattern=r"^(0|[1-9][0-9]*)(\.[0-9]*[1-9])?$",
            description="`buy_amount` for one sold, both in whole units; 12 significant digits.",
        ),
    ]
    fee: QuoteFee
    needs_trustline: Annotated[
        NeededTrustline | None,
        Field(description="What a deposit's owner has to open before it can be delivered."),
    ]
