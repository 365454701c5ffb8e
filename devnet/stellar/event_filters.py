"""The filters of getEvents: OR between filters, AND inside one, at most 5/5/5/4 of each kind."""

from dataclasses import dataclass
from typing import Any

from stellar_sdk import StrKey, xdr

from devnet.stellar.history import EventRow
from devnet.stellar.rpc_errors import INVALID_PARAMS, RpcError

ONE = "*"
REST = "**"
MAX_FILTERS = 5
MAX_CONTRACTS = 5
MAX_TOPIC_FILTERS = 5
MAX_SEGMENTS = 4
_KINDS = ("contract", "system")


@dataclass(frozen=True)
class TopicFilter:
    """Segments are base64 ScVals or `*`; with `rest`, further topics may follow."""

    segments: tuple[str, ...]
    rest: bool

    def matches(self, topics: tuple[str, ...]) -> bool:
        """Does every segment match the topic at its place?"""
        if len(topics) < len(self.segments):
            return False
        if len(topics) > len(self.segments) and not self.rest:
            return False
        pairs = zip(self.segments, topics, strict=False)
        return all(segment in (ONE, topic) for segment, topic in pairs)


@dataclass(frozen=True)
class Filter:
    """A filter; an empty member matches everything."""

    kinds: frozenset[str]
    contracts: frozenset[str]
    topics: tuple[TopicFilter, ...]

    def matches(self, event: EventRow) -> bool:
        """Does the event pass every member?"""
        return (
            (not self.kinds or event.kind in self.kinds)
            and (not self.contracts or event.contract in self.contracts)
            and (not self.topics or any(each.matches(event.topics) for each in self.topics))
        )


def parse_filters(given: Any) -> tuple[Filter, ...]:
    """Read the `filters` member of a request; raise `RpcError` with what is wrong."""
    filters = _list(given, "filters")
    if len(filters) > MAX_FILTERS:
        raise RpcError(INVALID_PARAMS, f"maximum {MAX_FILTERS} filters per request")
    return tuple(_filter(each, number) for number, each in enumerate(filters, start=1))


def _list(given: Any, name: str) -> list[Any]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise RpcError(INVALID_PARAMS, f"{name} must be a list")
    return given


def _filter(given: Any, number: int) -> Filter:
    def wrong(why: str) -> RpcError:
        return RpcError(INVALID_PARAMS, f"filter {number} invalid: {why}")

    if not isinstance(given, dict):
        raise wrong("not an object")
    kinds = [kind for kind in str(given.get("type") or "").split(",") if kind]
    if any(kind not in _KINDS for kind in kinds):
        raise wrong("if set, type must be either 'system' or 'contract'")
    contracts = _list(given.get("contractIds"), "contractIds")
    if len(contracts) > MAX_CONTRACTS:
        raise wrong(f"maximum {MAX_CONTRACTS} contract IDs per filter")
    if not all(isinstance(each, str) and StrKey.is_valid_contract(each) for each in contracts):
        raise wrong("contract ID invalid")
    topics = _list(given.get("topics"), "topics")
    if len(topics) > MAX_TOPIC_FILTERS:
        raise wrong(f"maximum {MAX_TOPIC_FILTERS} topics per filter")
    return Filter(
        frozenset(kinds), frozenset(contracts), tuple(_topic_filter(each, wrong) for each in topics)
    )


def _topic_filter(given: Any, wrong: Any) -> TopicFilter:
    segments = _list(given, "topic")
    rest = bool(segments) and segments[-1] == REST
    named = segments[:-1] if rest else segments
    if not segments or (not rest and not named):
        raise wrong("topic must have at least one segment")
    if len(named) > MAX_SEGMENTS:
        raise wrong(f"topic cannot have more than {MAX_SEGMENTS} segments")
    if REST in named:
        raise wrong("wildcard '**' is only allowed as the last segment")
    return TopicFilter(tuple(_segment(each, wrong) for each in named), rest)


def _segment(given: Any, wrong: Any) -> str:
    if given == ONE:
        return ONE
    try:
        # Read and write again, so that equal values are equal texts.
        return xdr.SCVal.from_xdr(given).to_xdr()
    except (ValueError, EOFError, TypeError, AttributeError) as error:
        raise wrong(f"topic segment is no ScVal: {error}") from error
