"""Types of text members that several response schemas have."""

from typing import Annotated, TypeAlias

from pydantic import Field

Decimal7: TypeAlias = Annotated[
    str,
    Field(
        pattern=r"^-?(0|[1-9][0-9]*)(\.[0-9]{0,6}[1-9])?$",
        description="A decimal with at most 7 places, without exponent or trailing zeros.",
    ),
]
BaseUnitsText: TypeAlias = Annotated[
    str,
    Field(
        pattern="^(0|[1-9][0-9]*)$",
        description="An integer in base units of the asset.",
    ),
]
Time: TypeAlias = Annotated[
    str,
    Field(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$",
        description="ISO 8601, UTC, whole seconds.",
    ),
]
TimeText: TypeAlias = Annotated[
    str,
    Field(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{6})?Z$",
        description="ISO 8601, UTC, with microseconds where known.",
    ),
]
Holder: TypeAlias = Annotated[
    str,
    Field(
        pattern="^[GC][A-Z2-7]{55}$",
        description="A Stellar account (`G…`) or contract (`C…`), with a valid checksum.",
        json_schema_extra={"format": "stellar-holder"},
    ),
]
AccountText: TypeAlias = Annotated[
    str,
    Field(
        pattern="^G[A-Z2-7]{55}$",
        description="A Stellar account (`G…`), with a valid checksum.",
        json_schema_extra={"format": "stellar-account"},
    ),
]
Hash: TypeAlias = Annotated[
    str, Field(pattern="^[0-9a-f]{64}$", description="32 bytes as 64 lower-case hex digits.")
]
