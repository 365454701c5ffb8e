"""Operators of nodes, and what their answers amount to.

Nodes of one operator count as one, because they may share what is wrong. Where nodes of two
operators are configured, two must agree before anything irreversible happens; where there is one,
its answer is all there is.
"""

import ipaddress
from collections.abc import Sequence
from typing import TypeVar
from urllib.parse import urlsplit

from indexer.errors import PermanentChainError, RetryableChainError

MIN_OPERATORS = 2
"""Operators that must agree before anything irreversible happens."""

T = TypeVar("T")
N = TypeVar("N", bound=int)


class SourcesDisagree(PermanentChainError):
    """Nodes contradict each other: at least one is wrong, and a person has to find out which."""


class NotEnoughSources(RetryableChainError):
    """Too few independent nodes answered: wait for them, never go on with fewer."""


def operator_of(url: str) -> str:
    """Operator of a node: its IP address, or the last two labels of its host name.

    Two customers of one hosting domain count as one operator: that errs on the side of asking for
    more.
    """
    host = urlsplit(url).hostname or ""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return ".".join(host.split(".")[-2:])


def http_urls(urls: Sequence[str]) -> list[str]:
    """The `http(s)` URLs; nodes are also configured with `ws(s)` URLs."""
    return [url for url in urls if url.startswith(("http://", "https://"))]


def require_operators(
    about: str, answers: Sequence[tuple[str, object]], needed: int, reasons: Sequence[str] = ()
) -> None:
    """Raise `NotEnoughSources` unless the answers come from `needed` operators.

    `reasons` tell why others did not answer.
    """
    operators = {operator for operator, _ in answers}
    if len(operators) < needed:
        why = f": {'; '.join(reasons)}" if reasons else ""
        raise NotEnoughSources(
            f"{about} needs {needed} independent nodes, {len(operators)} answered{why}"
        )


def agreed(about: str, answers: Sequence[tuple[str, T]], needed: int) -> T:
    """The answer that all nodes give. One contradiction is no answer, however many agree.

    Raises `NotEnoughSources` or `SourcesDisagree`.
    """
    require_operators(about, answers, needed)
    first, answer = answers[0]
    for other, contradiction in answers[1:]:
        if contradiction != answer:
            raise SourcesDisagree(
                f"{first} and {other} disagree on {about}: {answer!s:.80} and"
                f" {contradiction!s:.80}; nothing may rest on it until a person has found out"
                " which is wrong"
            )
    return answer


def reached(answers: Sequence[tuple[str, N]], needed: int) -> N:
    """The highest value of a growing number that `needed` operators confirm.

    An operator's value is its nodes' lowest. With fewer operators than needed, the lowest of all.
    One operator alone can hold the number back, and never drive it on. Raises `ValueError` without
    an answer.
    """
    lowest: dict[str, N] = {}
    for operator, value in answers:
        lowest[operator] = min(value, lowest.get(operator, value))
    if not lowest:
        raise ValueError("no node answered")
    return sorted(lowest.values(), reverse=True)[min(needed, len(lowest)) - 1]


def next_number(
    account: str, own: int | None, answers: Sequence[tuple[str, int]], needed: int
) -> int:
    """The nonce or sequence number that our account signs with next; `answers` are the nodes'.

    `own` is the number after the highest that we assigned: the result is never below it, and above
    it only if `MIN_OPERATORS` operators say so. A number that is too high would have us sign what
    waits for ever for the numbers before it. Without `own` all nodes must agree; raises as `agreed`
    does.
    """
    if own is None:
        return agreed(f"the next number of {account}", answers, needed)
    if len({operator for operator, _ in answers}) < MIN_OPERATORS:
        return own
    return max(own, reached(answers, MIN_OPERATORS))
