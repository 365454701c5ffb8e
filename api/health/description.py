"""What the health checks answer."""

from collections.abc import Mapping

from api.description import RETRY_AFTER, Operation, ResponseDoc
from api.health.schema import Alive, NotReady, Ready

OPERATIONS: Mapping[str, Operation] = {
    "health.alive": Operation(
        name="isAlive",
        tag="Health",
        summary="Whether the process lives",
        answers=(ResponseDoc(200, "It does.", Alive),),
    ),
    "health.ready": Operation(
        name="isReady",
        tag="Health",
        summary="Whether to send traffic here",
        description="Database, tables of this build, every chain that is followed, and that the "
        "money was looked at within the hour.",
        answers=(
            ResponseDoc(200, "Traffic is welcome.", Ready),
            ResponseDoc(503, "It is not, for these reasons.", NotReady, headers=(RETRY_AFTER,)),
        ),
    ),
}
