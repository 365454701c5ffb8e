"""The OpenAPI 3.1 document of an app, from its URL rules, auth rules and views (`@operation`)."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias, get_args

from flask import Flask
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue

from api.amounts import TWO_STYLES, amount_table
from api.auth.owner import RULES, public
from api.deps import deps_of
from api.document.requests import RequestExample, links, request_examples
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
from api.reads import POSITION, POSITION_DOC
from api.webhooks.schema import TRANSFER_CHANGED

Json = dict[str, Any]
_Refusals: TypeAlias = Mapping[int, Sequence[str]]
"""Status → codes."""

EVERYWHERE: _Refusals = {
    400: ("BAD_QUERY",),
    413: ("BODY_TOO_LARGE",),
    414: ("URI_TOO_LONG",),
    431: ("HEADERS_TOO_LARGE",),
    500: ("INTERNAL",),
    503: ("OVERLOADED",),
}
"""Refusals of every path."""
GUARDED: _Refusals = {
    401: ("UNAUTHORIZED",),
    403: ("NO_STELLAR_WALLET", "WALLET_CHANGED"),
    503: ("IDENTITY_UNAVAILABLE", "DATABASE_UNAVAILABLE"),
}
"""Refusals of every path that requires a token."""
COUNTED: _Refusals = {429: ("TOO_MANY",)}
"""Refusals of every path with a rate limit (`api.rate_limits`)."""

_OUTSIDE_THE_APP = frozenset({413, 414, 429, 431, 500, 503})
"""Statuses that the proxy or the server also answers with: such an answer has no request id."""
_REQUEST_ID = HeaderDoc("X-Request-Id", "Id of this request in the service's log.")
_USUAL_HEADERS: Mapping[int, tuple[HeaderDoc, ...]] = {
    401: (HeaderDoc("WWW-Authenticate", "`Bearer`"),),
    # The proxy counts connections, which has no such budget.
    429: (RETRY_AFTER, *(replace(each, always=False) for each in RATE_LIMITS)),
    503: (RETRY_AFTER,),
}

_INFO = """
Moves stablecoins between EVM chains and Stellar, and publishes the order book of liquidity
providers who swap USDC for fiat money.

- Every error is JSON: `message` is for people and may change, `code` is stable.
- New members may be added at any time: ignore unknown members.
- Every `GET` path also answers `HEAD`, and every path `OPTIONS`.
- The log has a request under your `X-Request-Id` (8 to 64 of `A-Za-z0-9._-`), if you send one.
- The [stream](/asyncapi.json) sends changes of the order book.
"""
_BEARER: Json = {
    "type": "http",
    "scheme": "bearer",
    "bearerFormat": "JWT",
    "description": "A token of ours (SEP-10 login), or the identity provider's access token.",
}


def openapi(app: Flask) -> Json:
    """The document."""
    components = Components()
    requests = request_examples(deps_of(app).network)
    paths: dict[str, Json] = {}
    for rule in sorted(app.url_map.iter_rules(), key=lambda rule: rule.rule):
        operation = operation_of(app.view_functions[rule.endpoint])
        if operation is None:
            continue
        hooks = app.before_request_funcs.get(rule.endpoint.rpartition(".")[0], [])
        is_public = next(hook for hook in hooks if hook in RULES) is public
        is_counted = rule.rule not in UNLIMITED_PATHS
        refusals = _refusals(operation, is_public=is_public, is_counted=is_counted)
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            path = paths.setdefault(template(rule.rule), {})
            path[method.lower()] = {
                **_operation(
                    operation if is_public else _with_position(operation),
                    refusals,
                    components,
                    requests.get(operation.name, RequestExample()),
                ),
                "security": [] if is_public else [{"bearer": []}],
            }
    document: Json = {
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
        "webhooks": {TRANSFER_CHANGED.name: {"post": _callback(TRANSFER_CHANGED, components)}},
        "components": {
            "schemas": components.schemas,
            "securitySchemes": {"bearer": _BEARER},
        },
    }
    document["info"]["description"] += f"\n\n{TWO_STYLES}\n{_folded(amount_table(document))}"
    return document


def _folded(table: str) -> str:
    """A long table that `/docs` shows on a click."""
    return f"<details><summary>The unit of each amount</summary>\n\n{table}\n</details>"


def _with_position(operation: Operation) -> Operation:
    """Every answer to a request with a token names a position."""
    answers = [replace(each, headers=(*each.headers, POSITION_DOC)) for each in operation.answers]
    return replace(operation, answers=answers)


def template(rule: str) -> str:
    """A path as OpenAPI writes it: `/intents/{order_id}` of `/intents/<order_id>`."""
    return re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule)


def public_refusals(operation: Operation) -> _Refusals:
    """Refusals of an operation that needs no token and has a rate limit."""
    return dict(sorted(_refusals(operation, is_public=True, is_counted=True).items()))


def _refusals(operation: Operation, *, is_public: bool, is_counted: bool) -> _Refusals:
    """An operation's own refusals, those of its parameters, and those of every such path."""
    found: dict[int, dict[str, None]] = {}
    for code in operation.refusals:
        found.setdefault(CODES[code].status, {})[code] = None
    is_queried = any(parameter.place == "query" for parameter in operation.parameters)
    for table in (
        {400: ("REPEATED_PARAMETER",)} if is_queried else {},
        {412: ("NOT_THE_SAME",)} if IF_MATCH in operation.parameters else {},
        {400: ("BAD_POSITION",)} if POSITION in operation.parameters else {},
        {} if is_public else GUARDED,
        COUNTED if is_counted else {},
        EVERYWHERE,
    ):
        for status, codes in table.items():
            found.setdefault(status, {}).update(dict.fromkeys(codes))
    return {status: tuple(codes) for status, codes in found.items()}


