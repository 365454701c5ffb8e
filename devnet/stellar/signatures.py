"""Signatures of a transaction and their weight: stellar-core's rules for ed25519."""

from dataclasses import dataclass, field

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey
from stellar_sdk import xdr

from devnet.stellar.entries import Account, account_id


def _key_bytes(address: str) -> bytes:
    key = account_id(address).account_id.ed25519
    assert key is not None
    return key.uint256


def _verifies(key: bytes, signature: xdr.DecoratedSignature, message: bytes) -> bool:
    if signature.hint.signature_hint != key[-4:]:
        return False
    try:
        VerifyKey(key).verify(message, signature.signature.signature)
    except (BadSignatureError, ValueError):
        return False
    return True


@dataclass
class SignatureCheck:
    """Spends the signatures of one transaction; those never spent are a txBAD_AUTH_EXTRA."""

    message: bytes
    signatures: list[xdr.DecoratedSignature]
    used: set[int] = field(default_factory=set)

    def by_account(self, account: Account, level: int) -> bool:
        """Do the account's signers reach the threshold at `level` (0 needs one signature)?"""
        signers = [(_key_bytes(account.address), account.thresholds[0])]
        signers += [
            (signer.key.ed25519.uint256, signer.weight)
            for signer in account.signers
            if signer.key.ed25519 is not None
        ]
        return self._reaches(signers, account.thresholds[level])

    def by_key_alone(self, address: str) -> bool:
        """For an account that does not exist yet: has its master key signed?"""
        return self._reaches([(_key_bytes(address), 1)], 0)

    def by_signer(self, key: xdr.SignerKey) -> bool:
        """Has one named extra signer signed? Other kinds than ed25519 cannot."""
        return key.ed25519 is not None and self._reaches([(key.ed25519.uint256, 1)], 0)

    def _reaches(self, signers: list[tuple[bytes, int]], needed: int) -> bool:
        left = {key: min(weight, 255) for key, weight in signers if weight}
        total = 0
        for index, signature in enumerate(self.signatures):
            match = next((k for k in left if _verifies(k, signature, self.message)), None)
            if match is None:
                continue
            self.used.add(index)
            total += left.pop(match)
            if total >= needed:
                return True
        return False

    @property
    def all_used(self) -> bool:
        """Has every signature counted towards something?"""
        return len(self.used) == len(self.signatures)
