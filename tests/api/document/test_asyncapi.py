"""`/asyncapi.json` describes the stream."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft7Validator
from sqlalchemy import create_engine

from api.openapi import examples, openapi
from api.stream.client import CLOSE_REASONS
from api.stream.requests import parse_subscribe_request
from tests.documented import violations
from tests.factories.app import make_app

ROOT = Path(__file__).resolve().parents[3]
SPECIFICATION = ROOT / "node_modules/@asyncapi/specs/schemas/3.0.0-without-$id.json"


@pytest.fixture(scope="module")
def document():
    app = make_app(create_engine("postgresql+psycopg://not-used"))
    return app.test_client().get("/asyncapi.json").json


def test_document_is_valid_asyncapi_3(document):
    errors = Draft7Validator(json.loads(SPECIFICATION.read_bytes())).iter_errors(document)
    assert [error.message for error in errors] == []


def test_invalid_document_fails_the_specification(document):
    schema = json.loads(SPECIFICATION.read_bytes())
    assert not Draft7Validator(schema).is_valid({**document, "channels": 1})


def test_document_lists_every_close_reason(document):
    listed = document["channels"]["stream"]["x-close-codes"]
    assert [(each["code"], each["reason"]) for each in listed] == [
        (ending.code, ending.reason) for ending in CLOSE_REASONS
    ]


def test_document_lists_handshake_refusals(document):
    listed = document["channels"]["stream"]["x-handshake-refusals"]
    app = make_app(create_engine("postgresql+psycopg://not-used"))
    responses = openapi(app)["paths"]["/api/v1/stream"]["get"]["responses"]
    refusals = {
        (int(status), code)
        for status, answer in responses.items()
        if "content" in answer
        for code in answer["content"]["application/json"]["schema"]["properties"]["code"]["enum"]
    }
    assert {(each["status"], each["code"]) for each in listed} == refusals
    assert {(429, "TOO_MANY"), (429, "TOO_MANY_STREAMS"), (503, "STREAM_FULL")} <= refusals


def test_every_parameter_is_parsed_by_the_server(document):
    query = document["channels"]["stream"]["bindings"]["ws"]["query"]["properties"]
    values = {
        "rail": "wise",
        "currency": "EUR",
        "direction": "onramp",
        "provider": "GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN",
        "channel": "intent",
        "markers": "1",
        "after": "5",
    }
    assert set(query) == set(values)
    for name, value in values.items():
        assert parse_subscribe_request({name: value}) != parse_subscribe_request({}), name


def test_message_examples_match_their_schemas(document):
    schemas = document["components"]["schemas"]
    for name, message in document["components"]["messages"].items():
        [example] = message["examples"]
        assert example["payload"] == examples("openStream")[name]
        assert not list(violations(example["payload"], message["payload"], schemas)), name
