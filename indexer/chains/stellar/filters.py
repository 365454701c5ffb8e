"""Which Stellar events we want: the rule, and what RPC's getEvents is asked for.

Wanted is every event of the chain's own contracts, and of its tokens the movements and
authorizations that name a watched account. A node is asked for all events of contracts and tokens,
whoever is watched: on pubnet USDC has 10 to 40 a ledger (`tests/golden/stellar/ledgers`), 24 KB of
JSON beside the 1.3 MB that getLedgers sends of the same ledger. Asking by account would cost a
quarter of a call for each account that was ever named.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias

from stellar_sdk import scval

from indexer.chains.raw import StellarEvent
from indexer.chains.stellar.xdr.prefilter import account_of_value
from indexer.chains.watchlist import Watched, as_watchlist
from indexer.config.networks import StellarChain
from warehouse_schema.identifiers import StellarAddress

EventFilter: TypeAlias = dict[str, Any]

MAX_FILTERS = 5
"""Of one call; also the most contracts of one filter."""

_TOKEN_EVENTS: tuple[tuple[str, int, tuple[int, ...]], ...] = (
    ("transfer", 4, (1, 2)),
    ("mint", 3, (1,)),
    ("burn", 3, (1,)),
    ("clawback", 3, (1,)),
    ("set_authorized", 3, (1,)),
)
"""Name, the number of topics, and which of them hold an account (CAP-67)."""
_PARTIES = {
    (scval.to_symbol(name).to_xdr_bytes(), topics): parties
    for name, topics, parties in _TOKEN_EVENTS
}


def is_requested(chain: StellarChain, event: StellarEvent) -> bool:
    """Whether `filters_of_calls` asks for the event."""
    return event.contract in chain.event_contracts or event.contract in chain.tokens


def wanted_events(
    chain: StellarChain, watched: Watched, events: Iterable[StellarEvent]
) -> list[StellarEvent]:
    """Those of the events that are wanted, in their order."""
    candidates = [(event, _accounts(event)) for event in events if is_requested(chain, event)]
    named = {account for _, accounts in candidates for account in accounts}
    found = frozenset(as_watchlist(watched).intersection(named))
    return [
        event
        for event, accounts in candidates
        if event.contract in chain.event_contracts or not found.isdisjoint(accounts)
    ]


def _accounts(event: StellarEvent) -> Collection[StellarAddress]:
    """Accounts that a token's movement or authorization names."""
    if not event.topics:
        return ()
    places = _PARTIES.get((event.topics[0], len(event.topics)), ())
    accounts = (account_of_value(event.topics[place]) for place in places)
    return tuple(account for account in accounts if account is not None)


def event_filters(chain: StellarChain) -> list[list[EventFilter]]:
    """All events of contracts and tokens, as getEvents calls: one list of filters each.

    All filters of a call constrain the same things: before 27.1.1, RPC lost events of one filter
    when another left contracts or type open.
    """
    contracts = (*chain.event_contracts, *chain.tokens)
    return list(_chunks([_filter(group) for group in _chunks(contracts)]))


def _filter(contracts: Sequence[StellarAddress]) -> EventFilter:
    return {"type": "contract", "contractIds": list(contracts)}


def _chunks(items: Sequence[Any]) -> Iterator[list[Any]]:
    rest = iter(items)
    while chunk := list(islice(rest, MAX_FILTERS)):
        yield chunk
