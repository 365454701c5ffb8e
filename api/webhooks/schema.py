"""Bodies of `/v1/webhooks` as types: `responses.py` builds them, the document describes them."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from api.operation import CallbackDoc, HeaderDoc
from api.text_types import TimeText
from indexer.transfers.reasons import StageReason
from indexer.transfers.state_machine import Sep24Status, Stage

WebhookId = Annotated[str, Field(pattern="^[0-9a-f]{32}$", description="16 random bytes.")]
_Number = Annotated[
    int, Field(ge=0, description="Number of an event of your transfers, from 1, as on the stream.")
]


class Webhook(TypedDict):
    """A URL that receives the events of your transfers, and the state of its deliveries."""

    id: WebhookId
    url: str
    created_at: TimeText
    after: Annotated[_Number, Field(description="Events up to this number are not sent.")]
    state: Annotated[
        Literal["active", "failing", "stopped"],
        Field(
            description="failing: the last attempt failed. stopped: nothing is sent any more; "
            "register the URL again with its `position` as `after`."
        ),
    ]
    stopped_reason: Annotated[
        Literal["gone", "unreachable"] | None,
        Field(description="gone: it answered 410. unreachable: three events were given up."),
    ]
    position: Annotated[_Number, Field(description="Events up to it are delivered or given up.")]
    failures: Annotated[int, Field(ge=0, description="Failed attempts in a row.")]
    last_attempt_at: TimeText | None
    next_attempt_at: Annotated[
        TimeText | None, Field(description="null unless a retry is scheduled.")
    ]


class RegisteredWebhook(Webhook):
    """A webhook, with its secret if it is new."""

    secret: Annotated[
        str | None,
        Field(
            pattern="^whsec_[A-Za-z0-9+/]{43}=$",
            description="Verifies `v1` signatures (HMAC-SHA256) with any library of Standard "
            "Webhooks. Only the `201` shows it: store it. null: the webhook existed.",
        ),
    ]


class WebhookList(TypedDict):
    """Your webhooks, the oldest first."""

    webhooks: list[Webhook]
    public_key: Annotated[
        str | None,
        Field(
            pattern="^whpk_[A-Za-z0-9+/]{43}=$",
            description="Key of the `v1a` signatures (Ed25519), also in stellar.toml. null: this "
            "service has none.",
        ),
    ]


class Delivery(TypedDict):
    """State of an event's delivery."""

    state: Annotated[
        Literal["waiting", "retrying", "delivered", "given_up"],
        Field(description="waiting: no attempt yet. given_up: no further attempt."),
    ]
    attempts: Annotated[int, Field(ge=0)]
    first_at: TimeText | None
    last_at: TimeText | None
    status: Annotated[
        int | None, Field(description="Last status of the response; null without a response.")
    ]
    error: Annotated[
        str | None,
        Field(description="Why there was no response, such as TimeoutError or NotPublic."),
    ]


class WebhookEvent(TypedDict):
    """A change of a transfer, and its delivery."""

    number: _Number
    at: TimeText
    transfer_id: str
    stage: Stage
    status: Sep24Status
    stage_reason: StageReason | None
    delivery: Delivery


class WebhookEventList(TypedDict):
    """A page of a webhook's events, in order of number."""

    events: list[WebhookEvent]
    next_after: Annotated[
        int | None, Field(description="`after` of the next page; null after the last.")
    ]


class ChangedTransfer(TypedDict):
    """The new stage of a transfer. Read its amounts from the API."""

    number: _Number
    transfer_id: str
    stage: Stage
    status: Sep24Status
    stage_reason: StageReason | None


class TransferChanged(TypedDict):
    """The body that is posted to a webhook."""

    type: Literal["transfer.changed"]
    timestamp: Annotated[TimeText, Field(description="Time of the change.")]
    data: ChangedTransfer


TRANSFER_CHANGED = CallbackDoc(
    name="transferChanged",
    tag="Webhooks",
    summary="One of your transfers changed",
    description=(
        "Posted to each of your webhooks, one event after the other. The signature covers "
        "`webhook-id`, `webhook-timestamp` and the body, joined by dots; `listWebhooks` has the "
        "key. An event may be delivered more than once, with the same `webhook-id`."
    ),
    headers=(
        HeaderDoc("webhook-id", "Id of the event, equal for every attempt and webhook."),
        HeaderDoc("webhook-timestamp", "Unix seconds of this attempt. Reject one far from now."),
        HeaderDoc("webhook-signature", "`v1a,` and 64 bytes as base64, by Standard Webhooks."),
    ),
    shape=TransferChanged,
    answers={
        "2XX": "The event is delivered.",
        "410": "The webhook is stopped: nothing more is sent to it.",
        "default": "The event is sent again, for up to a day. Redirects are not followed.",
    },
)


class Removed(TypedDict):
    """The webhook was removed."""

    removed: Literal[True]
