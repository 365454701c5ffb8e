"""Registry of Stellar decoders: (contract, topic 0) → decoder."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias

from indexer.bridges.cctp import decode_stellar as cctp
from indexer.bridges.oft import decode_stellar as oft
from indexer.bridges.tokens.decode_stellar import ForgedAssetEvent, classify_asset_event
from indexer.chains.events import Event
from indexer.chains.raw import StellarEvent
from indexer.chains.stellar.xdr.scval import topic_name
from indexer.config.networks import StellarChain
from indexer.errors import Undecodable
from indexer.market.decode import ESCROW_DECODERS, RAIL_TERMS_DECODERS
from warehouse_schema.identifiers import StellarAddress

EventDecoder: TypeAlias = Callable[[StellarEvent, StellarChain], Event | None]


def decode(event: StellarEvent, chain: StellarChain) -> Event | None:
    """The typed event; None when it is not of our contracts, or of ours but not stored.

    Raises `Undecodable` when it is ours and malformed.
    """
    decoders = _decoders_by_contract(chain).get(event.contract)
    if decoders is None:
        return None
    decoder = decoders.get(topic_name(event) or "")
    return None if decoder is None else decoder(event, chain)


def _chainless(decoder: Callable[[StellarEvent], Event]) -> EventDecoder:
    """Adapter for a decoder that does not depend on the chain."""
    return lambda event, _chain: decoder(event)


def _asset_event(event: StellarEvent, chain: StellarChain) -> Event | None:
    found = classify_asset_event(event, chain.passphrase)
    if isinstance(found, ForgedAssetEvent):
        raise Undecodable(f"{event.contract} emitted an event of {found.claimed}, not its asset")
    return found


_ASSET_EVENTS: Mapping[str, EventDecoder] = dict.fromkeys(
    ("transfer", "mint", "burn", "clawback", "set_authorized"), _asset_event
)

DECODERS: Mapping[str, Mapping[str, EventDecoder]] = {
    "cctp_token_messenger": {
        "deposit_for_burn": _chainless(cctp.deposit_for_burn),
        "mint_and_withdraw": _chainless(cctp.mint_and_withdraw),
    },
    "cctp_message_transmitter": {
        "message_sent": cctp.message_sent,
        "message_received": cctp.message_received,
    },
    "cctp_forwarder": {
        "mint_and_forward": _chainless(cctp.mint_and_forward),
    },
    "oft": {
        "oft_sent": _chainless(oft.oft_sent),
        "oft_received": _chainless(oft.oft_received),
    },
    "lz_endpoint": {
        "packet_sent": oft.packet_sent,
        "packet_verified": oft.packet_verified,
        "packet_delivered": oft.packet_delivered,
        "lz_receive_alert": oft.lz_receive_alert,
    },
    "escrow": {name: _chainless(decoder) for name, decoder in ESCROW_DECODERS.items()},
    "rail_terms": {name: _chainless(decoder) for name, decoder in RAIL_TERMS_DECODERS.items()},
    "usdc_contract": _ASSET_EVENTS,
    "usdt0_contract": _ASSET_EVENTS,
}
"""Field of `StellarChain` that names the contract → topic 0 → decoder."""


@lru_cache(maxsize=16)
def _decoders_by_contract(chain: StellarChain) -> dict[StellarAddress, Mapping[str, EventDecoder]]:
    return {
        contract: decoders
        for role, decoders in DECODERS.items()
        if (contract := getattr(chain, role)) is not None
    }
