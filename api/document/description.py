"""The document's own two paths."""

from collections.abc import Mapping
from typing import Any

from api.description import CONDITIONS, Operation, cached

OPERATIONS: Mapping[str, Operation] = {
    "document.show_openapi": Operation(
        name="showOpenapi",
        tag="Documents",
        summary="This document (OpenAPI 3.1)",
        parameters=CONDITIONS,
        answers=cached("The document.", dict[str, Any]),
    ),
    "document.show_asyncapi": Operation(
        name="showAsyncapi",
        tag="Documents",
        summary="What the stream says (AsyncAPI 3)",
        parameters=CONDITIONS,
        answers=cached("The document.", dict[str, Any]),
    ),
}
