"""How schemathesis is to read the document: which text is an address, and what may be refused."""

from typing import Any

import schemathesis
from hypothesis import strategies as st
from schemathesis.config import SchemathesisConfig
from stellar_sdk import StrKey

REFUSED_THOUGH_WELL_FORMED = {
    # minAmount above maxAmount.
    "listOffers": [400],
    # Another service's home domain; no keys to sign in with.
    "getChallenge": [400, 404],
    # A transaction is any text to a schema.
    "signIn": [400, 404],
    # No WebSocket.
    "openStream": [400, 403, 426, 429],
    "endSession": [400, 401, 403],
    "listOrders": [],
    # An address of no chain, a route's other limits: what is wrong with a wish a schema cannot say.
    "createQuote": [400],
    # Used, over a limit, or another quote with the same key.
    "startTransfer": [409, 422],
    # A leap second.
    "listTransfers": [400],
    "cancelTransfer": [409],
    # A text that is no place; an event that is to come; no webhooks; too many of them.
    "registerWebhook": [400, 404, 422],
    # Digits that are a number no more.
    "listWebhookEvents": [400],
    # No hash of a transaction, or one that is not what was asked for.
    "submitTransaction": [400, 409, 422],
}
"""Operation → statuses that an answer to a well-formed request may have, beside the usual."""
_USUAL = ["2xx", 304, 401, 403, 404, 412, 429, 503]

_REFUSED = ["400", "401", "403", "404", "406", "413", "414", "415", "422", "431", "5xx"]
_REFUSED_FOR = {
    "openStream": ["4xx", "5xx"],
    # An empty `limit` is the same as none, and a schema of numbers has no word for that; a list of
    # one is the same query as the one. Either may meet a condition then.
    "listOrders": ["200", "304", "412", *_REFUSED],
    # A day is a time, too, and so is one without a zone.
    "listTransfers": ["200", *_REFUSED],
}

CONFIG = SchemathesisConfig.from_dict(
    {
        "checks": {"positive_data_acceptance": {"expected-statuses": [str(s) for s in _USUAL]}},
        "operations": [
            {
                "include-operation-id": name,
                "checks": {
                    "positive_data_acceptance": {
                        "expected-statuses": [str(s) for s in (*_USUAL, *statuses)]
                    },
                    "negative_data_rejection": {
                        "expected-statuses": _REFUSED_FOR.get(name, _REFUSED)
                    },
                },
            }
            for name, statuses in REFUSED_THOUGH_WELL_FORMED.items()
        ],
    }
)


def register_formats() -> None:
    """Addresses have a checksum, which no pattern can say."""
    keys = st.binary(min_size=32, max_size=32)
    accounts = keys.map(StrKey.encode_ed25519_public_key)
    contracts = keys.map(StrKey.encode_contract)
    schemathesis.openapi.format("stellar-account", accounts)
    schemathesis.openapi.format("stellar-holder", accounts | contracts)


def of_wsgi(app: Any) -> Any:
    """The document of an app in this process."""
    register_formats()
    return schemathesis.openapi.from_wsgi("/openapi.json", app, config=CONFIG)


def of_url(url: str) -> Any:
    """The document of a server."""
    register_formats()
    return schemathesis.openapi.from_url(f"{url}/openapi.json", config=CONFIG)
