"""Selection of Stellar events, and the filters for RPC's getEvents.

Wanted are all events of the chain's own contracts, and the tokens' transfers and authorizations
that name a watched account. getEvents is called for all events of contracts and tokens: on pubnet
USDC has 10 to 40 a ledger (`tests/golden/stellar/ledgers`), 24 KB of JSON next to 1.3 MB of
getLedgers for the same ledger. Filters by account would cost a quarter of a call per account ever
watched.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

from stellar_sdk import scval

from indexer.chains.raw import StellarEvent
from indexer.chains.stellar.xdr.prefilter import account_of_value
from indexer.chains.watchlist import Watched, as_watchlist
from indexer.config.networks import StellarChain
from warehouse_schema.identifiers import StellarAddress

EventFilter: TypeAlias = dict[str, Any]

MAX_FILTERS = 5
"""Per call; also contracts per filter."""

_TOKEN_EVENTS: tuple[tuple[str, int, tuple[int, ...]], ...] = (
    ("transfer", 4, (1, 2)),
    ("mint", 3, (1,)),
    ("burn", 3, (1,)),
    ("clawback", 3, (1,)),
    ("set_authorized", 3, (1,)),
)
"""Name, number of topics, and which of them are accounts (CAP-67)."""
PARTIES = {
    (scval.to_symbol(name).to_xdr_bytes(), topics): parties
    for name, topics, parties in _TOKEN_EVENTS
}
"""Topic 0 and number of topics → which of them are accounts."""


def requested_contracts(chain: StellarChain) -> frozenset[StellarAddress]:
    """Contracts whose events match `event_filters`."""
    return frozenset((*chain.event_contracts, *chain.tokens))


def requested_events(
    chain: StellarChain, watched: Watched, events: Iterable[StellarEvent]
) -> list[StellarEvent]:
    """The wanted events, in order."""
    own, requested = frozenset(chain.event_contracts), requested_contracts(chain)
    candidates = []
    for event in events:
        if event.contract in requested:
            places = PARTIES.get((event.topics[0], len(event.topics)), ()) if event.topics else ()
            accounts = [account_of_value(event.topics[place]) for place in places]
            candidates.append((event, accounts))
    named = {each for _, accounts in candidates for each in accounts if each is not None}
    found = frozenset(as_watchlist(watched).intersection(named))
    return [
        event
        for event, accounts in candidates
        if event.contract in own or not found.isdisjoint(accounts)
    ]


def event_filters(chain: StellarChain) -> list[list[EventFilter]]:
    """Filters for all events of contracts and tokens, a list per getEvents call.

    All filters of a call constrain the same fields: before 27.1.1, RPC lost events of one filter
    when another left contracts or type open.
    """
    contracts = (*chain.event_contracts, *chain.tokens)
    filters: list[EventFilter] = [
        {"type": "contract", "contractIds": list(contracts[at : at + MAX_FILTERS])}
        for at in range(0, len(contracts), MAX_FILTERS)
    ]
    return [filters[at : at + MAX_FILTERS] for at in range(0, len(filters), MAX_FILTERS)]
