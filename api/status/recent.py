"""The last status answer of a process, which anyone may ask for as often as they like."""

from dataclasses import dataclass

from flask import Flask, current_app

from api.recent import Recent
from api.replica import WalPosition
from api.status import schema

STATUS_SECONDS = 2.0
"""How long a process serves an answer. Figures change every few seconds anyway."""

_KEY = "isthmus_status"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer and the position that it is as of."""

    body: schema.Status
    position: WalPosition | None
    """None without a replica."""


def is_as_of(answer: Answer, needed: WalPosition | None) -> bool:
    """Whether an answer is not older than a position."""
    if needed is None:
        return True
    position = answer.position
    return position is not None and position.timeline == needed.timeline and position >= needed


def register_status(app: Flask, seconds: float) -> None:
    """Have an app serve an answer for so long."""
    app.extensions[_KEY] = Recent[Answer](seconds)


def recent_status() -> Recent[Answer]:
    """That of the app that serves this request."""
    found: Recent[Answer] = current_app.extensions[_KEY]
    return found
