"""Requests about transfers, parsed and validated."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import Field, field_validator

from api.errors import BadRequest
from api.operation import Parameter
from api.parsing import Strict, canonical_hex, read_limit

IDEMPOTENCY_KEY = Parameter(
    "Idempotency-Key",
    "A new value for each new transfer, such as a UUID.",
    {"type": "string", "pattern": "^[!-~]{1,255}$"},
    "header",
    required=True,
)
BEFORE = Parameter(
    "before",
    "Exclusive upper bound of `started_at`: `next_before` of the page before.",
    {"type": "string", "format": "date-time"},
)

_IDEMPOTENCY_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_SPACED_OFFSET = re.compile(r"^(.{10}[T ][0-9:.,]+) ([0-9]{2}:?[0-9]{2})$")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.,]{5,20}(Z|[+-][0-9]{2}:?[0-9]{2})?)?")


class NewTransfer(Strict):
    """The body of `POST /v1/transfers`."""

    # The schema alone names the pattern: another text is a quote that does not exist, 404.
    quote_id: str = Field(json_schema_extra={"pattern": "^(0[xX])?[0-9a-fA-F]{32}$"})

    @field_validator("quote_id")
    @classmethod
    def _read_quote_id(cls, text: str) -> str:
        return canonical_hex(text, 32) or text

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the body, 64 hex digits: equal for bodies that mean the same."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class TransferPageRequest:
    """A page of a list of transfers."""

    before: datetime | None
    limit: int


def read_idempotency_key(text: str | None) -> str:
    """The value of the `Idempotency-Key` header. Raises `BadRequest`."""
    if text is None or not _IDEMPOTENCY_KEY.fullmatch(text):
        raise BadRequest(
            "Idempotency-Key must be a header of 1 to 255 visible ASCII characters, such as a "
            "UUID: a new one for each transfer, the same one in a repeated request",
            code="BAD_IDEMPOTENCY_KEY",
        )
    return text


def read_page(query: Mapping[str, str]) -> TransferPageRequest:
    """Raises `BadRequest` that names the parameter."""
    before = _read_time(query["before"]) if query.get("before") else None
    return TransferPageRequest(before, read_limit(query))


def _read_time(text: str) -> datetime:
    # An unescaped `+` in a query string means a space.
    text = _SPACED_OFFSET.sub(r"\1+\2", text)
    try:
        # `fromisoformat` also reads weeks and other forms that are no times.
        moment = datetime.fromisoformat(text) if _TIME.fullmatch(text) else None
    except ValueError:
        moment = None
    if moment is None:
        raise BadRequest(
            "before must be an ISO 8601 time such as 2026-11-22T08:30:00.123456Z",
            code="BAD_CURSOR",
        )
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
