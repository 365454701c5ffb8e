"""What is kept of a chain's raw events: which of them, and as what they were decoded."""

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
    """Decode what is to be stored; packets of other applications at a shared endpoint are not.

    Any other raw event is stored though we make nothing of it: a contract of ours emitted it.
    """
    decoded = (decode_event(raw, chain) for raw in raw_events)
    return [item for item in decoded if not _is_of_others(item, chain)]


def _is_of_others(item: DecodedEvent, chain: Chain) -> bool:
    made_nothing = item.event is None and item.undecodable is None
    emitter: str = item.raw.address if isinstance(item.raw, EvmLog) else item.raw.contract
    return made_nothing and emitter in shared_contracts(chain)


def shared_contracts(chain: Chain) -> frozenset[str]:
    """Contracts through which others speak as well: what is not ours is not kept.

    On a busy chain an endpoint emits a hundred packets of others for one of ours. Our deposit
    factory lets anybody refund tokens of their own making.
    """
    factory = chain.deposit_factory if isinstance(chain, EvmChain) else None
    return frozenset(each for each in (chain.lz_endpoint, factory) if each is not None)


def decode_event(raw: RawEvent, chain: Chain) -> DecodedEvent:
    """Decode one raw event; an undecodable one is kept with the reason instead of an event."""
    try:
        event = decode(raw, chain)
        unfit = None if event is None else storage_error(event)
        if unfit is not None:
            raise Undecodable(f"Postgres cannot hold {unfit}")
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
