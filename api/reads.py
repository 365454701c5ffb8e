"""Reads that a replica may answer, and the header that carries a client's position.

With a replica every answer to a request with a token has `X-Position`, and so have the public reads
that a replica may answer. A client sends it back with its next request, and no answer is older than
that position. Without one there is nothing to compare, and the round trip is saved.
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from flask import Flask, Response, g, request
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from api.deps import deps, snapshot
from api.errors import ApiError
from api.operation import HeaderDoc, Parameter
from api.replica import POSITION_HEADER, NotOnReplica, WalPosition, primary_position

logger = logging.getLogger(__name__)

T = TypeVar("T")

_SCHEMA = {"type": "string", "pattern": "^[1-9][0-9]*:[0-9A-F]{1,8}/[0-9A-F]{1,8}$"}
POSITION = Parameter(
    POSITION_HEADER,
    "That of your last answer: the response is not older. Without it, a request with a token reads "
    "the primary database.",
    _SCHEMA,
    place="header",
)
POSITION_DOC = HeaderDoc(
    POSITION_HEADER, "Send it back with your next request.", _SCHEMA, always=False
)


def read_recent(read: Callable[[Connection], T]) -> T:
    """What `read` returns in a snapshot that holds the client's position.

    The replica's snapshot where that suffices, else the primary's: then `read` may be called twice.
    Raises `BadRequest` for a malformed header.
    """
    needed = needed_position()
    replica, metrics = deps().replica, deps().metrics
    if replica is None:
        with snapshot() as conn:
            return read(conn)

    def read_at(conn: Connection, position: WalPosition) -> T:
        # Also for an error of `read`, which is an answer about that snapshot.
        g.position = position
        return read(conn)

    try:
        if needed is None and g.get("session") is not None:
            # An owner's own write must be in the answer.
            raise NotOnReplica("no_position")
        found = replica.read(needed, read_at)
    except NotOnReplica as refused:
        metrics.replica_read(refused.outcome)
    except ApiError:
        metrics.replica_read("replica")
        raise
    else:
        metrics.replica_read("replica")
        return found
    with snapshot() as conn:
        return read_at(conn, primary_position(conn))


def needed_position() -> WalPosition | None:
    """The position that the client sent; None without one. Raises `BadRequest` for a malformed."""
    header = request.headers.get(POSITION_HEADER)
    return None if header is None else WalPosition.parse(header)


def register_positions(app: Flask) -> None:
    """Name a position in answers."""
    app.after_request(_add_position)


def _add_position(response: Response) -> Response:
    position = g.get("position")
    if position is None and g.get("session") is not None and deps().replica is not None:
        position = _after_request()
    if position is not None:
        response.headers[POSITION_HEADER] = str(position)
    return response


def _after_request() -> WalPosition | None:
    """The primary's position after a request's writes; None while it does not answer.

    A client then has no position, and reads the primary.
    """
    try:
        with deps().engine.connect() as conn:
            return primary_position(conn.execution_options(isolation_level="AUTOCOMMIT"))
    except SQLAlchemyError as error:
        kind = type(getattr(error, "orig", None) or error).__name__
        logger.warning("an answer has no position: %s", kind)
        return None
