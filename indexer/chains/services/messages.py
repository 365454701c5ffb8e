"""Attestations and statuses of cross-chain messages, as services give them.

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
    """An attested CCTP message as the service gave it, and the result of its verification."""

    source_domain: int
    nonce: Bytes32
    message_hash: Bytes32
    """keccak256 of the message: what attesters sign."""
    source_chain: ChainId
    source_tx: TxHash
    """The burn transaction that the request named."""
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
    """Why verification failed; None when it succeeded."""

    @property
    def verified(self) -> bool:
        """Whether verification succeeded."""
        return self.refusal is None


@dataclass(frozen=True, slots=True)
class AttestedBurn:
    """A burn with a verified attestation, and its nonce."""

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
    """The `message_id` of a burn by the provenance of its MessageSent."""
    return f"{seen.chain}/{seen.tx_hash}/{seen.position}"
