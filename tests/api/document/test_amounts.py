"""Each amount of the OpenAPI document declares its unit, and docs/api.md lists them all."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from sqlalchemy import create_engine

from api.amounts import UNIT, amount_table
from api.openapi import openapi
from tests.factories.app import make_app

RULES = (Path(__file__).resolve().parents[3] / "docs" / "api.md").read_text()
NAME = re.compile(
    r"amount|usdc|fee(s|_?rate|_bps|$)|bps|price|^rate$|reserve|value$|total|swept|returned|owed"
    r"|received|pending_below",
    re.IGNORECASE,
)
"""What an amount is called."""
NO_AMOUNT = {
    # Objects: their members have the units.
    *("Quote.fee", "Route.fee"),
    # A part of orders.
    "ProviderActivity.fillRate",
    # Number of an event.
    "?after=",
}
Json = dict[str, Any]


@pytest.fixture(scope="module")
def document() -> Json:
    return openapi(make_app(create_engine("postgresql+psycopg://not-used")))


def test_every_amount_declares_its_unit(document: Json) -> None:
    assert set(without_unit(document)) == NO_AMOUNT


@pytest.mark.parametrize(
    ("member", "schema"),
    [
        ("amount_in", {"type": "string"}),
        ("feeUsdc", {"type": "integer"}),
        ("change", {"type": "string", "pattern": "^(0|[1-9][0-9]*)$"}),
        ("change", {"anyOf": [{"type": "string", "pattern": r"^[0-9]{1,32}$"}, {"type": "null"}]}),
    ],
)
def test_planted_amount_without_unit_is_found(member: str, schema: Json) -> None:
    schemas = {"Planted": {"properties": {member: schema}}}
    document = {"paths": {}, "components": {"schemas": schemas}}
    assert list(without_unit(document)) == [f"Planted.{member}"]


def test_example_of_every_amount_is_valid(document: Json) -> None:
    checked = 0
    for name, schema in members(document):
        if UNIT in schema:
            [example] = schema["examples"]
            assert Draft202012Validator(schema).is_valid(example), name
            checked += 1
    assert checked > 30


def test_rules_list_exactly_the_amounts(document: Json) -> None:
    listed = dict(re.findall(r"^\| `([?\w.=]+)` \| ([^|]+) \| `[^|]+` \|$", RULES, re.MULTILINE))
    assert listed == {name: schema[UNIT] for name, schema in members(document) if UNIT in schema}


def test_document_explains_amounts(document: Json) -> None:
    assert amount_table(document) in document["info"]["description"]


def without_unit(document: Json) -> Iterator[str]:
    """Members that look like an amount, by name or pattern, and have no unit."""
    for name, schema in members(document):
        member = name.rpartition(".")[2].strip("?=")
        if (NAME.search(member) or is_numeric_text(schema)) and UNIT not in schema:
            yield name


def is_numeric_text(schema: Json) -> bool:
    """Whether texts of digits match its pattern, and other texts do not."""
    patterns = [each["pattern"] for each in (schema, *schema.get("anyOf", ())) if "pattern" in each]
    return any(re.search(each, "12") and not re.search(each, "ab") for each in patterns)


def members(document: Json) -> Iterator[tuple[str, Json]]:
    """Members of all schemas and query parameters."""
    for path in document["paths"].values():
        for operation in path.values():
            for each in operation["parameters"]:
                if each["in"] == "query":
                    yield f"?{each['name']}=", each["schema"]
    for name, schema in document["components"]["schemas"].items():
        for member, part in schema.get("properties", {}).items():
            yield f"{name}.{member}", part
