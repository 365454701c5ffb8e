"""What `/v1/status` shows, as types: `views.py` makes them, the document is made of them."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from api.text_types import TimeText
from indexer.analytics.reconciliation import ReconciliationCheck
from indexer.transfers.state_machine import Stage

Amount = Annotated[
    str,
    Field(
        pattern="^(0|[1-9][0-9]*)$",
        description="A whole number with 7 decimals, whatever the chain.",
    ),
]
Count = Annotated[int, Field(ge=0)]


class Sum(TypedDict):
    """Movements, and what they moved together."""

    count: Count
    amount: Amount


class Flow(TypedDict):
    """What went from one chain to another since they are followed."""

    mechanism: Literal["cctp", "oft"]
    source_chain: Annotated[str | None, Field(description="CAIP-2 id; null: no chain of ours.")]
    dest_chain: Annotated[str | None, Field(description="CAIP-2 id; null: no chain of ours.")]
    sent: Sum
    delivered: Sum
    fees: Annotated[Amount, Field(description="Taken on the way, of what was delivered.")]
    on_the_way: Sum
    unexplained: Annotated[
        Sum,
        Field(
            description="Delivered, of which the sending was not seen: before the source was "
            "followed, or not read so far. sent + unexplained = delivered + fees + on_the_way."
        ),
    ]


class Status(TypedDict):
    """Whether the money adds up, as it was looked at last."""

    at: Annotated[TimeText | None, Field(description="As of when; null: nobody looked so far.")]
    adds_up: Annotated[bool | None, Field(description="Whether nothing was found.")]
    reasons: Annotated[
        list[str],
        Field(
            description="Why not to rely on this: chains that are not well, as `/readyz` has them, "
            "and a reconciliation that is over an hour old. Empty when all is well."
        ),
    ]
    flows: list[Flow]
    under_way: Annotated[
        dict[Stage, Count], Field(description="Transfers that are not over, by stage.")
    ]
    findings: Annotated[
        dict[ReconciliationCheck, Count],
        Field(description="What does not add up: how often, by kind."),
    ]
