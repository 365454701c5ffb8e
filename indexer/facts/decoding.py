"""Selection and decoding of the raw events that are stored."""

import logging
from collections.abc import Iterable

from indexer.chains.ports import EvmLog, RawEvent
from indexer.config.networks import Chain, EvmChain
from indexer.decode import decode
from indexer.errors import Undecodable
from indexer.facts.rows import storage_error
from indexer.facts.store import DecodedEvent

logger = logging.getLogger(__name__)


def decode_events(raw_events: Iterable[RawEvent], chain: Chain) -> list[DecodedEvent]:
    """Decode raw events, without those of other applications at a shared contract.

    Every other raw event is stored even if it decodes to nothing: a contract of ours emitted it.
    """
    shared = shared_contracts(chain)
    found = []
    for raw in raw_events:
        item = decode_event(raw, chain)
        emitter: str = raw.address if isinstance(raw, EvmLog) else raw.contract
        if item.event is not None or item.undecodable is not None or emitter not in shared:
            found.append(item)
    return found


def shared_contracts(chain: Chain) -> frozenset[str]:
    """Contracts that other applications use as well.

    On a busy chain a LayerZero endpoint emits a hundred foreign packets for one of ours. The
    deposit factory refunds any token to anybody.
    """
    factory = chain.deposit_factory if isinstance(chain, EvmChain) else None
    return frozenset(each for each in (chain.lz_endpoint, factory) if each is not None)


def decode_event(raw: RawEvent, chain: Chain) -> DecodedEvent:
    """Decode one raw event; an undecodable one gets the reason instead of an event."""
    try:
        event = decode(raw, chain)
        reason = None if event is None else storage_error(event)
        if reason is not None:
            raise Undecodable(f"Postgres cannot hold {reason}")
        return DecodedEvent(raw, event, None)
    except Undecodable as error:
        logger.error(
            "undecodable chain=%s height=%d tx=%s position=%d: %s",
            chain.id,
            raw.seen.height,
            raw.seen.tx_hash,
            raw.seen.position,
            error,
        )
        return DecodedEvent(raw, None, str(error))
