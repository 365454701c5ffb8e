"""What `/v1/routes` takes and answers."""

from collections.abc import Mapping

from api.description import CONDITIONS, Operation, cached
from api.routes.schema import Routes

OPERATIONS: Mapping[str, Operation] = {
    "routes.list_routes": Operation(
        name="listRoutes",
        tag="Routes",
        summary="What can be transferred from where to where",
        description="Every route, with the chains that can be relied on now marked `available`.",
        parameters=CONDITIONS,
        answers=cached("All routes.", Routes),
        refusals={503: ("DATABASE_UNAVAILABLE",)},
    ),
}
