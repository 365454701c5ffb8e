"""How answers leave: JSON by orjson, with an entity tag where they can be cached."""

import hashlib
from functools import lru_cache
from http import HTTPStatus
from typing import Any

import orjson
from flask import Response, request
from flask.json.provider import JSONProvider
from werkzeug.datastructures import Accept
from werkzeug.http import parse_accept_header

from api.bodies import StoredBody
from api.errors import NotTheSame, answer


class OrjsonProvider(JSONProvider):
    """Flask's JSON by orjson: members stay in the order in which a shape names them."""

    def dumps(self, obj: Any, **_: Any) -> str:
        """Raises `TypeError` on what JSON has no form for."""
        return orjson.dumps(obj).decode()

    def loads(self, s: str | bytes, **_: Any) -> Any:
        """Raises `ValueError` on what is not JSON."""
        return orjson.loads(s)


def cacheable(response: Response, *, version: str = "") -> Response:
    """Tag a good answer by its bytes and `version`, and turn it into a 304 if the client has it.

    `no-cache` lets anyone keep the answer, on condition of asking whether it still holds.
    """
    if response.status_code != 200:
        return response
    tag = hashlib.sha256(version.encode() + b"\n" + response.get_data()).hexdigest()[:32]
    response.set_etag(tag)
    response.headers["Cache-Control"] = "no-cache"
    return _conditional(response)


def send(body: StoredBody, *, version: str, media_type: str = "application/json") -> Response:
    """A body that lies ready, with `cacheable`'s promises; packed where the client takes that.

    A tag is for bytes, so the packed form has one of its own.
    """
    asked = request.environ
    packed = body.packed if takes_gzip(asked.get("HTTP_ACCEPT_ENCODING", "")) else None
    tag = f"{version}-{body.digest}{'-gzip' if packed else ''}"
    headers = [
        ("ETag", f'"{tag}"'),
        ("Cache-Control", "no-cache"),
        ("Vary", "Accept-Encoding"),
        ("Content-Type", media_type),
    ]
    if packed:
        headers.append(("Content-Encoding", "gzip"))
    if "HTTP_IF_NONE_MATCH" in asked and request.if_none_match.contains_weak(tag):
        return Response(status=304, headers=headers)
    response = Response(packed or body.plain, headers=headers)
    return _conditional(response) if "HTTP_IF_MATCH" in asked else response


def _conditional(response: Response) -> Response:
    """The answer, a 304, or an error: werkzeug would send the body under a 412.

    It is not raised: what is raised behind a view is taken for a mishap.
    """
    response.make_conditional(request)
    if response.status_code == HTTPStatus.PRECONDITION_FAILED:
        return answer(NotTheSame("this is not what If-Match names any more"))
    return response


@lru_cache(maxsize=256)
def takes_gzip(accept_encoding: str) -> bool:
    """Whether a client that says this would rather have gzip than nothing (RFC 9110, 12.5.3)."""
    accepted = parse_accept_header(accept_encoding, Accept)
    return accepted.quality("gzip") > 0 and accepted.quality("gzip") >= accepted.quality("identity")
