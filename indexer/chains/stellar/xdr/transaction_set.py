"""Checks a ledger's transactions against its header, from bytes that need not be decodable.

The header holds the hash of the transaction set, which follows the header. A contract emits events
only when a transaction names it, so a checked set without a wanted key proves that no event of ours
was left out. For a ledger that cannot be decoded, it proves that the bytes are the chain's and not
a damaged copy.
"""

from hashlib import sha256

from indexer.chains.raw import Block
from indexer.chains.stellar.xdr.skip import Malformed, fields, skipper
from indexer.errors import InconsistentAnswer

_HASH = 32
_BEFORE_SET_HASH = 4 + _HASH
"""Bytes of a header before the hash of the transaction set: version and parent."""
_COUNT = 4
_WORD = 4
"""The size of every XDR value is a multiple of this."""
_SIGNATURE = (64).to_bytes(_COUNT, "big")
_SIGNATURE_SIZE = _COUNT + 64
_MAX_ENVELOPE_TYPE = 5
"""First word of a further transaction of the set (a fee bump's), or less."""
_MAX_GUESSES = 8
"""Each hashes a set, a quarter of a millisecond; pubnet's ledgers need one or two."""


def check_transaction_set(raw: bytes, begin: int, end: int, block: Block) -> None:
    """Raise `InconsistentAnswer` unless the ledger's transaction set hashes to its header.

    `block` is the checked header of the `LedgerCloseMeta` between `begin` and `end`.
    """
    version = int.from_bytes(raw[begin : begin + 4], "big")
    header, at = 0, begin + 4
    try:
        for part, skip in fields(f"LedgerCloseMetaV{version}"):
            if part == "txSet":
                break
            if part == "ledgerHeader":
                header = at + _HASH
            at = skip(raw, at)
    except Malformed as error:
        raise InconsistentAnswer(
            f"ledger {block.height}: before its transactions: {error}"
        ) from error
    place = header + _BEFORE_SET_HASH
    digest = raw[place : place + _HASH]
    is_old = version == 0
    if not (
        (not is_old and _ends_at_signature(raw, at, end, digest, version))
        or _ends_as_decoded(raw, at, digest, is_old)
        or _ends_anywhere(raw, at, end, digest, is_old)
    ):
        raise InconsistentAnswer(
            f"ledger {block.height}: its transaction set does not hash to {digest.hex()}"
        )


def _ends_at_signature(raw: bytes, at: int, end: int, digest: bytes, version: int) -> bool:
    """The set is the bytes up to a likely last signature: most ledgers, without decoding.

    A wrong guess only costs time: the hash decides.
    """
    # The set ends with the last transaction's last signature. The results follow: their number,
    # then each with its transaction's hash and the fee (8 bytes, of which the first 4 are zero); in
    # version 2 each begins with an extension, so far void.
    fee = _COUNT + _HASH + (_WORD if version > 1 else 0)
    guesses = 0
    place = raw.find(_SIGNATURE, at, end)
    while place >= 0 and guesses < _MAX_GUESSES:
        after = place + _SIGNATURE_SIZE
        # A small number is more likely the type of a further envelope; a set of so few transactions
        # is decoded as quickly.
        count = int.from_bytes(raw[after : after + _COUNT], "big")
        if count > _MAX_ENVELOPE_TYPE and not any(raw[after + fee : after + fee + _WORD]):
            guesses += 1
            if sha256(memoryview(raw)[at:after]).digest() == digest:
                return True
        place = raw.find(_SIGNATURE, place + _WORD, end)
    return False


def _ends_as_decoded(raw: bytes, at: int, digest: bytes, is_old: bool) -> bool:
    """The set that a skipper finds at `at`."""
    skip = skipper("TransactionSet" if is_old else "GeneralizedTransactionSet")
    try:
        end = skip(raw, at)
    except (Malformed, RecursionError):
        return False
    committed = raw[at:end]
    if is_old:
        # The hash of an old set leaves out the number of transactions.
        committed = committed[:_HASH] + committed[_HASH + _COUNT :]
    return sha256(committed).digest() == digest


def _ends_anywhere(raw: bytes, at: int, end: int, digest: bytes, is_old: bool) -> bool:
    """Some number of bytes from `at`: for a set that cannot be decoded.

    Takes a tenth of a second for a full ledger.
    """
    prefix, view = sha256(), memoryview(raw)
    if is_old:
        prefix.update(view[at : at + _HASH])
        at += _HASH + _COUNT
    for place in range(at, end, _WORD):
        if prefix.digest() == digest:
            return True
        prefix.update(view[place : place + _WORD])
    return prefix.digest() == digest
