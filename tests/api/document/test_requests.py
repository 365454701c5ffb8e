"""Each operation can be sent with its example, or with what a link of a previous answer gives.

`tests/system/e2e/test_documentation.py` sends all of them to a demo.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from eth_account import Account
from jsonschema import Draft202012Validator
from sqlalchemy import create_engine

from api.openapi import openapi
from devnet.customer_story import HOOKED
from devnet.stellar.accounts import address, secret
from indexer.config.networks import load_network
from tests.factories.app import make_app

Json = dict[str, Any]
SIGNED = {("signIn", "transaction")}
"""What only a wallet can make of a previous answer."""


@pytest.fixture(scope="module", params=["devnet", "testnet", "mainnet"])
def document(request: pytest.FixtureRequest) -> Json:
    engine = create_engine("postgresql+psycopg://not-used")
    return openapi(make_app(engine, network=load_network(request.param)))


def test_every_required_value_has_an_example_or_a_link(document: Json) -> None:
    assert set(missing(document)) == SIGNED


def test_planted_operation_without_examples_is_found() -> None:
    path = {"name": "id", "in": "path", "required": True}
    body = {"content": {"application/json": {"schema": {"required": ["url"]}}}}
    planted = {"operationId": "x", "parameters": [path], "requestBody": body, "responses": {}}
    document = {"paths": {"/x": {"post": planted}}, "components": {"schemas": {}}}
    assert list(missing(document)) == [("x", "id"), ("x", "url")]


def test_examples_match_their_schemas(document: Json) -> None:
    for operation in operations(document):
        for each in operation["parameters"]:
            if "example" in each:
                assert Draft202012Validator(each["schema"]).is_valid(each["example"]), each
        media = body_of(operation)
        if "example" in media:
            schema = {**media["schema"], "components": document["components"]}
            assert Draft202012Validator(schema).is_valid(media["example"]), media


def test_links_name_operations_and_members(document: Json) -> None:
    known = {operation["operationId"]: operation for operation in operations(document)}
    seen = 0
    for operation in known.values():
        for name, link in links(operation):
            target, given = known[name], link.get("parameters", {})
            assert given.keys() <= {each["name"] for each in target["parameters"]}
            assert link.get("requestBody", {}).keys() <= set(required_members(document, target))
            seen += 1
    assert seen == 8


def test_devnet_examples_are_of_a_customer_of_the_demo() -> None:
    engine = create_engine("postgresql+psycopg://not-used")
    paths = openapi(make_app(engine, network=load_network("devnet")))["paths"]
    quote = body_of(paths["/v1/quotes"]["post"])["example"]
    assert quote["dest_address"] == address(HOOKED)
    assert quote["source_address"] == Account.from_key(secret(HOOKED)).address.lower()
    [provider, *_] = paths["/api/v1/providers/{address}"]["get"]["parameters"]
    assert provider["example"] == address("chloe")


def missing(document: Json) -> Iterator[tuple[str, str]]:
    """Operation and required member that neither an example nor a link gives."""
    linked = {
        (name, member)
        for operation in operations(document)
        for name, link in links(operation)
        for member in (*link.get("parameters", ()), *link.get("requestBody", ()))
    }
    for operation in operations(document):
        name = operation["operationId"]
        for each in operation["parameters"]:
            is_given = "example" in each or (name, each["name"]) in linked
            if each["required"] and not is_given:
                yield name, each["name"]
        example = body_of(operation).get("example", {})
        for member in required_members(document, operation):
            if member not in example and (name, member) not in linked:
                yield name, member


def operations(document: Json) -> Iterator[Json]:
    for methods in document["paths"].values():
        yield from methods.values()


def links(operation: Json) -> Iterator[tuple[str, Json]]:
    """Links of an operation's `201`: the operation, and what it is given."""
    yield from operation["responses"].get("201", {}).get("links", {}).items()


def body_of(operation: Json) -> Json:
    media: Json = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return media


def required_members(document: Json, operation: Json) -> list[str]:
    schema = body_of(operation).get("schema", {})
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return list(schema.get("required", ()))
