"""The AsyncAPI 3 document of the stream: messages of an open WebSocket, and the handshake."""

from collections.abc import Iterable, Iterator
from typing import Any

from api.errors import CODES
from api.openapi import Components, Json, examples, public_refusals
from api.operation import operation_of
from api.stream.client import CLOSE_REASONS
from api.stream.requests import QUERY
from api.stream.schema import MESSAGES, Authentication
from api.stream.socket import ask_to_upgrade

_CHANNEL = "#/channels/stream"
_INFO = """
Changes of offers and orders, ledger by ledger. A client connects and reads; it needs no token and
sends nothing. With a token it also receives its own transfers. Errors before the upgrade are those
of [the HTTP API](/openapi.json); `429` and `503` have `Retry-After`.

Apply a ledger as a whole, at the message with `last`. If `prevSeq` is not the `seq` before it, a
message is missing. After the connection ends, reconnect with `after` and the last complete ledger
(`after=0` and an empty book for the first time).
"""


def asyncapi() -> Json:
    """The document."""
    components = Components()
    messages = {
        shape.__name__: _message(shape, components) for shape in (*MESSAGES, Authentication)
    }
    # HTTP errors are no messages.
    del components.schemas["Error"]
    close_reasons = (f"- {each.code} `{each.reason}`" for each in CLOSE_REASONS)
    description = "The server closes a connection with one of these codes and reasons:\n\n"
    query = {each.name: {**each.schema, "description": each.meaning} for each in QUERY}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Isthmus: the stream",
            "version": "1.0.0",
            "description": _INFO.strip(),
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {
            "stream": {
                "address": "/api/v1/stream",
                "description": description + "\n".join(close_reasons),
                "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
                "bindings": {
                    "ws": {
                        "method": "GET",
                        "query": {"type": "object", "properties": query},
                        "bindingVersion": "0.1.0",
                    }
                },
                "x-handshake-refusals": list(_handshake_refusals()),
                "x-close-codes": [
                    {"code": each.code, "reason": each.reason} for each in CLOSE_REASONS
                ],
            }
        },
        "operations": {
            "listen": _operation("send", MESSAGES),
            "authenticate": _operation("receive", [Authentication]),
        },
        "components": {"messages": messages, "schemas": components.schemas},
    }


def _operation(action: str, shapes: Iterable[Any]) -> Json:
    return {
        "action": action,
        "channel": {"$ref": _CHANNEL},
        "messages": [{"$ref": f"{_CHANNEL}/messages/{shape.__name__}"} for shape in shapes],
    }


def _message(shape: Any, components: Components) -> Json:
    shown: Json = {"summary": shape.__doc__, "payload": components.schema(shape)}
    example = examples("openStream").get(shape.__name__)
    return shown | ({"examples": [{"payload": example}]} if example is not None else {})


def _handshake_refusals() -> Iterator[Json]:
    """HTTP errors before the upgrade, for which AsyncAPI has no member."""
    handshake = operation_of(ask_to_upgrade)
    if handshake is None:
        raise LookupError("the stream's view has no @operation")
    for status, codes in public_refusals(handshake).items():
        for code in codes:
            yield {"status": status, "code": code, "meaning": CODES[code].meaning}
