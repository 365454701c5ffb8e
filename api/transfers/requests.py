"""What requests about transfers say, read strictly."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import field_validator

from api.errors import BadRequest
from api.parsing import Strict, canonical_hex

DEFAULT_LIMIT, LARGEST_LIMIT = 50, 200

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_SPACED_OFFSET = re.compile(r"^(.{10}[T ][0-9:.,]+) ([0-9]{2}:?[0-9]{2})$")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.,]{5,20}(Z|[+-][0-9]{2}:?[0-9]{2})?)?")


class NewTransfer(Strict):
    """The body of `POST /v1/transfers`."""

    quote_id: str

    @field_validator("quote_id")
    @classmethod
    def _read_quote_id(cls, text: str) -> str:
        return canonical_hex(text, 32) or text

    @property
    def fingerprint(self) -> str:
        """SHA-256 of what is asked, 64 hex digits: equal for bodies that ask the same."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class TransferPageRequest:
    """Which part of a list is asked for."""

    before: datetime | None
    limit: int


def read_key(text: str | None) -> str:
    """The idempotency key of a header. Raises `BadRequest`."""
    if text is None or not _KEY.fullmatch(text):
        raise BadRequest(
            "Idempotency-Key must be a header of 1 to 255 visible ASCII characters, such as a "
            "UUID: a new one for each transfer, the same when you ask again",
            code="BAD_IDEMPOTENCY_KEY",
        )
    return text


def read_page(query: Mapping[str, str]) -> TransferPageRequest:
    """Raises `BadRequest` that names the parameter."""
    return TransferPageRequest(_before(query.get("before", "")), _limit(query.get("limit", "")))


def _before(text: str) -> datetime | None:
    if not text:
        return None
    # In a query string a `+` that is not escaped means a space.
    text = _SPACED_OFFSET.sub(r"\1+\2", text)
    try:
        # The library reads more than times, such as weeks.
        moment = datetime.fromisoformat(text) if _TIME.fullmatch(text) else None
    except ValueError:
        moment = None
    if moment is None:
        raise BadRequest(
            "before must be an ISO 8601 time such as 2026-11-22T08:30:00.123456Z",
            code="BAD_CURSOR",
        )
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _limit(text: str) -> int:
    if not text:
        return DEFAULT_LIMIT
    # More digits say no more, and `int` takes its time with them.
    if not (text.isascii() and text.isdecimal() and len(text) < 7 and text.strip("0")):
        limit = 0
    else:
        limit = int(text)
    if not 1 <= limit <= LARGEST_LIMIT:
        raise BadRequest(f"limit must be a number from 1 to {LARGEST_LIMIT}", code="BAD_LIMIT")
    return limit
