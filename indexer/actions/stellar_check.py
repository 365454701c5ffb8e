"""Whether what an owner submits is a transaction that was issued to him, signed by who may.

It has to be the issued one byte for byte, which its hash says; only signatures may be new. Those
have to be what the ledger will want: enough for the account's threshold, and not one more, because
a signature that nobody needs makes the whole transaction fail.
"""

import base64
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeAlias

from stellar_sdk import Keypair, xdr
from stellar_sdk.exceptions import BadSignatureError

from indexer.actions.stellar_tx import IssuedTransaction
from indexer.chains.stellar.xdr.ledger_entries import Signer, SigningRules
from warehouse_schema.identifiers import StellarAddress, TxHash, UnixSeconds

MAX_ENVELOPE_CHARS = 64 * 1024
"""Bytes of base64; ours have about two thousand."""
MAX_SIGNATURES = 19
"""The ledger takes 20; one is left for the sponsor, which signs after the owner."""
MIN_SECONDS_LEFT = 30
"""Seconds that have to be left for a ledger to take it."""


@dataclass(frozen=True, slots=True)
class SignedTx:
    """An issued transaction with all signatures that it needs."""

    tx: TxHash
    envelope: bytes


@dataclass(frozen=True, slots=True)
class InvalidSubmission:
    """Why a submission is not what was asked for."""

    field: str
    """`signed_xdr`, `transaction`, `signatures` or `time`."""
    message: str


StellarVerdict: TypeAlias = SignedTx | InvalidSubmission


def master_key_rules(account: StellarAddress) -> SigningRules:
    """Who may sign for an account that does not exist yet: its own key."""
    return SigningRules(account, 0, (Signer(account, 1),))


def check_signed(
    passphrase: str,
    issued: Collection[IssuedTransaction],
    rules: SigningRules,
    signed_xdr: str,
    now: UnixSeconds,
) -> StellarVerdict:
    """Hold a submission against all that was issued; `rules` are the owner's account's."""
    try:
        submitted = _read(signed_xdr)
    except ValueError as error:
        return InvalidSubmission("signed_xdr", str(error))
    message = _hash(passphrase, submitted.body)
    tx = TxHash(message.hex())
    asked = next((each for each in issued if each.tx == tx), None)
    if asked is None:
        return InvalidSubmission(
            "transaction", f"{tx} was not issued for this transfer: see its action"
        )
    wrong = _judge(rules, message, submitted.signatures)
    if wrong is not None:
        return InvalidSubmission("signatures", wrong)
    if (latest := _latest(submitted.body)) < now + MIN_SECONDS_LEFT:
        return InvalidSubmission(
            "time", f"no ledger takes it after {latest}: ask for the action anew"
        )
    return SignedTx(tx, submitted.raw)


@dataclass(frozen=True, slots=True)
class _Envelope:
    raw: bytes
    body: xdr.Transaction
    signatures: tuple[bytes, ...]
    """The hint, which is the last 4 bytes of the key, and the signature."""


def _read(text: str) -> _Envelope:
    """An envelope of today's kind, in strict base64. Raises `ValueError` for anything else."""
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
    """What is signed: sha256 of network id, kind and transaction."""
    network = sha256(passphrase.encode()).digest()
    kind = xdr.EnvelopeType.ENVELOPE_TYPE_TX.to_bytes(4, "big")
    return sha256(network + kind + body.to_xdr_bytes()).digest()


def _judge(rules: SigningRules, message: bytes, given: Sequence[bytes]) -> str | None:
    """What is wrong with the signatures, as the ledger would find them; None when nothing is."""
    if len(given) > MAX_SIGNATURES:
        return f"more than {MAX_SIGNATURES} signatures"
    if len(set(given)) != len(given):
        return "a signature stands there twice"
    return _reaches(rules, message, given)


def _reaches(rules: SigningRules, message: bytes, given: Sequence[bytes]) -> str | None:
    left = {signer.key: signer.weight for signer in rules.signers if signer.weight}
    needed, total = max(1, rules.medium_threshold), 0
    for position, signature in enumerate(given):
        if total >= needed:
            return f"{len(given) - position} signatures more than {rules.account} needs"
        key = next((key for key in left if _has_signed(key, message, signature)), None)
        if key is None:
            return f"one signature is of no signer of {rules.account} for this transaction"
        total += left.pop(key)
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


def _latest(body: xdr.Transaction) -> int:
    """Of one that was issued: all of those have time bounds and no other conditions."""
    bounds = body.cond.time_bounds
    if bounds is None:
        raise ValueError("a transaction was issued that never expires")
    return bounds.max_time.time_point.uint64
