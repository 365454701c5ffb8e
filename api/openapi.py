"""The OpenAPI 3.1 document of an app, from its URL rules, auth rules and views (`@operation`)."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, get_args

from flask import Flask
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from werkzeug.routing import Rule

from api.auth.owner import RULES, public
from api.errors import CODES
from api.operation import (
    IF_MATCH,
    RATE_LIMITS,
    RETRY_AFTER,
    CallbackDoc,
    HeaderDoc,
    Operation,
    Parameter,
    ResponseDoc,
    Tag,
    operation_of,
)
from api.parsing import JSON
from api.rate_limits import UNLIMITED_PATHS
from api.webhooks.schema import TRANSFER_CHANGED

EVERYWHERE: Mapping[int, tuple[str, ...]] = {
    400: ("BAD_QUERY",),
    413: ("BODY_TOO_LARGE",),
    414: ("URI_TOO_LONG",),
    431: ("HEADERS_TOO_LARGE",),
    500: ("INTERNAL",),
}
"""Status → codes that any path may answer with."""

BEFORE_THE_APP = frozenset({414, 431})
"""Of these, what the server refuses before there is an app to give the request an id."""

GUARDED: Mapping[int, tuple[str, ...]] = {
    401: ("UNAUTHORIZED",),
    403: ("NO_STELLAR_WALLET", "WALLET_CHANGED"),
    503: ("IDENTITY_UNAVAILABLE", "DATABASE_UNAVAILABLE"),
}
"""And what any path may that asks for a token."""

COUNTED: Mapping[int, tuple[str, ...]] = {429: ("TOO_MANY",)}
"""And what any path may whose requests are counted (`api.rate_limits`)."""

REQUEST_ID = HeaderDoc("X-Request-Id", "Names this request in our log.")

_INFO = """
Moves stablecoins between EVM chains and Stellar, and publishes the order book of liquidity
providers who swap USDC against local money.

- Every error is JSON: `message` is for people and may change, `code` is stable.
- Members may be added at any time: ignore what you do not know.
- Amounts are text, never a float: decimals of 7 places in the order book, whole base units of the
  chain's own asset on routes.
