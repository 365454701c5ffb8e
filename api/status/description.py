"""What `/v1/status` takes and answers."""

from collections.abc import Mapping

from api.description import CONDITIONS, Operation, cached
from api.status.schema import Status

OPERATIONS: Mapping[str, Operation] = {
    "status.show_status": Operation(
        name="showStatus",
        tag="Routes",
        summary="Whether the money adds up",
        description="What left each chain against what came to the others and is on its way, and "
        "how many transfers wait. It is looked at every few minutes.",
        parameters=CONDITIONS,
        answers=cached("As it was looked at last.", Status),
        refusals={503: ("DATABASE_UNAVAILABLE",)},
    ),
}
