"""Verifies attestations as the destination's contract does.

Circle's Attestable.sol and its Stellar counterpart: as many signatures as the threshold says, over
keccak256 of the message, low-s, signers strictly ascending and all of them enabled.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from eth_keys.datatypes import Signature
from eth_keys.exceptions import BadSignature
from eth_utils.exceptions import ValidationError

from indexer.bridges.cctp.message import attestation_digest
from warehouse_schema.identifiers import EvmAddress

SIGNATURE_SIZE = 65
MAX_SIGNATURES = 16
"""Far above any threshold; recovering costs time, so longer attestations are rejected unread."""

_HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0
"""Half the order of secp256k1: OpenZeppelin's ECDSA and Soroban's host refuse an s above it."""


@dataclass(frozen=True, slots=True)
class SignatureCheck:
    """Signers of a message, and why they do not suffice."""

    attesters: tuple[EvmAddress, ...]
    """Empty when they could not be recovered."""
    refusal: str | None
    """None if they suffice."""


def check_signatures(
    message: bytes, attestation: bytes, trusted: Collection[EvmAddress], threshold: int
) -> SignatureCheck:
    """Recover the attesters of a message and check them against the trusted ones."""
    if len(attestation) > MAX_SIGNATURES * SIGNATURE_SIZE:
        return SignatureCheck(
            (), f"an attestation of {len(attestation)} bytes is longer than any can be"
        )
    try:
        attesters = recover_attesters(message, attestation)
    except ValueError as error:
        return SignatureCheck((), str(error))
    return SignatureCheck(tuple(attesters), _refusal(attesters, attestation, trusted, threshold))


def recover_attesters(message: bytes, attestation: bytes) -> list[EvmAddress]:
    """Signers of an attested message, in the order of the signatures.

    An attestation is one 65-byte secp256k1 signature (r, s, v of 27 or 28) after another. The
    contracts require strictly ascending, enabled signers: the caller checks that. Raises
    `ValueError` for an empty attestation, a partial signature or an invalid one.
    """
    if not attestation or len(attestation) % SIGNATURE_SIZE:
        raise ValueError(f"an attestation of {len(attestation)} bytes is not of whole signatures")
    digest = attestation_digest(message)
    return [
        _recover(digest, attestation[start : start + SIGNATURE_SIZE])
        for start in range(0, len(attestation), SIGNATURE_SIZE)
    ]


def _recover(digest: bytes, signature: bytes) -> EvmAddress:
    r, s = (int.from_bytes(signature[start : start + 32], "big") for start in (0, 32))
    v = signature[64]
    if v not in (27, 28):
        raise ValueError(f"an attestation's signature has v {v}, not 27 or 28")
    try:
        public_key = Signature(vrs=(v - 27, r, s)).recover_public_key_from_msg_hash(digest)
    except (BadSignature, ValidationError) as error:
        raise ValueError(f"an attestation's signature cannot be: {error}") from error
    return EvmAddress(public_key.to_address())


def _refusal(
    attesters: Sequence[EvmAddress],
    attestation: bytes,
    trusted: Collection[EvmAddress],
    threshold: int,
) -> str | None:
    starts = range(0, len(attestation), SIGNATURE_SIZE)
    s_values = [int.from_bytes(attestation[start + 32 : start + 64], "big") for start in starts]
    if not trusted:
        return "the network file names no attesters, so none is trusted"
    if len(attesters) != threshold:
        return f"{len(attesters)} attesters signed; it takes {threshold}"
    if any(s > _HALF_ORDER for s in s_values):
        return "a signature has a high s, which the contracts refuse"
    if sorted(set(attesters)) != list(attesters):
        return f"the signers are not strictly ascending: {', '.join(attesters)}"
    strangers = [attester for attester in attesters if attester not in trusted]
    if strangers:
        return f"signed by {', '.join(strangers)}, whom the network file does not name"
    return None
