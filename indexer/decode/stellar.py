"""Registry of Stellar decoders: (contract, topic 0) → decoder."""

from collections.abc import Mapping
from functools import lru_cache

from indexer.bridges import bridge_modules
from indexer.chains.events import Event
from indexer.chains.raw import StellarEvent
from indexer.chains.stellar.xdr.scval import EventDecoder, topic_name
from indexer.config.networks import StellarChain
from indexer.market import decode as market
from warehouse_schema.identifiers import StellarAddress

DECODERS: Mapping[str, Mapping[str, EventDecoder]] = {
    role: decoders
    for module in (market, *bridge_modules("decode_stellar"))
    for role, decoders in module.DECODERS.items()
}
"""Field of `StellarChain` that names the contract → topic 0 → decoder."""


def decode(event: StellarEvent, chain: StellarChain) -> Event | None:
    """The typed event; None when it is not of our contracts, or of ours but not stored.

    Raises `Undecodable` when it is ours and malformed.
    """
    decoders = _decoders_by_contract(chain).get(event.contract)
    if decoders is None:
        return None
    decoder = decoders.get(topic_name(event) or "")
    return None if decoder is None else decoder(event, chain)


@lru_cache(maxsize=16)
def _decoders_by_contract(chain: StellarChain) -> dict[StellarAddress, Mapping[str, EventDecoder]]:
    return {
        contract: decoders
        for role, decoders in DECODERS.items()
        if (contract := getattr(chain, role)) is not None
    }
