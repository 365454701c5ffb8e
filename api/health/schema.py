"""What the health checks show, as types."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from indexer.facts.health import HealthReason


class Alive(TypedDict):
    """The process answers."""

    status: Literal["alive"]


class ChainReadiness(TypedDict):
    """The ingestion of a chain."""

    chain: Annotated[str, Field(description="CAIP-2 id.")]
    height: Annotated[int | None, Field(description="Last block or ledger; null before the first.")]
    lag_seconds: Annotated[int | None, Field(description="Behind the chain's head.")]
    age_seconds: Annotated[int | None, Field(description="Since the last block was ingested.")]
    reason: Annotated[HealthReason | None, Field(description="Why it is unhealthy; null: healthy.")]


class Ready(TypedDict):
    """The process is ready for traffic."""

    status: Literal["ready"]
    chains: list[ChainReadiness]


class ProcessReady(TypedDict):
    """The process is ready for traffic, as far as that is its own."""

    status: Literal["ready"]


class NotReady(TypedDict):
    """The process should get no traffic, and why."""

    message: str
    code: Literal["NOT_READY", "DATABASE_UNAVAILABLE", "OVERLOADED"]
    reasons: NotRequired[list[str]]
    chains: NotRequired[list[ChainReadiness]]
