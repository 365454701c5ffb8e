"""LayerZero V2 events of an OFT (USDT0) and of its endpoint, the same on every chain.

Amounts are in the local decimals of the chain that emitted them: 6 on EVM, 7 on Stellar.
A `guid` names one message on both sides.
"""

from dataclasses import dataclass

from indexer.chains.events import Event
from warehouse_schema.identifiers import Address, BaseUnits, Bytes32


@dataclass(frozen=True, slots=True)
class OftSent(Event):
    """Tokens left this chain. Emitter: the OFT or its adapter."""

    guid: Bytes32
    dst_eid: int
    from_address: Address
    amount_sent: BaseUnits
    amount_received: BaseUnits
    """What the destination will credit, still in the source's local decimals."""


@dataclass(frozen=True, slots=True)
class OftReceived(Event):
    """Tokens arrived on this chain. Emitter: the OFT or its adapter."""

    guid: Bytes32
    src_eid: int
    to_address: Address
    amount_received: BaseUnits


@dataclass(frozen=True, slots=True)
class PacketSent(Event):
    """A message of our OFT entered the endpoint."""

    guid: Bytes32
    nonce: int
    src_eid: int
    sender: Bytes32
    dst_eid: int
    receiver: Bytes32
    send_to: Bytes32
    """The recipient in the OFT message."""
    amount_shared: BaseUnits
    """6 shared decimals (`amountSD`)."""
    packet: bytes
    options: bytes
    send_library: Address


@dataclass(frozen=True, slots=True)
class PacketVerified(Event):
    """The destination endpoint accepted the message's hash; it can be executed."""

    guid: Bytes32
    """Computed from the origin; the chain event carries none."""
    src_eid: int
    sender: Bytes32
    nonce: int
    receiver: Address
    payload_hash: Bytes32


@dataclass(frozen=True, slots=True)
class PacketDelivered(Event):
    """The destination endpoint handed the message to our OFT."""

    guid: Bytes32
    src_eid: int
    sender: Bytes32
    nonce: int
    receiver: Address


@dataclass(frozen=True, slots=True)
class LzReceiveAlert(Event):
    """Claim that the execution of a message failed. A hint only: anyone can emit it."""

    guid: Bytes32
    src_eid: int
    sender: Bytes32
    nonce: int
    receiver: Address
    executor: Address
    gas: BaseUnits
    value: BaseUnits
    message: bytes
    extra_data: bytes
    reason: bytes
