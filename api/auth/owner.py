"""Every blueprint states its rule: `blueprint.before_request(public)` or another of `RULES`.

A blueprint without a rule, or with two, fails `tests/architecture/test_auth_rules.py`.
"""

from collections.abc import Callable


def public() -> None:
    """Anyone may call; no token is looked at."""


RULES: tuple[Callable[[], None], ...] = (public,)
"""The rules a blueprint may state."""
