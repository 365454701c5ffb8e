"""Bodies of the order book as types: `responses.py` builds them, the documents describe them.

Members that are not named here may be added at any time.
"""

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from api.text_types import Decimal7, Hash, Holder, Time
from indexer.market.escrow_events import OrderDirection as BookDirection
from indexer.orderbook.orders import OrderStatus

Rail = Annotated[str, Field(description="A payment rail, such as `revolut`.")]
Currency = Annotated[str, Field(description="ISO 4217 code.")]
Direction = Annotated[
    BookDirection, Field(description="`onramp`: the taker buys USDC. `offramp`: sells it.")
]
Tier = Annotated[
    int,
    Field(
        ge=0,
        description=(
            "How payments on the rail are verified: 0 manually, 1 by one attestor, 2 by an enclave "
            "or several witnesses, 3 by a proof that the contract checks."
        ),
    ),
]
Count = Annotated[int, Field(ge=0)]


class Offer(TypedDict):
    """An offer that can be taken now."""

    provider: Holder
    direction: Direction
    availableUsdc: Annotated[Decimal7, Field(description="The provider's free escrow.")]
    lockedUsdc: Annotated[Decimal7, Field(description="Locked by open orders.")]
    acceptedRails: Annotated[
        list[Rail], Field(description="Rails with these terms; part of the offer's identity.")
    ]
    paymentHandles: Annotated[
        dict[str, str], Field(description="Rail → payment handle, if the provider published it.")
    ]
    trustTier: Tier
    feeRateBps: Annotated[int, Field(ge=0, description="The protocol's fee, in basis points.")]
    rate: Annotated[Decimal7, Field(description="Fiat for 1 USDC.")]
    currency: Currency
    minAmount: Annotated[Decimal7, Field(description="Smallest order, in USDC.")]
    maxAmount: Annotated[Decimal7, Field(description="Largest order that it accepts now.")]
    completedOrders: Count
    avgFulfillmentSeconds: Count
    lastActiveAt: Time


class RailDepth(TypedDict):
    """Depth of one rail."""

    rail: Rail
    availableUsdc: Decimal7
    offerCount: Count


class DepthSummary(TypedDict):
    """Depth of the book. An offer counts on each of its rails, so rails do not add up to totals."""

    totalAvailableUsdc: Decimal7
    totalLockedUsdc: Decimal7
    offerCount: Count
    byRail: list[RailDepth]


class Provider(TypedDict):
    """A liquidity provider."""

    provider: Holder
    availableUsdc: Decimal7
    lockedUsdc: Decimal7
    completedOrders: Count
    avgFulfillmentSeconds: Count
    acceptedRails: list[Rail]
    activeIntents: Count


class Order(TypedDict):
    """An order (intent)."""

    intentId: Hash
    buyer: Annotated[Holder, Field(description="The taker.")]
    provider: Holder
    direction: Direction
    rail: Rail
    currency: Currency
    amountUsdc: Decimal7
    fiatAmount: Decimal7
    status: OrderStatus
    trustTier: Tier
    createdAt: Time
    expiresAt: Time
    nullifier: NotRequired[
        Annotated[Hash, Field(description="Nullifier of the proof, if a proof settled it.")]
    ]
    txHash: NotRequired[
        Annotated[Hash, Field(description="Transaction that settled it, once settled.")]
    ]
