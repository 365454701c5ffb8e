"""Which Stellar events we want: the rule, and the same rule as filters of RPC's getEvents.

Wanted is every event of the chain's own contracts, and of its tokens the movements and
authorizations that name a watched account.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias

from stellar_sdk import scval

from indexer.events.raw import StellarEvent
from indexer.networks import StellarChain
from warehouse_schema.identifiers import StellarAddress

Filter: TypeAlias = dict[str, Any]

MOST_FILTERS = 5
"""Of one call; also the most contracts and the most topic filters of one filter."""

_TOKEN_EVENTS: tuple[tuple[str, int, int], ...] = (
    ("transfer", 1, 4),
    ("transfer", 2, 4),
    ("mint", 1, 3),
    ("burn", 1, 3),
    ("clawback", 1, 3),
    ("set_authorized", 1, 3),
)
"""Name, the topic that holds an account, and the number of topics (CAP-67)."""


def wanted_by(chain: StellarChain, watched: Sequence[str]) -> Callable[[StellarEvent], bool]:
    """The rule, for sources that cannot filter and to check those that can."""
    accounts = {scval.to_address(account).to_xdr_bytes() for account in watched}
    events = {
        (scval.to_symbol(name).to_xdr_bytes(), topics, place)
        for name, place, topics in _TOKEN_EVENTS
    }

    def is_wanted(event: StellarEvent) -> bool:
        if event.contract in chain.event_contracts:
            return True
        return event.contract in chain.tokens and any(
            (event.topics[0], len(event.topics), place) in events and topic in accounts
            for place, topic in enumerate(event.topics)
        )

    return is_wanted


def filters_of_calls(chain: StellarChain, watched: Sequence[str]) -> list[list[Filter]]:
    """The rule as getEvents calls: one list of filters each.

    All filters of a call constrain the same things: before 27.1.1, RPC lost events of one filter
    when another left contracts or type open.
    """
    contracts = [_filter(group) for group in _chunks(chain.event_contracts)]
    topics = [
        _topics(*event, account) for account in dict.fromkeys(watched) for event in _TOKEN_EVENTS
    ]
    tokens = [_filter(chain.tokens, topics=group) for group in _chunks(topics)]
    return [*_chunks(contracts), *_chunks(tokens)]


def _filter(contracts: Sequence[StellarAddress], **rest: Any) -> Filter:
    return {"type": "contract", "contractIds": list(contracts), **rest}


def _topics(name: str, place: int, topics: int, account: str) -> list[str]:
    segments = ["*"] * topics
    segments[0] = scval.to_symbol(name).to_xdr()
    segments[place] = scval.to_address(account).to_xdr()
    return segments


def _chunks(items: Sequence[Any]) -> Iterator[list[Any]]:
    rest = iter(items)
    while chunk := list(islice(rest, MOST_FILTERS)):
        yield chunk
