"""What the paths about who is asking take and answer."""

from collections.abc import Mapping

from api.auth.schema import Revoked, Session
from api.description import Answer, Operation

OPERATIONS: Mapping[str, Operation] = {
    "session.show": Operation(
        name="showSession",
        tag="Who is asking",
        summary="Whose the token is",
        answers=(Answer(200, "Who is asking, and until when the token is good.", Session),),
    ),
    "session.end": Operation(
        name="endSession",
        tag="Who is asking",
        summary="Log out",
        description="The token is refused from the next request on.",
        answers=(Answer(200, "The token is given up.", Revoked),),
        refusals={400: ("NOT_OUR_TOKEN",)},
    ),
}
