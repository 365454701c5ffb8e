"""What a client may say: who it is. Pure."""

from dataclasses import dataclass, field

import orjson


@dataclass(frozen=True, slots=True)
class TransfersRequest:
    """Wants to be told of its own transfers."""

    token: str = field(repr=False)
    after: int | None = None
    """Has been told everything up to this number of its own."""


class Unclear(Exception):
    """It asks for transfers, and not in a way that can be understood."""


def read_speech(text: str) -> TransfersRequest | None:
    """What a message asks for; None for what asks for nothing. Raises `Unclear`."""
    try:
        said = orjson.loads(text)
    except ValueError:
        return None
    if not isinstance(said, dict) or "auth" not in said:
        return None
    token, after = said["auth"], said.get("after")
    # True and false are numbers to Python.
    if not isinstance(token, str) or not (after is None or (type(after) is int and after >= 0)):
        raise Unclear
    return TransfersRequest(token, after)
