"""Whether CCTP is paused on Stellar: asked before a burn, and while one waits for its delivery.

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
"""What a view returns at the head, XDR of an SCVal."""


def cctp_pause(chain: StellarChain, view: StellarView) -> MintRefusal | None:
    """Why CCTP mints to no recipient; None where it does, or does not lead to the chain.

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
