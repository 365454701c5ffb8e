"""Several nodes that are asked the same: who counts as a witness, and what counts as said.

Nodes of one operator are one witness, because they may share what is wrong. Where nodes of two
operators are configured, two have to say what nothing may rest on one's word; where there is one,
its word is all there is.
"""

import ipaddress
from collections.abc import Sequence
from typing import TypeVar
from urllib.parse import urlsplit

from indexer.errors import PermanentChainError, RetryableChainError

MIN_OPERATORS = 2
"""Operators that must say the same before anything irreversible happens."""

T = TypeVar("T")
N = TypeVar("N", bound=int)


class SourcesDisagree(PermanentChainError):
    """Nodes contradict each other: at least one is wrong, and a person has to find out which."""


class NotEnoughSources(RetryableChainError):
    """Too few independent nodes answered: wait for them, never go on with fewer."""


def operator_of(url: str) -> str:
    """Who runs a node, as far as its URL tells: the address, or the last two labels of its name.

    Two customers of one hosting domain count as one operator: that errs on the side of asking for
    more.
    """
    host = urlsplit(url).hostname or ""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return ".".join(host.split(".")[-2:])


def http_urls(urls: Sequence[str]) -> list[str]:
    """Those of the URLs that take requests; nodes are also known by sockets."""
    return [url for url in urls if url.startswith(("http://", "https://"))]


def lowest_of_each(said: Sequence[tuple[str, N]]) -> list[N]:
    """Of each operator the lowest of its nodes' numbers, the highest of these first."""
    lowest: dict[str, N] = {}
    for operator, number in said:
        lowest[operator] = min(number, lowest.get(operator, number))
    return sorted(lowest.values(), reverse=True)


def reached(said: Sequence[tuple[str, N]], needed: int) -> N:
    """How far something that only grows has come by the word of as many operators as are needed.

    Of fewer who answered, what all of them say. One alone can hold it back, and never drive it on.
    Raises `ValueError` when nobody said anything.
    """
    numbers = lowest_of_each(said)
    if not numbers:
        raise ValueError("nobody said anything")
    return numbers[min(needed, len(numbers)) - 1]


def agreed(about: str, said: Sequence[tuple[str, T]], needed: int) -> T:
    """What all say who answered.

    Raises `NotEnoughSources` when these are too few, `SourcesDisagree` when they do not say the
    same.
    """
    operators = {operator for operator, _ in said}
    if len(operators) < needed:
        raise NotEnoughSources(
            f"{about} needs {needed} independent nodes, {len(operators)} answered"
        )
    first, answer = said[0]
    for other, theirs in said[1:]:
        if theirs != answer:
            raise SourcesDisagree(
                f"{first} and {other} disagree on {about}: {answer} and {theirs}; nothing may rest"
                " on it until a person has found out which is wrong"
            )
    return answer


def next_number(account: str, own: int | None, said: Sequence[tuple[str, int]], needed: int) -> int:
    """The number that an account of ours signs with next, given what nodes say comes next.

    `own` is the number after the highest that we gave away ourselves: it is never gone below, and
    gone beyond only by the word of `NEEDED` operators. One that says too much would have us sign
    what waits for ever for numbers before it. The first number (`own` is None) is what all say;
    raises as `agreed` does.
    """
    if own is None:
        return agreed(f"the next number of {account}", said, needed)
    if len({operator for operator, _ in said}) < MIN_OPERATORS:
        return own
    return max(own, reached(said, MIN_OPERATORS))
