"""`@operation`: describes a view for the documents that `openapi.py` and `asyncapi.py` build."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import cleandoc
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar, get_args, get_origin

Schema: TypeAlias = Mapping[str, Any]
"""A JSON Schema (2020-12)."""
ParameterPlace: TypeAlias = Literal["query", "path", "header"]
Tag: TypeAlias = Literal[
    "Authentication",
    "Routes",
    "Transfers",
    "Webhooks",
    "Order book",
    "Stream",
    "Health",
    "Documents",
]
"""In the order of the document."""

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer", "minimum": 0}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter, path variable or header of a request."""

    name: str
    meaning: str
    schema: Schema = field(default_factory=lambda: TEXT)
    place: ParameterPlace = "query"
    required: bool = False


@dataclass(frozen=True, slots=True)
class HeaderDoc:
    """A header of a response."""

    name: str
    meaning: str
    schema: Schema = field(default_factory=lambda: TEXT)
    always: bool = True
    """Whether every response of the status has it."""


@dataclass(frozen=True, slots=True)
class ResponseDoc:
    """A response that is no refusal. `shape` is a type for pydantic, None for no body."""

    status: int
    meaning: str
    shape: Any = None
    media_type: str = "application/json"
    headers: Sequence[HeaderDoc] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """A method of a path, without the refusals of every path (`openapi.EVERYWHERE`)."""

    name: str
    """Its `operationId`: stable, clients are generated from it."""
    tag: Tag
    summary: str
    description: str
    answers: Sequence[ResponseDoc]
    parameters: Sequence[Parameter]
    body: Any
    """Type of the JSON body; None for none."""
    refusals: Sequence[str]
    """Error codes."""
    refusal_headers: Mapping[int, Sequence[HeaderDoc]]


@dataclass(frozen=True, slots=True)
class CallbackDoc:
    """A webhook request to a client's URL, and the meaning of its responses."""

    name: str
    """Its `operationId`."""
    tag: Tag
    summary: str
    description: str
    headers: Sequence[HeaderDoc]
    shape: Any
    answers: Mapping[str, str]
    """Status, or `2XX` and the like → what follows."""


ETAG = HeaderDoc("ETag", "Of these bytes: `If-None-Match` with it gets a `304`.")
CACHE_CONTROL = HeaderDoc("Cache-Control", "`no-cache`: caches must revalidate.")
NO_STORE = HeaderDoc("Cache-Control", "`no-store`")
RETRY_AFTER = HeaderDoc("Retry-After", "Seconds to wait before trying again.", WHOLE)
RATE_LIMITS = (
    HeaderDoc("RateLimit-Policy", '`"reads";q=6000;w=60`: budget, requests, seconds.'),
    HeaderDoc("RateLimit", '`"reads";r=0;t=40`: requests left, seconds until the reset.'),
)
IF_NONE_MATCH = Parameter("If-None-Match", "Entity tags of cached responses.", place="header")
IF_MATCH = Parameter("If-Match", "Entity tags; the response must have one of them.", place="header")
DEFAULT_LIMIT, MAX_LIMIT = 50, 200
LIMIT = Parameter(
    "limit",
    "Maximum number of entries.",
    {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
)
TRANSFER_ID = Parameter("transfer", "Id of the transfer.", place="path", required=True)

View = TypeVar("View", bound=Callable[..., Any])


def operation(
    name: str,
    tag: Tag,
    answers: Mapping[int, str],
    *,
    shape: Any = None,
    media_type: str = "application/json",
    headers: Sequence[HeaderDoc] = (),
    cached: bool = False,
    also: Sequence[ResponseDoc] = (),
    body: Any = None,
    parameters: Sequence[Parameter] = (),
    refusals: Sequence[str] = (),
    refusal_headers: Mapping[int, Sequence[HeaderDoc]] | None = None,
) -> Callable[[View], View]:
    """Describe a view; its docstring is the summary (first line) and the description (the rest).

    `answers` is status → meaning. Their body is the return annotation of the view, or `shape` of a
    view that returns a `Response`. `cached`: the response has an entity tag, and can be a 304.
    """
    if cached:
        parameters = (*parameters, IF_NONE_MATCH, IF_MATCH)
        headers = (ETAG, CACHE_CONTROL, *headers)
        also = (*also, ResponseDoc(304, "Not modified.", headers=headers))

    def describe(view: View) -> View:
        summary, _, description = cleandoc(view.__doc__ or "").partition("\n")
        returned = shape or _body_type(view.__annotations__["return"])
        shown = [
            ResponseDoc(status, meaning, returned, media_type, headers)
            for status, meaning in answers.items()
        ]
        vars(view)["operation"] = Operation(
            name,
            tag,
            summary.removesuffix("."),
            " ".join(description.split()),
            (*shown, *also),
            parameters,
            body,
            refusals,
            refusal_headers or {},
        )
        return view

    return describe


def operation_of(view: Callable[..., Any]) -> Operation | None:
    """The description of a view; None for pages, which are no part of the API."""
    found: Operation | None = vars(view).get("operation")
    return found


def _body_type(returned: Any) -> Any:
    """`Transfer` of `tuple[Transfer, int]`; None for `NoReturn`."""
    if get_origin(returned) is tuple:
        returned = get_args(returned)[0]
    return None if returned is NoReturn else returned
