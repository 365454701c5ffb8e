"""Are these the transactions that a ledger's header names? Told from bytes, decodable or not.

The header holds the hash of the transaction set, which stands right behind it. So of a ledger that
holds nothing of ours it can be known that nothing was left out: a contract emits events only when
a transaction calls it, and that transaction names it. And of a ledger that cannot be decoded it
can be known that the bytes are the chain's and not a damaged copy.
"""

from hashlib import sha256

from indexer.chains.raw import Block
from indexer.chains.stellar.xdr.skip import Malformed, Skipper, fields, skipper
from indexer.errors import InconsistentAnswer

_HASH = 32
_BEFORE_SET_HASH = 4 + _HASH
"""A header's version and parent; then comes the hash of the transaction set."""
_COUNT = 4
_WORD = 4
"""Every XDR value takes a whole number of these."""
_SIGNATURE = (64).to_bytes(_COUNT, "big")
_BEHIND_SIGNATURE = _COUNT + 64
_LAST_ENVELOPE_TYPE = 5
"""What a further transaction of the set begins with is no more than this (a fee bump's)."""
_MOST_GUESSES = 8
"""Each costs the hash of a set, a quarter of a millisecond; pubnet's ledgers need one or two."""
_OLD, _NEW = skipper("TransactionSet"), skipper("GeneralizedTransactionSet")


def check_transaction_set(raw: bytes, begin: int, end: int, block: Block) -> None:
    """Raise `InconsistentAnswer` unless the ledger's transactions are those its header names.

    `block` is the header of the `LedgerCloseMeta` between `begin` and `end`, which was read and
    hashes to its name.
    """
    version = int.from_bytes(raw[begin : begin + 4], "big")
    try:
        header, at = _places(raw, begin, version)
    except Malformed as error:
        raise InconsistentAnswer(
            f"ledger {block.height}: before its transactions: {error}"
        ) from error
    place = header + _BEFORE_SET_HASH
    digest = raw[place : place + _HASH]
    is_old = version == 0
    if not (
        _as_guessed(raw, at, end, digest, version)
        or _as_decoded(raw, at, digest, is_old)
        or _as_some_length(raw, at, end, digest, is_old)
    ):
        raise InconsistentAnswer(
            f"ledger {block.height}: its transaction set does not hash to {digest.hex()}"
        )


def _places(raw: bytes, begin: int, version: int) -> tuple[int, int]:
    """Where the header begins, behind its hash, and where the transaction set begins."""
    header, at = 0, begin + 4
    for part, skip in fields(f"LedgerCloseMetaV{version}"):
        if part == "txSet":
            break
        if part == "ledgerHeader":
            header = at + _HASH
        at = skip(raw, at)
    return header, at


def _as_guessed(raw: bytes, at: int, end: int, digest: bytes, version: int) -> bool:
    """Whether the bytes up to the likeliest ends are the set: most ledgers, at no cost of decoding.

    A wrong guess costs time and no more, for nothing but the hash says that an end is the end.
    """
    if version == 0:
        return False
    # The last transaction's last signature ends the set. Behind it come the results: how many, each
    # with its transaction's hash and the fee, of eight bytes and in truth never more than four; in
    # version 2 an extension before, so far void. A set of a few transactions is as soon decoded.
    fee = _COUNT + _HASH + (_WORD if version > 1 else 0)
    guesses = 0
    place = raw.find(_SIGNATURE, at, end)
    while place >= 0 and guesses < _MOST_GUESSES:
        after = place + _BEHIND_SIGNATURE
        count = int.from_bytes(raw[after : after + _COUNT], "big")
        if count > _LAST_ENVELOPE_TYPE and not any(raw[after + fee : after + fee + _WORD]):
            guesses += 1
            if sha256(memoryview(raw)[at:after]).digest() == digest:
                return True
        place = raw.find(_SIGNATURE, place + _WORD, end)
    return False


def _as_decoded(raw: bytes, at: int, digest: bytes, is_old: bool) -> bool:
    """Whether the set that is read here is the one."""
    skip: Skipper = _OLD if is_old else _NEW
    try:
        end = skip(raw, at)
    except (Malformed, RecursionError):
        return False
    committed = raw[at:end]
    if is_old:
        # What it hashes to leaves out how many there are.
        committed = committed[:_HASH] + committed[_HASH + _COUNT :]
    return sha256(committed).digest() == digest


def _as_some_length(raw: bytes, at: int, end: int, digest: bytes, is_old: bool) -> bool:
    """Whether bytes from here on are the set, as many as it may be: where none can decode it.

    A tenth of a second for a full ledger.
    """
    taken, view = sha256(), memoryview(raw)
    if is_old:
        taken.update(view[at : at + _HASH])
        at += _HASH + _COUNT
    for place in range(at, end, _WORD):
        if taken.digest() == digest:
            return True
        taken.update(view[place : place + _WORD])
    return taken.digest() == digest
