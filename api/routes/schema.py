"""What `/v1/routes` shows, as types: `responses.py` makes them, the document is made of them."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from api.text_types import BaseUnitsText
from indexer.config.routes import Direction, FundingMode, Mechanism, QuotedFee, RouteId


class RouteFee(TypedDict):
    """What a quote on the route adds up."""

    service_fee_bps: Annotated[int, Field(ge=0, description="Of the amount sent.")]
    quoted: Annotated[list[QuotedFee], Field(description="Fees of others, told by a quote.")]


class RouteEnd(TypedDict):
    """A chain at which the route begins or ends."""

    chain: Annotated[str, Field(description="CAIP-2 id.")]
    asset: Annotated[str, Field(description="CAIP-19 id.")]
    min_amount: BaseUnitsText
    max_amount: BaseUnitsText
    amount_step: Annotated[BaseUnitsText, Field(description="Amounts are multiples of it.")]
    funding_modes: list[FundingMode]
    expected_seconds: Annotated[
        int, Field(ge=0, description="Usually spent on this side; the two sides add up.")
    ]
    available: Annotated[
        bool, Field(description="False while the chain's ingestion or relayer is unwell.")
    ]


class Route(TypedDict):
    """A coin and a direction, over many chains."""

    id: RouteId
    direction: Direction
    mechanism: Mechanism
    enabled: Annotated[bool, Field(description="Whether this network has both ends.")]
    fee: RouteFee
    source_chains: list[RouteEnd]
    dest_chains: list[RouteEnd]


class Routes(TypedDict):
    """All routes."""

    routes: list[Route]
