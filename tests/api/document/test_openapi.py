"""`/openapi.json` describes every operation of the app and no other."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from limits import parse
from openapi_spec_validator import OpenAPIV31SpecValidator
from sqlalchemy import Engine, create_engine

from api.auth.owner import RULES, public
from api.errors import CODES
from api.openapi import EVERYWHERE, examples, template
from api.operation import RATE_LIMITS
from api.rate_limits import OWNER, READS, SIGN_IN, RateBudgets, RateLimiter
from tests.documented import operations as described
from tests.documented import violations
from tests.factories.app import make_app

PAGES = {
    *("pages.show_market", "pages.show_transfers", "pages.show_status", "pages.send_asset"),
    *("document.show_page", "document.send_asset"),
    # The same path as `stream.ask_to_upgrade`, once it is a WebSocket's.
    "stream.open_stream",
}
"""Endpoints for people's browsers, which are no part of what a client is promised."""


@pytest.fixture(scope="module")
def engine_of_none() -> Engine:
    return create_engine("postgresql+psycopg://nobody@127.0.0.1:1/none?connect_timeout=1")


@pytest.fixture(scope="module")
def app(engine_of_none: Engine) -> Flask:
    return make_app(engine_of_none)


@pytest.fixture(scope="module")
def document(app: Flask) -> dict[str, Any]:
    response = app.test_client().get("/openapi.json")
    assert response.content_type == "application/json"
    whole: dict[str, Any] = response.json or {}
    return whole


def operations(document) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def test_document_is_valid_openapi_3_1(document):
    assert document["openapi"].startswith("3.1.")
    OpenAPIV31SpecValidator(document).validate()


def test_document_paths_equal_the_routes(app, document):
    routed = {
        (template(rule.rule), method.lower())
        for rule in app.url_map.iter_rules()
        if rule.endpoint not in PAGES
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    assert {(path, method) for path, method, _ in operations(document)} == routed


def test_views_except_pages_are_operations(app):
    assert described(app).keys() == {rule.endpoint for rule in app.url_map.iter_rules()} - PAGES


def test_path_parameters_equal_the_template(document):
    for path, _, operation in operations(document):
        named = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
        assert named == set(re.findall(r"{(\w+)}", path)), path


def test_security_equals_the_blueprints_rule(app, document):
    for rule in app.url_map.iter_rules():
        if rule.endpoint in PAGES:
            continue
        hooks = app.before_request_funcs[rule.endpoint.rpartition(".")[0]]
        is_open = next(hook for hook in hooks if hook in RULES) is public
        for operation in document["paths"][template(rule.rule)].values():
            assert (operation["security"] == []) == is_open, rule


def test_operation_ids_are_unique_with_summary_and_tag(document):
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(names)) == len(names)
    for path, _, operation in operations(document):
        assert operation["summary"], path
        assert len(operation["tags"]) == 1, path


def test_error_codes_exist_under_their_status(document):
    for path, _, operation in operations(document):
        for status, answer in operation["responses"].items():
            for media in answer.get("content", {}).values():
                codes = media["schema"].get("properties", {}).get("code", {}).get("enum", [])
                assert all(CODES[code].status == int(status) for code in codes), (path, status)


def test_common_responses_are_in_every_operation(document):
    for path, _, operation in operations(document):
        for status in EVERYWHERE:
            assert str(status) in operation["responses"], path


def test_rate_limited_paths_document_429(engine_of_none, document):
    limiter = RateLimiter(RateBudgets(dict.fromkeys((READS, SIGN_IN, OWNER), parse("1/minute"))))
    client = make_app(engine_of_none, limiter=limiter).test_client()
    for path, method, operation in operations(document):
        # Twice and held against the document each time (`CheckedClient`).
        url = re.sub(r"{\w+}", "x", path)
        codes = [(client.open(url, method=method).json or {}).get("code") for _ in "ab"]
        limited = operation["responses"].get("429")
        assert (codes[1] == "TOO_MANY") == (limited is not None), path
        if limited is not None:
            own = limited["content"]["application/json"]["schema"]["properties"]["code"]["enum"]
            assert "TOO_MANY" in own, path
            # nginx counts connections, and sends neither a budget nor a request id.
            for name in (*(each.name for each in RATE_LIMITS), "X-Request-Id"):
                assert limited["headers"][name]["required"] is False, path
            assert "required" not in limited["headers"]["Retry-After"], path


def test_examples_match_their_schemas(document):
    schemas = document["components"]["schemas"]
    seen = 0
    for path, _, operation in operations(document):
        for status, answer in operation["responses"].items():
            for media in answer.get("content", {}).values():
                shown = [each["value"] for each in media.get("examples", {}).values()]
                for value in [*shown, *([media["example"]] if "example" in media else [])]:
                    assert not list(violations(value, media["schema"], schemas)), (path, status)
                    seen += 1
    assert seen > 30


def test_success_and_error_codes_have_examples(document):
    missing = []
    for _, _, operation in operations(document):
        name = operation["operationId"]
        for status, answer in operation["responses"].items():
            for media in answer.get("content", {}).values():
                codes = media["schema"].get("properties", {}).get("code", {}).get("enum")
                wanted = {status} if codes is None else set(codes)
                missing += [
                    f"{name}: {each}"
                    for each in wanted - examples(name).keys() - examples("*").keys()
                ]
    # They would be the whole document once more.
    assert set(missing) == {"showOpenapi: 200", "showAsyncapi: 200"}


def test_document_ignores_the_host_header(app, document):
    again = app.test_client().get("/openapi.json", headers={"Host": "evil.example"})
    assert again.json == document


def test_unchanged_document_returns_304(app):
    first = app.test_client().get("/openapi.json")
    again = app.test_client().get("/openapi.json", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