- `HEAD` is answered wherever `GET` is, `OPTIONS` everywhere.
- Send `X-Request-Id` (8 to 64 of `A-Za-z0-9._-`) to find your request in our log under it.
- The [stream](/asyncapi.json) tells the order book as it changes.
"""

Json = dict[str, Any]


def openapi(app: Flask) -> Json:
    """The document."""
    components = Components()
    paths: dict[str, Json] = {}
    for rule in sorted(app.url_map.iter_rules(), key=lambda rule: rule.rule):
        operation = operation_of(app.view_functions[rule.endpoint])
        if operation is None:
            continue
        auth_rule = _auth_rule(app, rule)
        general = _general(auth_rule, is_counted=rule.rule not in UNLIMITED_PATHS)
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            path = paths.setdefault(template(rule.rule), {})
            path[method.lower()] = _operation(operation, auth_rule, general, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Isthmus",
            "version": "1.0.0",
            "description": _INFO.strip(),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The host that serves this document."}],
        "tags": [{"name": tag} for tag in get_args(Tag)],
        "paths": paths,
        "webhooks": {TRANSFER_CHANGED.name: {"post": _posted(TRANSFER_CHANGED, components)}},
        "components": {
            "schemas": components.schemas,
            "securitySchemes": {"bearer": _BEARER},
        },
    }


_BEARER: Json = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": "JWT",
    "description": "A token of ours (SEP-10 login), or the identity provider's access token.",
}


def _posted(posted: CallbackDoc, components: "Components") -> Json:
    headers = [
        {
            "name": header.name,
            "in": "header",
            "required": True,
            "description": header.meaning,
            "schema": dict(header.schema),
        }
        for header in posted.headers
    ]
    body = {"application/json": {"schema": components.schema(posted.shape)}}
    return {
        "operationId": posted.name,
        "tags": [posted.tag],
        "summary": posted.summary,
        "description": posted.description,
        "parameters": headers,
        "requestBody": {"required": True, "content": body},
        "responses": {
            status: {"description": meaning} for status, meaning in posted.answers.items()
        },
    }


def template(rule: str) -> str:
    """A path as OpenAPI writes it: `/intents/{order_id}` of `/intents/<order_id>`."""
    return re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule)


def _auth_rule(app: Flask, rule: Rule) -> Any:
    hooks = app.before_request_funcs.get(rule.endpoint.rpartition(".")[0], [])
    return next(hook for hook in hooks if hook in RULES)


_Refusals: TypeAlias = Mapping[int, Sequence[str]]
"""Status → codes."""


def _general(rule: Any, *, is_counted: bool) -> Sequence[_Refusals]:
    """What a path may answer for being behind an auth rule, counted, and a path at all."""
    return ({} if rule is public else GUARDED, COUNTED if is_counted else {}, EVERYWHERE)


class Components:
    """The schemas that the document names, as they come up."""

    def __init__(self) -> None:
        self.schemas: dict[str, Json] = {"Error": _ERROR}

    def schema(self, shape: Any, mode: JsonSchemaMode = "serialization") -> Json:
        """The schema of a type; named types in it become components."""
        whole = _schema_of(shape, mode)
        for name, part in whole.get("$defs", {}).items():
            self._put(name, part)
        schema = {name: part for name, part in whole.items() if name != "$defs"}
        if schema.get("type") == "object" and "title" in schema:
            self._put(name := schema["title"], schema)
            return {"$ref": f"#/components/schemas/{name}"}
        untitled: Json = _untitled(schema)
        return untitled

    def _put(self, name: str, schema: Json) -> None:
        """Raises `ValueError` where two types have one name."""
        schema = _untitled(schema)
        if self.schemas.setdefault(name, schema) != schema:
            raise ValueError(f"two response types are called {name}")


@cache
def _schema_of(shape: Any, mode: JsonSchemaMode) -> Mapping[str, Any]:
    """The same for every app, and most of the work of a document."""
    return TypeAdapter(shape).json_schema(
        mode=mode,
        ref_template="#/components/schemas/{model}",
        schema_generator=_WithoutNullDefaults,
    )


class _WithoutNullDefaults(GenerateJsonSchema):
    """Leaves out `default: null`: generators of typed clients make such a member required."""

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        made = super().default_schema(schema)
        return {name: value for name, value in made.items() if (name, value) != ("default", None)}


_ERROR: Json = {
    "type": "object",
    "description": "What every refusal looks like.",
    "properties": {
        "message": {"type": "string", "description": "For people; it may change."},
        "code": {
            "type": "string",
            "description": "Stable.",
            "pattern": "^[A-Z][A-Z0-9_]*$",
            "x-codes": {
                code: {"status": known.status, "meaning": known.meaning}
                for code, known in sorted(CODES.items())
            },
        },
    },
    "required": ["message", "code"],
}


def _untitled(schema: Any) -> Any:
    """Without the titles that pydantic makes of names: they say nothing more."""
    if isinstance(schema, dict):
        return {
            name: {key: _untitled(part) for key, part in value.items()}
            if name == "properties"
            else _untitled(value)
            for name, value in schema.items()
            if name != "title" or not isinstance(value, str)
        }
    return [_untitled(part) for part in schema] if isinstance(schema, list) else schema


def _operation(
    operation: Operation, rule: Any, general: Sequence[_Refusals], components: Components
) -> Json:
    said: Json = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "security": [] if rule is public else [{"bearer": []}],
        "parameters": [_parameter(parameter) for parameter in operation.parameters],
        "responses": dict(sorted(_responses(operation, general, components).items())),
    }
    if operation.description:
        said["description"] = operation.description
    if operation.body is not None:
        schema = components.schema(operation.body, "validation")
        said["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    return said


def _parameter(parameter: Parameter) -> Json:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.required,
        "description": parameter.meaning,
        "schema": dict(parameter.schema),
    }


def _responses(operation: Operation, general: Sequence[_Refusals], components: Components) -> Json:
    said = {str(a.status): _answer(operation, a, components) for a in operation.answers}
    for status, codes in _refusals(operation, general).items():
        if str(status) not in said:
            headers = operation.refusal_headers.get(status, ())
            said[str(status)] = _refusal(operation, status, codes, headers)
    return said


def _refusals(operation: Operation, general: Sequence[_Refusals]) -> Mapping[int, tuple[str, ...]]:
    """Status → codes: its own, and those of the general tables."""
    found: dict[int, dict[str, None]] = {}
    for code in operation.refusals:
        found.setdefault(CODES[code].status, {})[code] = None
    for table in (_by_parameters(operation), *general):
        for status, codes in table.items():
            found.setdefault(status, {}).update(dict.fromkeys(codes))
    return {status: tuple(codes) for status, codes in found.items()}


def _by_parameters(operation: Operation) -> Mapping[int, tuple[str, ...]]:
    """What reading its parameters can refuse, whoever reads them."""
    is_queried = any(parameter.place == "query" for parameter in operation.parameters)
    return {
        400: ("REPEATED_PARAMETER",) if is_queried else (),
        **({412: ("NOT_THE_SAME",)} if IF_MATCH in operation.parameters else {}),
    }


def _answer(operation: Operation, answer: ResponseDoc, components: Components) -> Json:
    said: Json = {
        "description": answer.meaning,
        "headers": _headers((*answer.headers, REQUEST_ID)),
    }
    if answer.shape is not None:
        media: Json = {"schema": components.schema(answer.shape)}
        example = examples(operation.name).get(str(answer.status))
        if example is not None:
            media["example"] = example
        said["content"] = {answer.media_type: media}
    return said


def public_refusals(operation: Operation) -> Mapping[int, tuple[str, ...]]:
    """Status → codes of an operation that needs no token and is counted."""
    return dict(sorted(_refusals(operation, _general(public, is_counted=True)).items()))


def _refusal(
    operation: Operation, status: int, codes: Sequence[str], headers: Iterable[HeaderDoc]
) -> Json:
    known = {**examples("*"), **examples(operation.name)}
    request_id = replace(REQUEST_ID, always=status not in BEFORE_THE_APP)
    usual = (*_USUAL_HEADERS.get(status, ()), *_headers_of(codes))
    media: Json = {
        "schema": {
            "allOf": [{"$ref": "#/components/schemas/Error"}],
            "properties": {"code": {"enum": list(codes)}},
        }
    }
    shown = {code: {"value": known[code]} for code in codes if code in known}
    if shown:
        media["examples"] = shown
    return {
        "description": "\n".join(f"- `{code}`: {CODES[code].meaning}" for code in codes),
        "headers": _headers((*headers, *usual, request_id)),
        "content": {"application/json": media},
    }


_USUAL_HEADERS: Mapping[int, tuple[HeaderDoc, ...]] = {
    401: (HeaderDoc("WWW-Authenticate", "`Bearer`"),),
    429: (RETRY_AFTER,),
    503: (RETRY_AFTER,),
}


_CODE_HEADERS: Mapping[str, tuple[HeaderDoc, ...]] = {"TOO_MANY": RATE_LIMITS}


def _headers_of(codes: Sequence[str]) -> Iterator[HeaderDoc]:
    """Headers that come with codes; with one of several, they need not be there."""
    for code in codes:
        for header in _CODE_HEADERS.get(code, ()):
            yield replace(header, always=len(codes) == 1)


def _headers(headers: Iterable[HeaderDoc]) -> Json:
    return {
        header.name: {
            "description": header.meaning,
            "schema": dict(header.schema),
            **({} if header.always else {"required": False}),
        }
        for header in headers
    }


def examples(operation: str) -> Mapping[str, Any]:
    """Status, or code of a refusal → an answer that the app once gave (`*`: to any request)."""
    return _examples().get(operation, {})


@cache
def _examples() -> Mapping[str, Mapping[str, Any]]:
    known: Mapping[str, Mapping[str, Any]] = json.loads(EXAMPLES.read_bytes())
    return known


EXAMPLES = Path(__file__).parent / "document" / "examples.json"
"""Real answers; a test asks for them again (`tests/api/document/test_examples.py`)."""
