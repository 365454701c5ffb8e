"""Bodies of the order book as types: `responses.py` builds them, the documents describe them.

Members that are not named here may be added at any time.
"""

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from api.amounts import BPS, USDC, amount
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
    availableUsdc: Annotated[Decimal7, amount(USDC, "250.5", "The provider's free escrow.")]
    lockedUsdc: Annotated[Decimal7, amount(USDC, "40", "Locked by open orders.")]
    acceptedRails: Annotated[
        list[Rail], Field(description="Rails with these terms; part of the offer's identity.")
    ]
    paymentHandles: Annotated[
        dict[str, str], Field(description="Rail → payment handle, if the provider published it.")
    ]
    trustTier: Tier
    feeRateBps: Annotated[int, Field(ge=0), amount(BPS, 50, "The protocol's fee.")]
    rate: Annotated[Decimal7, amount("`currency` for 1 USDC", "0.93")]
    currency: Currency
    minAmount: Annotated[Decimal7, amount(USDC, "10", "Smallest order.")]
    maxAmount: Annotated[Decimal7, amount(USDC, "250.5", "Largest order that it accepts now.")]
    completedOrders: Count
    avgFulfillmentSeconds: Count
    lastActiveAt: Time


class RailDepth(TypedDict):
    """Depth of one rail."""

    rail: Rail
    availableUsdc: Annotated[Decimal7, amount(USDC, "250.5")]
    offerCount: Count


class DepthSummary(TypedDict):
    """Depth of the book. An offer counts on each of its rails, so rails do not add up to totals."""

    totalAvailableUsdc: Annotated[Decimal7, amount(USDC, "1200")]
    totalLockedUsdc: Annotated[Decimal7, amount(USDC, "90")]
    offerCount: Count
    byRail: list[RailDepth]


class Provider(TypedDict):
    """A liquidity provider."""

    provider: Holder
    availableUsdc: Annotated[Decimal7, amount(USDC, "250.5")]
    lockedUsdc: Annotated[Decimal7, amount(USDC, "40")]
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
    amountUsdc: Annotated[Decimal7, amount(USDC, "25")]
    fiatAmount: Annotated[Decimal7, amount("`currency`", "23.25")]
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
    releasedUsdc: NotRequired[
        Annotated[Decimal7, amount(USDC, "20", "Of a payment that covers a part of the amount.")]
    ]


Day = Annotated[
    str, Field(pattern="^[0-9]{4}-[0-9]{2}-[0-9]{2}$", description="UTC day, ISO 8601.")
]


class MarketDay(TypedDict):
    """One direction of one rail on a UTC day on which an order was opened or ended in it."""

    day: Day
    direction: Direction
    rail: Rail
    rate: Annotated[
        Decimal7 | None,
        amount("`currency` for 1 USDC", "0.93", "Over all that was released; null if nothing was."),
    ]
    volumeUsdc: Annotated[Decimal7, amount(USDC, "1250", "Released by fulfilled orders.")]
    volumeFiat: Annotated[
        Decimal7 | None,
        amount("`currency`", "1162.5", "For it; null if amounts were absurdly large."),
    ]
    openedOrders: Count
    fulfilledOrders: Count
    cancelledOrders: Count
    expiredOrders: Count


class PriceHistory(TypedDict):
    """The last 30 closed days of a currency. A market without a row on a day had no order then."""

    currency: Currency
    firstDay: Annotated[Day | None, Field(description="Null before the first closed day.")]
    lastDay: Annotated[
        Day | None, Field(description="The last day that is computed: later ones are not known.")
    ]
    days: Annotated[list[MarketDay], Field(description="By day, direction and rail.")]


class ProviderActivity(TypedDict):
    """A provider's orders that were opened from `since` on: at most the newest 1,000."""

    provider: Holder
    since: Annotated[
        Time,
        Field(
            description=(
                "30 days before the ledger, or when the oldest of the newest 1,000 orders was "
                "opened, whichever is later."
            )
        ),
    ]
    openedOrders: Count
    fulfilledOrders: Count
    cancelledOrders: Count
    expiredOrders: Count
    volumeUsdc: Annotated[Decimal7, amount(USDC, "1250", "Released by the fulfilled orders.")]
    fillRate: Annotated[
        Decimal7 | None,
        Field(description="Fulfilled orders per ended order, 0 to 1; null if none has ended."),
    ]
    medianFulfillmentSeconds: Annotated[
        Count | None,
        Field(description="From opening to settlement, the lower median; null if none settled."),
    ]
