"""Whether CCTP would mint USDC to a recipient: checked before a burn, which cannot be undone, and
while a burn waits for its delivery.

Sources: Circle's FiatTokenV2_2 (`isBlacklisted`, `paused`), TokenMinterV2 and MessageTransmitterV2
(`paused`), TokenMessengerV2 (`localMinter`); on Stellar the `paused` view of TokenMessengerMinter
and MessageTransmitter (circlefin/stellar-cctp). No `paused` view of its forwarder is known.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from eth_abi.abi import encode
from eth_utils.crypto import keccak
from stellar_sdk.operation.operation import Operation

from indexer.actions.stellar_orders import paused_call
from indexer.chains.stellar.xdr.scval import boolean, parse
from indexer.config.networks import EvmChain, StellarChain
from indexer.errors import CallReverted, InconsistentAnswer
from warehouse_schema.identifiers import EvmAddress

EvmView = Callable[[EvmAddress, bytes], int]
"""Calls a contract view at the head; returns its word as a number."""
StellarView = Callable[[Operation], bytes]
"""Calls a view at the head; returns XDR of an SCVal."""

_IS_BLACKLISTED = keccak(text="isBlacklisted(address)")[:4]
_PAUSED = keccak(text="paused()")[:4]
_LOCAL_MINTER = keccak(text="localMinter()")[:4]


@dataclass(frozen=True, slots=True)
class MintRefusal:
    """Why nothing can be minted to a recipient now."""

    kind: Literal["frozen", "paused"]
    """The issuer refuses the recipient; or issuer or bridge are paused."""
    detail: str
    """A sentence for the owner."""


def mint_refusal(chain: EvmChain, recipient: EvmAddress, word: EvmView) -> MintRefusal | None:
    """Why CCTP would not mint to a recipient; None if it would, or has no contracts on the chain.

    Raises what `word` raises.
    """
    messenger, transmitter = chain.cctp_token_messenger, chain.cctp_message_transmitter
    if chain.usdc is None or messenger is None or transmitter is None:
        return None
    if word(chain.usdc, _IS_BLACKLISTED + encode(["address"], [recipient])):
        return MintRefusal("frozen", f"the issuer of USDC refuses {recipient} on {chain.id}")
    minter = EvmAddress(f"0x{word(messenger, _LOCAL_MINTER):040x}")
    for contract, name in ((chain.usdc, "USDC"), (transmitter, "CCTP"), (minter, "CCTP")):
        if word(contract, _PAUSED):
            return MintRefusal("paused", f"{name} is paused on {chain.id}")
    return None


def cctp_pause(chain: StellarChain, view: StellarView) -> MintRefusal | None:
    """Why CCTP mints nothing on Stellar; None if it is not paused, or has no contracts there.

    Raises what `view` raises, and `InconsistentAnswer`.
    """
    for contract in (chain.cctp_token_messenger, chain.cctp_message_transmitter):
        if contract is None:
            continue
        try:
            is_paused = boolean(parse(view(paused_call(contract))))
        except (ValueError, CallReverted) as error:
            raise InconsistentAnswer(f"{contract} does not say whether it is paused") from error
        if is_paused:
            return MintRefusal("paused", f"CCTP is paused on {chain.id}")
    return None
