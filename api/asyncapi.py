"""The AsyncAPI 3 document of the stream: what is said once the connection is a WebSocket."""

from collections.abc import Iterator
from typing import Any

from api.errors import CODES
from api.openapi import Components, Json, examples, public_refusals
from api.operation import Parameter, operation_of
from api.stream.client import CLOSE_REASONS
from api.stream.requests import QUERY
from api.stream.schema import MESSAGES, Authentication
from api.stream.socket import ask_to_upgrade

_PATH = "/api/v1/stream"
_INFO = """
Offers and orders as they change, ledger by ledger. Connect and listen: nothing is to be sent, and a
token is not asked for. Whoever shows one is told of its own transfers, too. Whoever cannot be
served is told before the upgrade, by an error of [the HTTP API](/openapi.json); a `429` and a
`503` say in `Retry-After` when to come again.

Take a ledger in as a whole, at the message with `last`. If `prevSeq` is not the `seq` before it,
something is missing. After any end, connect again with `after` and the last ledger that you have
whole (`after=0` and an empty book for the first time).
"""


def asyncapi() -> Json:
    """The document."""
    components = Components()
    told = [shape.__name__ for shape in MESSAGES]
    messages = {
        shape.__name__: _message(shape, components) for shape in (*MESSAGES, Authentication)
    }
    # What HTTP refuses with is no message.
    del components.schemas["Error"]
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
                "address": _PATH,
                "description": "\n".join(_endings()),
                "messages": {n: {"$ref": f"#/components/messages/{n}"} for n in messages},
                "bindings": {"ws": {"method": "GET", "query": _query(), "bindingVersion": "0.1.0"}},
                "x-handshake-refusals": list(_refusals()),
                "x-close-codes": [
                    {"code": ending.code, "reason": ending.reason} for ending in CLOSE_REASONS
                ],
            }
        },
        "operations": {
            "listen": {
                "action": "send",
                "channel": {"$ref": "#/channels/stream"},
                "messages": [_of_channel(name) for name in told],
            },
            "authenticate": {
                "action": "receive",
                "channel": {"$ref": "#/channels/stream"},
                "messages": [_of_channel(Authentication.__name__)],
            },
        },
        "components": {"messages": messages, "schemas": components.schemas},
    }


def _message(shape: Any, components: Components) -> Json:
    said: Json = {"summary": shape.__doc__, "payload": components.schema(shape)}
    example = examples("openStream").get(shape.__name__)
    return said | ({"examples": [{"payload": example}]} if example is not None else {})


def _of_channel(name: str) -> Json:
    return {"$ref": f"#/channels/stream/messages/{name}"}


def _endings() -> list[str]:
    sent = [f"- {ending.code} `{ending.reason}`" for ending in CLOSE_REASONS]
    return ["The server ends a connection with one of these codes and reasons:", "", *sent]


def _refusals() -> Iterator[Json]:
    """What is answered in HTTP where there is no upgrade; AsyncAPI has no word for it."""
    handshake = operation_of(ask_to_upgrade)
    if handshake is None:
        raise LookupError("the stream's view has no @operation")
    for status, codes in public_refusals(handshake).items():
        for code in codes:
            yield {"status": status, "code": code, "meaning": CODES[code].meaning}


def _query() -> Json:
    return {"type": "object", "properties": {p.name: _property(p) for p in QUERY}}


def _property(parameter: Parameter) -> Json:
    return {**parameter.schema, "description": parameter.meaning}