class Components:
    """The schemas that the document names, as they come up."""

    def __init__(self) -> None:
        self.schemas: dict[str, Json] = {"Error": _ERROR}

    def schema(self, shape: Any, mode: JsonSchemaMode = "serialization") -> Json:
        """The schema of a type; named types in it become components."""
        schema = dict(_schema_of(shape, mode))
        for name, part in schema.pop("$defs", {}).items():
            self._put(name, part)
        if schema.get("type") == "object" and "title" in schema:
            self._put(name := schema["title"], schema)
            return {"$ref": f"#/components/schemas/{name}"}
        return schema

    def _put(self, name: str, schema: Json) -> None:
        """Raises `ValueError` where two types have one name."""
        schema = {key: value for key, value in schema.items() if key != "title"}
        if self.schemas.setdefault(name, schema) != schema:
            raise ValueError(f"two response types are called {name}")


@cache
def _schema_of(shape: Any, mode: JsonSchemaMode) -> Mapping[str, Any]:
    """The same for every app, and most of the work of a document."""
    return TypeAdapter(shape).json_schema(
        mode=mode,
        ref_template="#/components/schemas/{model}",
        schema_generator=_SchemaGenerator,
    )


class _SchemaGenerator(GenerateJsonSchema):
    """Leaves out titles of members, which repeat names, and `default: null`.

    Generators of typed clients make a member with that default required.
    """

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        made = super().default_schema(schema)
        return {name: value for name, value in made.items() if (name, value) != ("default", None)}


_ERROR: Json = {
    "type": "object",
    "description": "The body of every error.",
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


def _operation(
    operation: Operation, refusals: _Refusals, components: Components, request: RequestExample
) -> Json:
    responses = {
        **{str(status): _refusal(operation, status, refusals[status]) for status in refusals},
        **{str(each.status): _answer(operation, each, components) for each in operation.answers},
    }
    shown: Json = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "parameters": [
            _parameter(each, request.parameters.get(each.name)) for each in operation.parameters
        ],
        "responses": dict(sorted(responses.items())),
    }
    if operation.description:
        shown["description"] = operation.description
    if operation.body is not None:
        schema = components.schema(operation.body, "validation")
        media: Json = {"schema": schema}
        if request.body is not None:
            media["example"] = request.body
        shown["requestBody"] = {"required": True, "content": {JSON: media}}
    return shown


def _callback(callback: CallbackDoc, components: Components) -> Json:
    body = {JSON: {"schema": components.schema(callback.shape)}}
    return {
        "operationId": callback.name,
        "tags": [callback.tag],
        "summary": callback.summary,
        "description": callback.description,
        "parameters": [
            _parameter(Parameter(each.name, each.meaning, each.schema, "header", required=True))
            for each in callback.headers
        ],
        "requestBody": {"required": True, "content": body},
        "responses": {
            status: {"description": meaning} for status, meaning in callback.answers.items()
        },
    }


def _parameter(parameter: Parameter, example: str | int | None = None) -> Json:
    shown = {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.required,
        "description": parameter.meaning,
        "schema": dict(parameter.schema),
    }
    return shown if example is None else shown | {"example": example}


def _answer(operation: Operation, answer: ResponseDoc, components: Components) -> Json:
    shown: Json = {
        "description": answer.meaning,
        "headers": _headers(answer.status, answer.headers),
    }
    if answer.shape is not None:
        media: Json = {"schema": components.schema(answer.shape)}
        example = examples(operation.name).get(str(answer.status))
        if example is not None:
            media["example"] = example
        shown["content"] = {answer.media_type: media}
        if linked := links(operation.name):
            shown["links"] = linked
    return shown


def _refusal(operation: Operation, status: int, codes: Sequence[str]) -> Json:
    known = {**examples("*"), **examples(operation.name)}
    media: Json = {
        "schema": {
            "allOf": [{"$ref": "#/components/schemas/Error"}],
            "properties": {"code": {"enum": list(codes)}},
        },
        "examples": {code: {"value": known[code]} for code in codes if code in known},
    }
    own = operation.refusal_headers.get(status, ())
    return {
        "description": "\n".join(f"- `{code}`: {CODES[code].meaning}" for code in codes),
        "headers": _headers(status, (*own, *_USUAL_HEADERS.get(status, ()))),
        "content": {JSON: media},
    }


def _headers(status: int, headers: Iterable[HeaderDoc]) -> Json:
    """With the request id, which is there unless the answer may come from outside of the app."""
    request_id = replace(_REQUEST_ID, always=status not in _OUTSIDE_THE_APP)
    return {
        header.name: {
            "description": header.meaning,
            "schema": dict(header.schema),
            **({} if header.always else {"required": False}),
        }
        for header in (*headers, request_id)
    }


@cache
def examples(operation: str) -> Mapping[str, Any]:
    """Status, or code of a refusal → a real answer (`*`: to any request)."""
    known: Mapping[str, Mapping[str, Any]] = json.loads(EXAMPLES.read_bytes())
    return known.get(operation, {})


EXAMPLES = Path(__file__).parent / "document" / "examples.json"
"""Real answers; a test asks for them again (`tests/api/document/test_examples.py`)."""
