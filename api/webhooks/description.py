"""What `/v1/webhooks` takes and answers."""

from collections.abc import Mapping

from api.description import (
    CallbackDoc,
    HeaderDoc,
    Operation,
    Parameter,
    RequestBodyDoc,
    ResponseDoc,
)
from api.webhooks.requests import DEFAULT_LIMIT, MAX_LIMIT, NewWebhook
from api.webhooks.schema import (
    RegisteredWebhook,
    Removed,
    TransferChanged,
    Webhook,
    WebhookEventList,
    WebhookList,
)

_TAG = "Webhooks"
_NOT_KEPT = (HeaderDoc("Cache-Control", "`no-store`"),)
_ID = Parameter("webhook", "Its id.", {"type": "string"}, place="path", required=True)
_MISSING = ("WEBHOOK_NOT_FOUND",)

OPERATIONS: Mapping[str, Operation] = {
    "webhooks.add": Operation(
        name="registerWebhook",
        tag=_TAG,
        summary="Be told of your transfers at a place of yours",
        description=(
            "Each change of a transfer of yours is posted there, signed (Standard Webhooks, "
            "HMAC and Ed25519), in order, and again until it is answered with 2xx. The same place "
            "again is the same webhook."
        ),
        body=RequestBodyDoc(NewWebhook),
        answers=(
            ResponseDoc(
                201, "The webhook, new, with its secret.", RegisteredWebhook, headers=_NOT_KEPT
            ),
            ResponseDoc(
                200, "The webhook that is there already.", RegisteredWebhook, headers=_NOT_KEPT
            ),
        ),
        refusals={
            400: ("BAD_BODY", "BAD_WEBHOOK_URL", "BAD_AFTER"),
            404: ("WEBHOOKS_OFF",),
            415: ("UNSUPPORTED_MEDIA_TYPE",),
            422: ("WEBHOOK_LIMIT",),
            503: ("WEBHOOKS_UNAVAILABLE",),
        },
    ),
    "webhooks.show_all": Operation(
        name="listWebhooks",
        tag=_TAG,
        summary="Your webhooks, and the key that verifies what they are sent",
        answers=(ResponseDoc(200, "All of them.", WebhookList, headers=_NOT_KEPT),),
        refusals={400: ("UNKNOWN_PARAMETER",)},
    ),
    "webhooks.show": Operation(
        name="showWebhook",
        tag=_TAG,
        summary="How it goes with a webhook",
        parameters=(_ID,),
        answers=(ResponseDoc(200, "The webhook.", Webhook, headers=_NOT_KEPT),),
        refusals={404: _MISSING},
    ),
    "webhooks.take_back": Operation(
        name="removeWebhook",
        tag=_TAG,
        summary="Have nothing sent there any more",
        description="What is under way at that moment may still arrive.",
        parameters=(_ID,),
        answers=(ResponseDoc(200, "It is taken back.", Removed, headers=_NOT_KEPT),),
        refusals={404: _MISSING},
    ),
    "webhooks.show_events": Operation(
        name="listWebhookEvents",
        tag=_TAG,
        summary="What is sent to a webhook, and what came of it",
        description="With `missed=1`, what it has not taken: read it here instead.",
        parameters=(
            _ID,
            Parameter(
                "after",
                "Those after this number: `next_after` of the page before.",
                {"type": "integer", "minimum": 0, "maximum": 10**18 - 1},
            ),
            Parameter(
                "limit",
                "How many.",
                {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_LIMIT,
                    "default": DEFAULT_LIMIT,
                },
            ),
            Parameter(
                "missed",
                "1: those alone that were not delivered.",
                {"type": "string", "enum": ["0", "1"]},
            ),
        ),
        answers=(ResponseDoc(200, "A page of them.", WebhookEventList, headers=_NOT_KEPT),),
        refusals={
            400: ("BAD_AFTER", "BAD_FILTER", "BAD_LIMIT", "UNKNOWN_PARAMETER"),
            404: _MISSING,
        },
    ),
}

POSTED = CallbackDoc(
    name="transferChanged",
    tag=_TAG,
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
