"""What `/v1/webhooks` shows, as types: `responses.py` makes them, the document is made of them."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from api.operation import CallbackDoc, HeaderDoc
from api.text_types import TimeText
from indexer.transfers.reasons import StageReason
from indexer.transfers.state_machine import Sep24Status, Stage

WebhookId = Annotated[str, Field(pattern="^[0-9a-f]{32}$", description="16 random bytes.")]
_Number = Annotated[
    int, Field(ge=0, description="Of an event, as your stream has it: from 1, yours alone.")
]


class Webhook(TypedDict):
    """A place where you are told of your transfers, and how that goes."""

    id: WebhookId
    url: str
    created_at: TimeText
    after: Annotated[_Number, Field(description="Events up to this number are not sent.")]
    state: Annotated[
        Literal["active", "failing", "stopped"],
        Field(
            description="failing: the last attempt was not taken. stopped: nothing is sent there "
            "any more; register it again, `after` its `position`."
        ),
    ]
    stopped_reason: Annotated[
        Literal["gone", "unreachable"] | None,
        Field(description="gone: it answered 410. unreachable: three events were given up."),
    ]
    position: Annotated[_Number, Field(description="Up to it all was delivered or given up.")]
    failures: Annotated[int, Field(ge=0, description="Attempts in a row that were not taken.")]
    last_attempt_at: TimeText | None
    next_attempt_at: Annotated[
        TimeText | None, Field(description="null unless it waits after a failure.")
    ]


class RegisteredWebhook(Webhook):
    """A webhook, and its secret when it is new."""

    secret: Annotated[
        str | None,
        Field(
            pattern="^whsec_[A-Za-z0-9+/]{43}=$",
            description="Verifies the `v1` signatures (HMAC-SHA256) with any library of Standard "
            "Webhooks. Shown by the `201` alone: keep it. null: the webhook was there already.",
        ),
    ]


class WebhookList(TypedDict):
    """Your webhooks, the oldest first."""

    webhooks: list[Webhook]
    public_key: Annotated[
        str | None,
        Field(
            pattern="^whpk_[A-Za-z0-9+/]{43}=$",
            description="Whose signatures (Ed25519) they carry, as stellar.toml says it; null: "
            "this service has none.",
        ),
    ]


class Delivery(TypedDict):
    """What came of sending an event."""

    state: Annotated[
        Literal["waiting", "retrying", "delivered", "given_up"],
        Field(description="given_up: it is not tried again. waiting: its turn has not come."),
    ]
    attempts: Annotated[int, Field(ge=0)]
    first_at: TimeText | None
    last_at: TimeText | None
    status: Annotated[
        int | None, Field(description="What the place answered last; null for no answer.")
    ]
    error: Annotated[
        str | None,
        Field(description="Why there was no answer, such as TimeoutError or NotPublic."),
    ]


class WebhookEvent(TypedDict):
    """A change of a transfer, as it is sent, and what came of that."""

    number: _Number
    at: TimeText
    transfer_id: str
    stage: Stage
    status: Sep24Status
    stage_reason: StageReason | None
    delivery: Delivery


class WebhookEventList(TypedDict):
    """A page of a webhook's events, in their order."""

    events: list[WebhookEvent]
    next_after: Annotated[
        int | None, Field(description="`after` of the next page; null after the last.")
    ]


class ChangedTransfer(TypedDict):
    """Which transfer of yours came to what; its money is read from the API."""

    number: _Number
    transfer_id: str
    stage: Stage
    status: Sep24Status
    stage_reason: StageReason | None


class TransferChanged(TypedDict):
    """The body that is posted to a webhook."""

    type: Literal["transfer.changed"]
    timestamp: Annotated[TimeText, Field(description="When it changed.")]
    data: ChangedTransfer


TRANSFER_CHANGED = CallbackDoc(
    name="transferChanged",
    tag="Webhooks",
    summary="A transfer of yours changed",
    description=(
        "Posted to each of your webhooks, one event after the other. The signature is over "
        "`webhook-id`, `webhook-timestamp` and the body, joined by dots, by the key of "
        "`listWebhooks`. It may come more than once, with the same `webhook-id`."
    ),
    headers=(
        HeaderDoc("webhook-id", "Of the event, however often and to whichever place it is sent."),
        HeaderDoc(
            "webhook-timestamp", "Unix seconds of this attempt: refuse what is far from now."
        ),
        HeaderDoc("webhook-signature", "`v1a,` and 64 bytes as base64, by Standard Webhooks."),
    ),
    shape=TransferChanged,
    answers={
        "2XX": "It is taken, and not sent again.",
        "410": "Nothing is sent there any more.",
        "default": "It is sent again, for a day; a redirect is not followed.",
    },
)


class Removed(TypedDict):
    """Nothing is sent there any more."""

    removed: Literal[True]
