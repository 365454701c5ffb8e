"""How fast raw events of the order book are decoded: what a revision does with what is kept.

The events are in memory and no row is written, so the figure is the decoder's alone.
"""

import time
from collections.abc import Iterator
from typing import Any

from indexer.chains.raw import StellarEvent
from indexer.config.networks import StellarChain, load_network
from indexer.facts.decoding import decode_event
from tests.factories.stellar_events import make_escrow_event, make_rail_terms_event, word

ROUNDS = 600
RUNS = 3
MIX = (
    *("order_open", "order_fulfill", "order_open", "order_cancel", "order_open", "order_expire"),
    *("deposit", "withdraw", "terms_set", "payee_set"),
)
"""About as often as they come."""
_OF_TERMS = ("terms_set", "payee_set")


def measure() -> dict[str, Any]:
    """Raw events a second on one core; the best of three runs."""
    chain = load_network("devnet").stellar
    raws = list(_raws(chain))
    seconds = min(_decode_all(raws, chain) for _ in range(RUNS))
    return {
        "events_per_s": round(len(raws) / seconds),
        "us_per_event": round(1e6 * seconds / len(raws), 1),
        "events": len(raws),
        "runs": RUNS,
    }


def _decode_all(raws: list[StellarEvent], chain: StellarChain) -> float:
    began = time.process_time()
    decoded = sum(decode_event(raw, chain).event is not None for raw in raws)
    seconds = time.process_time() - began
    if decoded != len(raws):
        raise AssertionError(f"{decoded} of {len(raws)} events were decoded")
    return seconds


def _raws(chain: StellarChain) -> Iterator[StellarEvent]:
    """Events that differ, as real ones do."""
    assert chain.escrow is not None
    assert chain.rail_terms is not None
    for number in range(ROUNDS):
        for index, name in enumerate(MIX):
            where: dict[str, Any] = {"ledger": 100 + number, "index": index}
            if name in _OF_TERMS:
                yield make_rail_terms_event(name, emitter=chain.rail_terms, **where)
            elif name.startswith("order_"):
                order = word(f"order {number}")
                yield make_escrow_event(name, emitter=chain.escrow, order_id=order, **where)
            else:
                yield make_escrow_event(name, emitter=chain.escrow, **where)
