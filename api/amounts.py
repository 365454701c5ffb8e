"""Amounts of requests and responses: each declares its unit, and a table lists all of them."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic.fields import FieldInfo

UNIT = "x-unit"
"""Keyword of an amount's schema: its unit, in words."""
USDC = "USDC"
BPS = "basis points"
STROOPS = "stroops (10⁻⁷ XLM)"
SHARED_UNITS = "10⁻⁷ tokens, on every chain"
TWO_STYLES = """\
Two styles of names and amounts:

| style | transfers and the service, `/v1` | order book, `/api/v1` |
|---|---|---|
| names | `snake_case` | `camelCase` |
| amounts | integers in base units of the asset | whole tokens, decimals with at most 7 places |
| 5 USDC | `"5000000"` on an EVM chain (6 decimals), `"50000000"` on Stellar (7 decimals) | `"5"` |

Amounts are strings in both: a floating-point number cannot hold them exactly.
Basis points are integers.
"""


def amount(unit: str, example: str | int, meaning: str = "") -> Any:
    """Declare an amount: `Annotated[BaseUnitsText, amount("wei", "0")]`."""
    return FieldInfo(
        description=f"{meaning} Unit: {unit}.".lstrip(),
        examples=[example],
        json_schema_extra={UNIT: unit},
    )


def amount_table(document: Mapping[str, Any]) -> str:
    """All amounts of an OpenAPI document as a Markdown table: member, unit, example."""
    rows = (
        f"| `{name}` | {schema[UNIT]} | `{_example(schema)}` |\n"
        for name, schema in _members(document)
        if UNIT in schema
    )
    return "| member | unit | example |\n|---|---|---|\n" + "".join(rows)


def _members(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Query parameters, then members of schemas; each once, by name."""
    parameters = {
        f"?{each['name']}=": each["schema"]
        for path in document["paths"].values()
        for operation in path.values()
        for each in operation["parameters"]
        if each["in"] == "query"
    }
    yield from sorted(parameters.items())
    for name, schema in sorted(document["components"]["schemas"].items()):
        for member, part in schema.get("properties", {}).items():
            yield f"{name}.{member}", part


def _example(schema: Mapping[str, Any]) -> str:
    [example] = schema["examples"]
    return f'"{example}"' if isinstance(example, str) else str(example)
