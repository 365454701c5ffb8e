"""Circle CCTP V2 events, the same on every chain.

Amounts of the messenger events are in the protocol's canonical 6 decimals on EVM and on Stellar
alike (Stellar's `deposit_for_burn` and `mint_and_withdraw` emit 6 decimals although their
arguments have 7). Only `MintAndForward` is in Stellar's 7 decimals.
"""

from dataclasses import dataclass

from indexer.chains.events import Event
from warehouse_schema.identifiers import Address, BaseUnits, Bytes32, StellarAddress


@dataclass(frozen=True, slots=True)
class DepositForBurn(Event):
    """USDC was burned to be minted elsewhere. Emitter: TokenMessenger."""

    burn_token: Address
    amount: BaseUnits
    """Gross of the fee, 6 decimals."""
    depositor: Address
    """Caller of the messenger: a router if one was used, else the user."""
    mint_recipient: Bytes32
    destination_domain: int
    destination_token_messenger: Bytes32
    destination_caller: Bytes32
    max_fee: BaseUnits
    min_finality_threshold: int
    hook_data: bytes


@dataclass(frozen=True, slots=True)
class MessageSent(Event):
    """The message of a burn, or of another protocol. Emitter: MessageTransmitter."""

    message: bytes
    """Source bytes: nonce, executed threshold, fee and expiration are still zero."""
    source_domain: int
    destination_domain: int
    sender: Bytes32
    recipient: Bytes32
    burn_key: Bytes32 | None
    """Equal on both sides of one transfer (`indexer.bridges.cctp.message.burn_key`); None when the
    body is not a V2 burn message."""


@dataclass(frozen=True, slots=True)
class MintAndWithdraw(Event):
    """USDC was minted for a burn elsewhere. Emitter: TokenMessenger."""

    mint_recipient: Address
    """On Stellar the forwarder contract for every forwarded deposit."""
    amount: BaseUnits
    """Net of the fee, 6 decimals."""
    mint_token: Address
    fee_collected: BaseUnits


@dataclass(frozen=True, slots=True)
class MessageReceived(Event):
    """An attested message was accepted. Emitter: MessageTransmitter."""

    caller: Address
    source_domain: int
    nonce: Bytes32
    sender: Bytes32
    finality_threshold_executed: int
    message_body: bytes
    burn_key: Bytes32 | None
    """As on `MessageSent`."""


@dataclass(frozen=True, slots=True)
class MintAndForward(Event):
    """The Stellar forwarder paid a mint on to its recipient. Emitter: CctpForwarder."""

    amount: BaseUnits
    """7 decimals."""
    forward_recipient: StellarAddress
    token: StellarAddress
