"""Response bodies of `/v1/routes`."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from api.amounts import BPS, amount
from api.text_types import BaseUnitsText
from indexer.config.routes import Direction, FundingMode, Mechanism, QuotedFee, RouteId

_ASSET = "base units of `asset`"


class RouteFee(TypedDict):
    """Fees of a route."""

    service_fee_bps: Annotated[int, Field(ge=0), amount(BPS, 0, "Of the sent amount.")]
    quoted: Annotated[list[QuotedFee], Field(description="Further fees; a quote has the amounts.")]


class RouteEnd(TypedDict):
    """A source or destination chain of a route."""

    chain: Annotated[str, Field(description="CAIP-2 id.")]
    asset: Annotated[str, Field(description="CAIP-19 id.")]
    min_amount: Annotated[BaseUnitsText, amount(_ASSET, "1000000")]
    max_amount: Annotated[BaseUnitsText, amount(_ASSET, "20000000")]
    amount_step: Annotated[BaseUnitsText, amount(_ASSET, "1", "Amounts must be multiples of it.")]
    funding_modes: list[FundingMode]
    expected_seconds: Annotated[
        int, Field(ge=0, description="Usual time on this chain; add both chains'.")
    ]
    available: Annotated[
        bool, Field(description="False while the chain's ingestion or relay is unhealthy.")
    ]


class Route(TypedDict):
    """A coin and a direction, with its chains."""

    id: RouteId
    direction: Direction
    mechanism: Mechanism
    enabled: Annotated[bool, Field(description="Whether the network has chains on both sides.")]
    fee: RouteFee
    source_chains: list[RouteEnd]
    dest_chains: list[RouteEnd]


class Routes(TypedDict):
    """All routes."""

    routes: list[Route]
