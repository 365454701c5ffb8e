"""The words in which a feature says what its paths take and answer, for `openapi.py`.

Each feature has a `description.py` with `OPERATIONS`: endpoint of the app → `Operation`. What a
body looks like is not repeated there: the operation names the type that `responses.py` returns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

Schema: TypeAlias = Mapping[str, Any]
"""A JSON Schema (2020-12)."""
ParameterPlace: TypeAlias = Literal["query", "path", "header"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """Something a request can say beside its body."""

    name: str
    meaning: str
    schema: Schema
    place: ParameterPlace = "query"
    required: bool = False


@dataclass(frozen=True, slots=True)
class HeaderDoc:
    """A header of an answer."""

    name: str
    meaning: str
    schema: Schema = field(default_factory=lambda: {"type": "string"})
    always: bool = True
    """Whether every answer of the status has it."""


@dataclass(frozen=True, slots=True)
class ResponseDoc:
    """A status that is no refusal. `shape` is a type that pydantic knows, None for no body."""

    status: int
    meaning: str
    shape: Any = None
    media_type: str = "application/json"
    headers: Sequence[HeaderDoc] = ()


@dataclass(frozen=True, slots=True)
class RequestBodyDoc:
    """The JSON that a request carries."""

    shape: Any


@dataclass(frozen=True, slots=True)
class Operation:
    """A method of a path. What every path may answer (`openapi.EVERYWHERE`) is not said here."""

    name: str
    """Its `operationId`: stable, clients are generated from it."""
    tag: str
    summary: str
    answers: Sequence[ResponseDoc]
    description: str = ""
    parameters: Sequence[Parameter] = ()
    body: RequestBodyDoc | None = None
    refusals: Mapping[int, Sequence[str]] = field(default_factory=dict)
    """Status → the `code`s that it can come with."""
    refusal_headers: Mapping[int, Sequence[HeaderDoc]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CallbackDoc:
    """What we post to a client's own place, and what its answers mean."""

    name: str
    """Its `operationId`."""
    tag: str
    summary: str
    description: str
    headers: Sequence[HeaderDoc]
    shape: Any
    answers: Mapping[str, str]
    """Status, or `2XX` and the like → what follows."""


# What more than one feature shows.

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

WHOLE: Schema = {"type": "integer", "minimum": 0}

ETAG = HeaderDoc("ETag", "Of these very bytes: send it back as `If-None-Match` and get a `304`.")
CACHE_CONTROL = HeaderDoc("Cache-Control", "`no-cache`: keep it, and ask whether it still holds.")
RETRY_AFTER = HeaderDoc("Retry-After", "Seconds after which trying again can help.", WHOLE)

RATE_LIMITS = (
    HeaderDoc("RateLimit-Policy", '`"reads";q=6000;w=60`: the budget, its requests, its seconds.'),
    HeaderDoc("RateLimit", '`"reads";r=0;t=40`: none is left, and in how many seconds all are.'),
)

IF_NONE_MATCH = Parameter(
    "If-None-Match", "Entity tags that the client has.", {"type": "string"}, place="header"
)
IF_MATCH = Parameter(
    "If-Match", "Entity tags of which the answer must be one.", {"type": "string"}, place="header"
)
CONDITIONS = (IF_NONE_MATCH, IF_MATCH)
"""What a request for a tagged answer (`cached`) can say."""


def cached(
    meaning: str,
    shape: Any,
    *,
    media_type: str = "application/json",
    headers: Sequence[HeaderDoc] = (),
) -> tuple[ResponseDoc, ...]:
    """A `200` that is tagged, and the `304` that spares it."""
    ok = ResponseDoc(200, meaning, shape, media_type, headers=(ETAG, CACHE_CONTROL, *headers))
    unchanged = ResponseDoc(
        304, "The client has it already.", headers=(ETAG, CACHE_CONTROL, *headers)
    )
    return ok, unchanged
