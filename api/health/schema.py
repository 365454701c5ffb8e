"""What the health checks show, as types."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from indexer.facts.health import HealthReason


class Alive(TypedDict):
    """The process lives."""

    status: Literal["alive"]


class ChainReadiness(TypedDict):
    """How the ingestion of a chain stands."""

    chain: Annotated[str, Field(description="CAIP-2 id.")]
    height: Annotated[int | None, Field(description="Last block or ledger; null before the first.")]
    lag_seconds: Annotated[int | None, Field(description="Behind the chain's head.")]
    age_seconds: Annotated[int | None, Field(description="Since the last block was ingested.")]
    reason: Annotated[HealthReason | None, Field(description="Why it is unwell; null when well.")]


class Ready(TypedDict):
    """Traffic is welcome."""

    status: Literal["ready"]
    chains: list[ChainReadiness]


class NotReady(TypedDict):
    """Traffic is not welcome, and why."""

    message: str
    code: Literal["NOT_READY", "DATABASE_UNAVAILABLE"]
    reasons: NotRequired[list[str]]
    chains: NotRequired[list[ChainReadiness]]
