"""Response body of `/v1/status`."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from api.amounts import SHARED_UNITS, amount
from api.text_types import TimeText
from indexer.analytics.reconciliation import ReconciliationCheck
from indexer.config.routes import Bridge, RouteId
from indexer.facts.health import HealthReason
from indexer.service_status.durations import DAYS, MAX_TRANSFERS, MIN_TRANSFERS
from indexer.service_status.fold import ProblemKind, ServiceVerdict
from indexer.service_status.incidents import IncidentKind
from indexer.transfers.state_machine import Stage

_Amount = Annotated[str, Field(pattern="^(0|[1-9][0-9]*)$")]
Count = Annotated[int, Field(ge=0)]


class Sum(TypedDict):
    """Number and total amount of movements."""

    count: Count
    amount: Annotated[_Amount, amount(SHARED_UNITS, "100000000")]


class Flow(TypedDict):
    """Movements from one chain to another since ingestion began."""

    mechanism: Bridge
    source_chain: Annotated[str | None, Field(description="CAIP-2 id; null: chain not ingested.")]
    dest_chain: Annotated[str | None, Field(description="CAIP-2 id; null: chain not ingested.")]
    sent: Sum
    delivered: Sum
    fees: Annotated[
        _Amount, amount(SHARED_UNITS, "15600", "Deducted by the bridge, of delivered movements.")
    ]
    on_the_way: Sum
    unexplained: Annotated[
        Sum,
        Field(
            description="Delivered without an ingested send, which is older than the ingestion or "
            "not ingested yet. sent + unexplained = delivered + fees + on_the_way."
        ),
    ]


class StatusProblem(TypedDict):
    """Something that is not well."""

    kind: ProblemKind
    text: Annotated[str, Field(description="For people; no full sentence.")]


class ChainProgress(TypedDict):
    """How far a chain is ingested."""

    chain: Annotated[str, Field(description="CAIP-2 id.")]
    name: str
    height: Annotated[int | None, Field(description="Last block or ledger; null before the first.")]
    head_height: Annotated[int | None, Field(description="The chain's own, as last seen.")]
    final_height: Annotated[
        int | None, Field(description="The highest that cannot be reorganised; null: not known.")
    ]
    lag_seconds: Annotated[int | None, Field(description="Behind the chain's head.")]
    age_seconds: Annotated[int | None, Field(description="Since the last block was ingested.")]
    reason: Annotated[HealthReason | None, Field(description="Why it is unhealthy; null: healthy.")]


class LaneStatus(TypedDict):
    """A route between two chains that this service serves."""

    route: RouteId
    source_chain: Annotated[str, Field(description="CAIP-2 id.")]
    dest_chain: Annotated[str, Field(description="CAIP-2 id.")]
    available: Annotated[
        bool, Field(description="False while a chain's ingestion or relay is unhealthy.")
    ]
    expected_seconds: Annotated[int, Field(ge=0, description="Usual time, of both chains.")]
    median_seconds: Annotated[
        int | None,
        Field(
            description="Of the transfers delivered since midnight UTC, from payment or submission "
            f"to delivery; null without one among the latest {MAX_TRANSFERS} of all routes."
        ),
    ]
    p90_seconds: Annotated[
        int | None,
        Field(
            ge=0,
            description="90th percentile, from payment or submission to delivery: 9 of 10 "
            f"delivered in the last {DAYS} days took no longer. null (not known) with fewer than "
            f"{MIN_TRANSFERS} among the latest {MAX_TRANSFERS} of all routes.",
        ),
    ]


class StatusIncident(TypedDict):
    """Alarms of one kind on one chain that are at most six hours apart."""

    chain: Annotated[str, Field(description="CAIP-2 id.")]
    kind: IncidentKind
    began_at: TimeText
    ended_at: Annotated[TimeText | None, Field(description="null: it has not ended.")]


class Status(TypedDict):
    """Whether transfers are moving, and the last reconciliation: whether the money adds up."""

    as_of: Annotated[TimeText, Field(description="When this was read: seconds ago at most.")]
    verdict: Annotated[
        ServiceVerdict,
        Field(
            description="`impaired`: some transfers do not move, or the sums of money do not add "
            "up. `unknown`: nothing was ingested, or no relay has reported yet."
        ),
    ]
    sentence: Annotated[str, Field(description="The verdict and its reasons, for people.")]
    problems: list[StatusProblem]
    chains: list[ChainProgress]
    routes: Annotated[list[LaneStatus], Field(description="Those that are served.")]
    incidents: Annotated[
        list[StatusIncident],
        Field(description="Of the last 30 days, open ones first, then the newest; at most 100."),
    ]
    at: Annotated[TimeText | None, Field(description="Of the reconciliation; null: none yet.")]
    adds_up: Annotated[bool | None, Field(description="Whether there are no findings.")]
    reasons: Annotated[
        list[str],
        Field(
            description="Why this may be wrong: unhealthy chains, as in `/readyz`, and a "
            "reconciliation that is over an hour old. Empty when all is healthy."
        ),
    ]
    flows: list[Flow]
    under_way: Annotated[dict[Stage, Count], Field(description="Pending transfers, by stage.")]
    findings: Annotated[
        dict[ReconciliationCheck, Count],
        Field(description="Number of findings, by check."),
    ]
