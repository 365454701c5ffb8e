"""Verifies a submitted Stellar transaction: issued to its owner, with the signatures it needs.

Its hash must be an issued transaction's; only signatures may be new. They must reach the account's
threshold, and not one more: the ledger fails a transaction with an unneeded signature.
"""

import base64
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256

from stellar_sdk import Keypair, xdr
from stellar_sdk.exceptions import BadSignatureError

from indexer.actions.agreed import Mismatch
from indexer.actions.stellar_tx import IssuedTransaction
from indexer.chains.stellar.xdr.ledger_entries import Signer, SigningRules
from warehouse_schema.identifiers import StellarAddress, TxHash, UnixSeconds

MAX_ENVELOPE_CHARS = 64 * 1024
"""Ours have about two thousand."""
MAX_SIGNATURES = 19
"""The ledger accepts 20; the sponsor, which signs after the owner, adds one."""
MIN_SECONDS_LEFT = 30
"""Seconds of validity that a ledger needs to include it."""


@dataclass(frozen=True, slots=True)
class SignedTx:
    """An issued transaction with all its signatures."""

    tx: TxHash
    envelope: bytes


def master_key_rules(account: StellarAddress) -> SigningRules:
    """Signing rules of an account that does not exist yet: its own key."""
    return SigningRules(account, 0, (Signer(account, 1),))


def check_signed(
    passphrase: str,
    issued: Collection[IssuedTransaction],
    rules: SigningRules,
    signed_xdr: str,
    now: UnixSeconds,
) -> SignedTx | Mismatch:
    """Verify a submission against all issued transactions; `rules`: of the owner's account."""
    try:
        submitted = _read(signed_xdr)
    except ValueError as error:
        return Mismatch(("signed_xdr",), str(error))
    message = _hash(passphrase, submitted.body)
    tx = TxHash(message.hex())
    if tx not in {each.tx for each in issued}:
        return Mismatch(("transaction",), f"{tx} was not issued for this transfer: see its action")
    wrong = _signature_problem(rules, message, submitted.signatures)
    if wrong is not None:
        return Mismatch(("signatures",), wrong)
    bounds = submitted.body.cond.time_bounds
    if bounds is None:
        raise ValueError("a transaction was issued that never expires")
    latest = bounds.max_time.time_point.uint64
    if latest < now + MIN_SECONDS_LEFT:
        return Mismatch(("time",), f"no ledger takes it after {latest}: ask for the action again")
    return SignedTx(tx, submitted.raw)


@dataclass(frozen=True, slots=True)
class _Envelope:
    raw: bytes
    body: xdr.Transaction
    signatures: tuple[bytes, ...]
    """Each the hint (last 4 bytes of the key) and the signature."""


def _read(text: str) -> _Envelope:
    """Parse a v1 envelope in strict base64. Raises `ValueError` for anything else."""
    if len(text) > MAX_ENVELOPE_CHARS:
        raise ValueError(f"more than {MAX_ENVELOPE_CHARS} characters")
    try:
        raw = base64.b64decode(text, validate=True)
        envelope = xdr.TransactionEnvelope.from_xdr_bytes(raw)
    except (ValueError, EOFError) as error:
        raise ValueError("not base64 of one XDR TransactionEnvelope") from error
    if envelope.v1 is None:
        raise ValueError(f"an {envelope.type.name}, where the signed transaction itself is wanted")
    given = envelope.v1.signatures
    return _Envelope(
        raw,
        envelope.v1.tx,
        tuple(each.hint.signature_hint + each.signature.signature for each in given),
    )


def _hash(passphrase: str, body: xdr.Transaction) -> bytes:
    """The signed hash: sha256 of network id, envelope type and transaction."""
    network = sha256(passphrase.encode()).digest()
    kind = xdr.EnvelopeType.ENVELOPE_TYPE_TX.to_bytes(4, "big")
    return sha256(network + kind + body.to_xdr_bytes()).digest()


def _signature_problem(
    rules: SigningRules, message: bytes, signatures: Sequence[bytes]
) -> str | None:
    """Why the ledger would reject the signatures; None if it would not."""
    if len(signatures) > MAX_SIGNATURES:
        return f"more than {MAX_SIGNATURES} signatures"
    if len(set(signatures)) != len(signatures):
        return "a signature stands there twice"
    weights = {signer.key: signer.weight for signer in rules.signers if signer.weight}
    needed, total = max(1, rules.medium_threshold), 0
    for position, signature in enumerate(signatures):
        if total >= needed:
            return f"{len(signatures) - position} signatures more than {rules.account} needs"
        key = next((key for key in weights if _has_signed(key, message, signature)), None)
        if key is None:
            return f"one signature is of no signer of {rules.account} for this transaction"
        total += weights.pop(key)
    if total < needed:
        return f"the signatures weigh {total}, and {rules.account} needs {needed}"
    return None


def _has_signed(key: StellarAddress, message: bytes, decorated: bytes) -> bool:
    keypair = Keypair.from_public_key(key)
    if decorated[:4] != keypair.signature_hint():
        return False
    try:
        keypair.verify(message, decorated[4:])
    except BadSignatureError:
        return False
    return True
