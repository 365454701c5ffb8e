"""Requests that `/docs` fills in: valid on the network of the app, and sent as they are in a demo.

The values of `stellar:devnet` exist in each demo: their keys follow from a public phrase, the order
from the demo's default seed. A test sends all of them. An id that only a previous answer has comes
by a link of that answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from indexer.config.networks import Network

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RequestExample:
    """Parameters by name, and the body."""

    parameters: Mapping[str, str | int] = field(default_factory=dict)
    body: Json | None = None


@dataclass(frozen=True, slots=True)
class _Values:
    """What exists on a network."""

    account: str
    payer: str
    provider: str
    order: str


_DEVNET = _Values(
    account="GBGLDSAO53PBPSEOBK6VKUVTZZUG3MK4ABAMNHWYO42IXASQ5M7NSMC7",
    payer="0x925906d2ffe5e359ccc391ba45a6b36a2419662c",
    provider="GBWYP35PR35SPU7SGVGD575TKQ3R7IIXXH6KCDFZEYUM435T5S7XESZT",
    order="0dd6f0ebbfc1e38d7f48ecb09a36a23d8890815ec00eb13df25800210493af2a",
)
_ELSEWHERE = _Values(
    account="GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN",
    payer="0x70997970c51812dc3a010c7d01b50e0d17dc79c8",
    provider="GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN",
    order="1f" * 32,
)
"""Well-formed; replace them with your own."""

LINKS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "createQuote": {"startTransfer": {"quote_id": "id"}},
    "startTransfer": {
        "showTransfer": {"transfer": "id"},
        "showAction": {"transfer": "id"},
        "submitTransaction": {"transfer": "id"},
        "cancelTransfer": {"transfer": "id"},
    },
    "registerWebhook": {
        "showWebhook": {"webhook": "id"},
        "listWebhookEvents": {"webhook": "id"},
        "removeWebhook": {"webhook": "id"},
    },
}
"""Operation → operation that takes its answer's members → parameter or body member → member."""


def request_examples(network: Network) -> Mapping[str, RequestExample]:
    """Operation → its request."""
    is_devnet = network.stellar.id == "stellar:devnet"
    values = _DEVNET if is_devnet else _ELSEWHERE
    return {
        "listOffers": RequestExample({"direction": "onramp", "currency": "EUR", "minAmount": "25"}),
        "listOrders": RequestExample({"provider": values.provider, "limit": 10}),
        "showOrder": RequestExample({"order_id": values.order}),
        "showProvider": RequestExample({"address": values.provider}),
        "showProviderActivity": RequestExample({"address": values.provider}),
        "showPriceHistory": RequestExample({"currency": "EUR"}),
        "getChallenge": RequestExample({"account": values.account}),
        "createQuote": RequestExample(
            body={
                "route": "usdc-deposit",
                "amount_in": "5000000",
                "source_chain": network.evm[0].id,
                "source_address": values.payer,
                "dest_address": values.account,
            }
        ),
        "startTransfer": RequestExample(
            {"Idempotency-Key": "6f1c8f2e-52a3-4a63-9a0b-0d6c2b4f7e11"},
            {"quote_id": "9268017d20a93d4f2ecc658c3007db95"},
        ),
        "submitTransaction": RequestExample(body={"kind": "evm_tx", "hash": f"0x{'2f' * 32}"}),
        "listTransfers": RequestExample({"limit": 10}),
        "registerWebhook": RequestExample(body={"url": "https://localhost:9443/hooks"}),
        "listWebhookEvents": RequestExample({"limit": 10}),
    }


def links(operation: str) -> Json:
    """OpenAPI's link objects of an operation's success answer."""
    return {
        target: {"operationId": target, **_given(target, members)}
        for target, members in LINKS.get(operation, {}).items()
    }


def _given(target: str, members: Mapping[str, str]) -> Json:
    expressions = {name: f"$response.body#/{member}" for name, member in members.items()}
    return (
        {"requestBody": expressions} if target == "startTransfer" else {"parameters": expressions}
    )
