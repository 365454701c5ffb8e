"""Which decoders this build has, by a name that changes whenever they may decode otherwise."""

from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

_DECODERS = ("decode", "bridges", "market", "chains/stellar/xdr", "chains/evm")
"""Folders whose sources say what becomes of a chain's bytes."""
_LIBRARIES = ("stellar-sdk", "xdrlib3")
"""What they read XDR with."""
_DIGITS = 12


@cache
def decoder_build() -> str:
    """Twelve hex digits over the decoders' sources and the versions of the XDR libraries.

    Not a number that somebody must remember to raise: a ledger that one build could not decode is
    tried again by every build that may do better. Two names say nothing of which is newer.
    """
    here = Path(__file__).parents[1]
    digest = sha256()
    for folder in _DECODERS:
        for source in sorted((here / folder).rglob("*.py")):
            digest.update(f"{source.relative_to(here)}\n".encode() + source.read_bytes())
    for library in _LIBRARIES:
        digest.update(f"{library} {version(library)}\n".encode())
    return digest.hexdigest()[:_DIGITS]
