"""Response body of `/v1/status`."""

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from api.text_types import TimeText
from indexer.analytics.reconciliation import ReconciliationCheck
from indexer.config.routes import Bridge
from indexer.transfers.state_machine import Stage

Amount = Annotated[
    str,
    Field(
        pattern="^(0|[1-9][0-9]*)$",
        description="In units of 10⁻⁷, on every chain.",
    ),
]
Count = Annotated[int, Field(ge=0)]


class Sum(TypedDict):
    """Number and total amount of movements."""

    count: Count
    amount: Amount


class Flow(TypedDict):
    """Movements from one chain to another since ingestion began."""

    mechanism: Bridge
    source_chain: Annotated[str | None, Field(description="CAIP-2 id; null: chain not ingested.")]
    dest_chain: Annotated[str | None, Field(description="CAIP-2 id; null: chain not ingested.")]
    sent: Sum
    delivered: Sum
    fees: Annotated[Amount, Field(description="Deducted by the bridge, of delivered movements.")]
    on_the_way: Sum
    unexplained: Annotated[
        Sum,
        Field(
            description="Delivered without an ingested send, which is older than the ingestion or "
            "not ingested yet. sent + unexplained = delivered + fees + on_the_way."
        ),
    ]


class Status(TypedDict):
    """The last reconciliation: whether the money adds up."""

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
