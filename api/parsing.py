"""Strict parsing of requests: unknown, repeated and malformed input is refused by name.

`read_body(Model)` reads a JSON object, `read_body_or_form(Model)` also an HTML form, `read_query`
the query string. All require UTF-8 without NUL. Messages never repeat values: they may be secret.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

from flask import request
from pydantic import BaseModel, ConfigDict, ValidationError

from api.errors import ApiError, BadRequest
from api.operation import DEFAULT_LIMIT, MAX_LIMIT
from indexer.chains.http.client import exceeds_json_depth

MAX_BODY_BYTES = 64 * 1024
"""Of any body; the largest that is used is a Stellar transaction."""
MAX_DEPTH = 32
"""Objects and arrays inside one another."""
MAX_DIGITS = 78
"""Of a JSON integer: amounts are text."""
MAX_PARAMETERS = 64
_MAX_NAME_SHOWN = 64
"""Characters of a client's own name in a message."""
# `int` is slow with thousands of digits.
_NUMBER = re.compile(r"[0-9]{1,18}")
_HEX = re.compile(r"(?:0[xX])?([0-9a-fA-F]+)")

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"


class Strict(BaseModel):
    """Base of every body: no unknown members, no coercion."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


M = TypeVar("M", bound=Strict)


def read_body(model: type[M]) -> M:
    """The request's JSON object. Raises `BadRequest` that names the member.

    Also raises `UNSUPPORTED_MEDIA_TYPE`.
    """
    _require_media_type(JSON)
    return _read_json_body(model)


def read_body_or_form(model: type[M]) -> M:
    """JSON or a form, as the request's Content-Type says. Raises as `read_body`."""
    _require_media_type(JSON, FORM)
    if request.mimetype == JSON:
        return _read_json_body(model)
    fields = _parameters(request.get_data(), model.model_fields, "field", code="BAD_BODY")
    return _validated(lambda: model.model_validate(fields))


def read_query(known: Collection[str], *, others: bool = False) -> dict[str, str]:
    """The query's parameters; `others`: unknown ones are ignored.

    Raises `BadRequest` that names the parameter.
    """
    if not request.query_string:
        return {}
    return _parameters(request.query_string, known, "parameter", others=others)


def read_limit(query: Mapping[str, str]) -> int:
    """The parameter `LIMIT`; an empty value is the same as none. Raises `BadRequest`."""
    text = query.get("limit") or str(DEFAULT_LIMIT)
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= MAX_LIMIT:
        raise BadRequest(f"limit must be a number from 1 to {MAX_LIMIT}", code="BAD_LIMIT")
    return int(text)


def validate_query() -> None:
    """Check the query string's encoding before every request. Raises `BadRequest`."""
    if request.query_string:
        _decode(unquote_to_bytes(request.query_string), "the query string", "BAD_QUERY")


def canonical_hex(text: str, digits: int) -> str | None:
    """Hex in lower case without `0x`; None if it is not that many digits."""
    found = _HEX.fullmatch(text)
    return found[1].lower() if found and len(found[1]) == digits else None


def _require_media_type(*accepted: str) -> None:
    if request.mimetype not in accepted:
        wanted = " or ".join(accepted)
        raise ApiError(f"the body must be {wanted}", code="UNSUPPORTED_MEDIA_TYPE")
    charset = request.mimetype_params.get("charset", "utf-8")
    if charset.lower() not in ("utf-8", "utf8"):
        raise ApiError("the body must be UTF-8", code="UNSUPPORTED_MEDIA_TYPE")


def _decode(raw: bytes, what: str, code: str) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"{what} is not UTF-8", code=code) from error
    if "\0" in text:
        raise BadRequest(f"{what} holds a NUL", code=code)
    return text


def _read_json_body(model: type[M]) -> M:
    """Refuse what JSON parsers disagree about, then let pydantic parse the bytes again.

    Only from bytes does pydantic judge JSON's types as strictly as Python's.
    """
    raw = request.get_data()
    text = _decode(raw, "the body", "BAD_BODY")
    if exceeds_json_depth(text, MAX_DEPTH):
        raise _bad_body(f"the body is more than {MAX_DEPTH} objects and arrays deep")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_parse_object,
            parse_constant=_refuse_constant,
            parse_float=_parse_float,
            parse_int=_parse_int,
        )
    except json.JSONDecodeError as error:
        raise _bad_body(f"the body is no JSON: {error.msg} at {error.pos}") from error
    _check_texts(value)
    if not isinstance(value, dict):
        raise _bad_body("the body must be a JSON object")
    return _validated(lambda: model.model_validate_json(raw))


def _parse_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        repeated = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise _bad_body(f"the body names {_shown(repeated)} twice")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise _bad_body(f"the body holds {name}, which is no number")


def _parse_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _bad_body("the body holds a number that is too large")
    return value


def _parse_int(text: str) -> int:
    # Checked first: conversion takes time with the square of the length.
    if len(text) > MAX_DIGITS:
        raise _bad_body("the body holds a number that is too large")
    return int(text)


def _check_texts(value: Any) -> None:
    """Refuse text that JSON's `\\u` can express and neither UTF-8 nor Postgres can hold."""
    if isinstance(value, str):
        if "\0" in value:
            raise _bad_body("the body holds a NUL")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise _bad_body("the body holds half of a surrogate pair") from error
    elif isinstance(value, dict):
        for name, member in value.items():
            _check_texts(name)
            _check_texts(member)
    elif isinstance(value, list):
        for item in value:
            _check_texts(item)


def _parameters(
    raw: bytes, known: Collection[str], what: str, *, others: bool = False, code: str = "BAD_QUERY"
) -> dict[str, str]:
    """Parameters of a query, or fields of a form."""
    _decode(unquote_to_bytes(raw), f"a {what}", code)
    try:
        pairs = parse_qsl(raw.decode(), keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError as error:
        raise BadRequest(f"there are more than {MAX_PARAMETERS} {what}s", code=code) from error
    found: dict[str, str] = {}
    for name, value in pairs:
        if name not in known:
            if others:
                continue
            raise BadRequest(f"unknown {what} {_shown(name)}", code="UNKNOWN_PARAMETER")
        if name in found:
            raise BadRequest(f"{what} {name} is given twice", code="REPEATED_PARAMETER")
        found[name] = value
    return found


def _validated(validate: Callable[[], M]) -> M:
    try:
        return validate()
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            message = f"unknown member {_shown(where)}"
        elif first["type"] == "missing":
            message = f"{where} is missing"
        else:
            message = f"{_shown(where)}: {first['msg']}" if where else str(first["msg"])
        raise _bad_body(message) from None


def _bad_body(message: str) -> BadRequest:
    return BadRequest(message, code="BAD_BODY")


def _shown(name: str) -> str:
    """A client's own name as a message quotes it."""
    return repr(name if len(name) <= _MAX_NAME_SHOWN else f"{name[:_MAX_NAME_SHOWN]}…")
