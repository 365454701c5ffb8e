"""What services beside the chains say of a message.

None of it comes from a block. An attestation proves itself by its signatures; a status is a hint.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from indexer.chains.events import Provenance
from warehouse_schema.identifiers import BaseUnits, Bytes32, ChainId, EvmAddress, TxHash

Service: TypeAlias = Literal["iris", "lz_scan"]
"""Circle's attestation service, and LayerZero Scan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attestation:
    """An attested CCTP message as the service gave it, and what became of checking it."""

    source_domain: int
    nonce: Bytes32
    message_hash: Bytes32
    """keccak256 of the message: what attesters sign."""
    source_chain: ChainId
    source_tx: TxHash
    """The transaction that was asked about."""
    burn_key: Bytes32 | None
    """As on `MessageSent`."""
    message: bytes
    attestation: bytes
    status: str
    finality_threshold_executed: int | None
    fee_executed: BaseUnits | None
    """6 decimals."""
    expiration_block: int | None
    """Block or ledger of the destination from which on the message is refused; 0 is never."""
    attesters: tuple[EvmAddress, ...]
    """Recovered from the signatures, in their order."""
    refusal: str | None
    """Why nothing may rest on it; None when it was verified."""

    @property
    def verified(self) -> bool:
        """Whether anything may rest on it."""
        return self.refusal is None


@dataclass(frozen=True, slots=True)
class AttestedBurn:
    """That a burn of this transaction has a verified attestation, and under which nonce."""

    source_chain: ChainId
    source_tx: TxHash
    burn_key: Bytes32
    nonce: Bytes32


@dataclass(frozen=True, slots=True)
class MessageStatus:
    """Why a message waits, in a service's words."""

    service: Service
    message_id: str
    """`burn_id` of its MessageSent, or a guid."""
    group_key: Bytes32
    """Burn key or guid."""
    status: str
    detail: str | None


def burn_id(seen: Provenance) -> str:
    """What a status calls the burn whose MessageSent was seen there."""
    return f"{seen.chain}/{seen.tx_hash}/{seen.position}"
