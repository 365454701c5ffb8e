"""Holds answers of an app against what the OpenAPI document says of them."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from jsonschema import Draft202012Validator
from werkzeug.exceptions import HTTPException
from werkzeug.test import TestResponse

from api.openapi import openapi, template
from api.operation import Operation, operation_of

Json = dict[str, Any]


class CheckedClient(FlaskClient):
    """A test client that fails on an answer that is not documented."""

    def open(self, *args: Any, **kwargs: Any) -> TestResponse:
        response = super().open(*args, **kwargs)
        problems = list(complaints(self.application, response))
        assert not problems, "\n".join(problems)
        return response


def complaints(app: Flask, response: TestResponse) -> Iterator[str]:
    """Where the answer is not what the document says; nothing for what is not in the document."""
    request = response.request
    try:
        rule, _ = app.url_map.bind("").match(request.path, request.method, return_rule=True)
    except HTTPException:
        return
    if rule.endpoint not in operations(app) or request.method == "OPTIONS":
        return
    method = "get" if request.method == "HEAD" else request.method.lower()
    where = f"{request.method} {request.path} → {response.status_code}"
    document = _document(app)
    answers = document["paths"][template(rule.rule)][method]["responses"]
    if str(response.status_code) not in answers:
        yield f"{where} {response.text}: the document knows {', '.join(answers)}"
        return
    answer = answers[str(response.status_code)]
    for name, header in answer["headers"].items():
        if header.get("required", True) and name not in response.headers:
            yield f"{where}: the document promises {name}"
    if request.method != "HEAD":
        yield from (f"{where}: {problem}" for problem in _body(answer, response, document))


def operations(app: Flask) -> Mapping[str, Operation]:
    """Endpoint → what its view is described with; pages for browsers have nothing."""
    found = {endpoint: operation_of(view) for endpoint, view in app.view_functions.items()}
    return {endpoint: each for endpoint, each in found.items() if each is not None}


def _body(answer: Json, response: TestResponse, document: Json) -> Iterator[str]:
    content = answer.get("content", {})
    if not content:
        if response.data:
            yield "the document says nothing of a body"
        return
    if response.mimetype not in content:
        yield f"is {response.mimetype}, the document knows {', '.join(content)}"
        return
    if response.mimetype == "application/json" and "Content-Encoding" not in response.headers:
        schema = content[response.mimetype]["schema"]
        yield from violations(response.json, schema, document["components"]["schemas"])


def violations(value: Any, schema: Json, schemas: Json) -> Iterator[str]:
    """What is wrong with a value; a member that no schema names is wrong, too."""
    whole = {**strict(schema), "components": {"schemas": strict(schemas)}}
    for error in Draft202012Validator(whole).iter_errors(value):
        yield f"{error.json_path}: {error.message}"


def strict(schema: Any) -> Any:
    """The schema, with no room for what it does not name. An `Error` may say more."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: strict(part) for name, part in copy.copy(schema).items()}
    is_shape = schema.get("type") == "object" and "properties" in schema
    if is_shape and "code" not in schema["properties"]:
        closed.setdefault("additionalProperties", False)
    return closed


def _document(app: Flask) -> Json:
    """Made once for all apps with these paths: tests make hundreds of one kind."""
    paths = frozenset((rule.rule, rule.endpoint) for rule in app.url_map.iter_rules())
    held = _HELD.get(paths)
    if held is None:
        held = _HELD[paths] = openapi(app)
    return held


_HELD: dict[frozenset[tuple[str, str]], Json] = {}
