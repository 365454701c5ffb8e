"""Whether CCTP is paused on Stellar: checked before a burn, and while one waits for its delivery.

Source: the `paused` view of Circle's TokenMessengerMinter and MessageTransmitter (circlefin/
stellar-cctp). The forwarder can be paused as well; no view of it is known.
"""

from collections.abc import Callable

from stellar_sdk.operation.operation import Operation

from indexer.actions.mint_check import MintRefusal
from indexer.actions.stellar_orders import paused_call
from indexer.chains.stellar.xdr.scval import boolean, parse
from indexer.config.networks import StellarChain
from indexer.errors import CallReverted, InconsistentAnswer
from warehouse_schema.identifiers import StellarAddress

StellarView = Callable[[Operation], bytes]
"""Calls a view at the head; returns XDR of an SCVal."""


def cctp_pause(chain: StellarChain, view: StellarView) -> MintRefusal | None:
    """Why CCTP mints nothing; None if it is not paused, or has no contracts on the chain.

    Raises what `view` raises, and `InconsistentAnswer`.
    """
    for contract in (chain.cctp_token_messenger, chain.cctp_message_transmitter):
        if contract is not None and _is_paused(contract, view):
            return MintRefusal("paused", f"CCTP is paused on {chain.id}")
    return None


def _is_paused(contract: StellarAddress, view: StellarView) -> bool:
    try:
        return boolean(parse(view(paused_call(contract))))
    except (ValueError, CallReverted) as error:
        raise InconsistentAnswer(f"{contract} does not say whether it is paused") from error
