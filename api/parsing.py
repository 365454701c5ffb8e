"""What comes in, read strictly: what is not understood is refused, by name.

`read_body(Model)` reads a JSON object, `read_body_or_form(Model)` also an HTML form, `read_query`
the query string. All require UTF-8 without NUL and refuse repeated names. Values are never repeated
in a message: they may be secret.
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

from api.errors import BadRequest, UnsupportedMediaType
from indexer.chains.http.client import exceeds_json_depth

MAX_BODY_BYTES = 64 * 1024
"""Of any body; the largest that this service has use for is a Stellar transaction."""
MAX_DEPTH = 32
"""Objects and arrays inside one another."""
MAX_DIGITS = 78
"""Of a whole number: amounts are text, and none is longer."""
MAX_PARAMETERS = 64
_MOST_SHOWN = 64
"""Characters of a client's own name for something."""

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"


class Strict(BaseModel):
    """Base of every body: no member that is not named, and no value that has to be guessed at."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


M = TypeVar("M", bound=Strict)


def read_body(model: type[M]) -> M:
    """The request's JSON object. Raises `WrongMediaType`, or `BadRequest` that names the member."""
    _expect(JSON)
    return _body(model)


def read_body_or_form(model: type[M]) -> M:
    """Whichever of the two the request says it is."""
    _expect(JSON, FORM)
    return _body(model) if request.mimetype == JSON else _form(model)


def read_query(known: Collection[str], *, others: bool = False) -> dict[str, str]:
    """The query's parameters; `others`: those that are not known are left alone.

    Raises `BadRequest` that names the parameter.
    """
    if not request.query_string:
        return {}
    return _parameters(request.query_string, known, "parameter", others=others)


def validate_query() -> None:
    """Before every request: nobody has to think of these any more. Raises `BadRequest`."""
    if request.query_string:
        _decoded(unquote_to_bytes(request.query_string), "the query string", "BAD_QUERY")


def _expect(*kinds: str) -> None:
    if request.mimetype not in kinds:
        raise UnsupportedMediaType(f"the body must be {' or '.join(kinds)}")
    charset = request.mimetype_params.get("charset", "utf-8")
    if charset.lower() not in ("utf-8", "utf8"):
        raise UnsupportedMediaType("the body must be UTF-8")


def _body(model: type[M]) -> M:
    raw = request.get_data()
    _read_json(_decoded(raw, "the body", "BAD_BODY"))
    # Read once more, from the bytes: only so does pydantic judge JSON's types as strictly as
    # Python's. What the two might read differently was refused above.
    return _checked(lambda: model.model_validate_json(raw))


def _form(model: type[M]) -> M:
    fields = _parameters(request.get_data(), model.model_fields, "field", code="BAD_BODY")
    return _checked(lambda: model.model_validate(fields))


def _decoded(raw: bytes, what: str, code: str) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"{what} is not UTF-8", code=code) from error
    if "\0" in text:
        raise BadRequest(f"{what} holds a NUL", code=code)
    return text


# JSON


def _read_json(text: str) -> None:
    """Raises `BadRequest` on what is no object, and on what readers of JSON do not agree about."""
    if exceeds_json_depth(text, MAX_DEPTH):
        raise _bad_body(f"the body is more than {MAX_DEPTH} objects and arrays deep")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_whole,
        )
        _look_into(value)
    except json.JSONDecodeError as error:
        raise _bad_body(f"the body is no JSON: {error.msg} at {error.pos}") from error
    if not isinstance(value, dict):
        raise _bad_body("the body must be a JSON object")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        often = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise _bad_body(f"the body names {_shown(often)} twice")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise _bad_body(f"the body holds {name}, which is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _bad_body("the body holds a number that is too large")
    return value


def _whole(text: str) -> int:
    # Before it is made a number: that takes time with the square of its length.
    if len(text) > MAX_DIGITS:
        raise _bad_body("the body holds a number that is too large")
    return int(text)


def _look_into(value: Any) -> None:
    """Every text in it."""
    if isinstance(value, str):
        _refuse_bad_text(value)
    elif isinstance(value, dict):
        for name, member in value.items():
            _refuse_bad_text(name)
            _look_into(member)
    elif isinstance(value, list):
        for item in value:
            _look_into(item)


def _refuse_bad_text(text: str) -> None:
    """Raises `BadRequest` on what JSON can say by `\\u` and neither UTF-8 nor Postgres can hold."""
    if "\0" in text:
        raise _bad_body("the body holds a NUL")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _bad_body("the body holds half of a surrogate pair") from error


# Parameters of a query, fields of a form


def _parameters(
    raw: bytes, known: Collection[str], what: str, *, others: bool = False, code: str = "BAD_QUERY"
) -> dict[str, str]:
    _decoded(unquote_to_bytes(raw), f"a {what}", code)
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


# Models


def _checked(read: Callable[[], M]) -> M:
    try:
        return read()
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise _bad_body(_sentence(first)) from None


def _sentence(problem: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"unknown member {_shown(where)}"
    if problem["type"] == "missing":
        return f"{where} is missing"
    return f"{_shown(where)}: {problem['msg']}" if where else str(problem["msg"])


def _bad_body(message: str) -> BadRequest:
    return BadRequest(message, code="BAD_BODY")


def _shown(name: str) -> str:
    """A name that a client chose, as it may stand in a message."""
    return repr(name if len(name) <= _MOST_SHOWN else f"{name[:_MOST_SHOWN]}…")


_HEX = re.compile(r"(?:0[xX])?([0-9a-fA-F]+)")


def canonical_hex(text: str, digits: int) -> str | None:
    """The identifier in lower case without `0x`; None if it is not that many hex digits."""
    found = _HEX.fullmatch(text)
    return found[1].lower() if found and len(found[1]) == digits else None
