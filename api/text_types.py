"""Types of text members that several response schemas have."""

from typing import Annotated, TypeAlias

from pydantic import Field

Decimal7: TypeAlias = Annotated[
    str,
    Field(
        pattern=r"^-?(0|[1-9][0-9]*)(\.[0-9]{0,6}[1-9])?$",
        description="A decimal of at most 7 places: no exponent, no trailing zeros.",
    ),
]
BaseUnitsText: TypeAlias = Annotated[
    str,
    Field(
        pattern="^(0|[1-9][0-9]*)$",
        description="A whole number of the base units of the chain's own asset.",
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
        description="ISO 8601, UTC, to the microsecond where that is known.",
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
