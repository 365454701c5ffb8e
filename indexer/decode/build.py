"""Name of this build's decoders."""

from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

_DECODERS = ("decode", "bridges", "market", "chains/stellar/xdr", "chains/evm")
"""Folders whose sources decide the result of decoding."""
_LIBRARIES = ("stellar-sdk", "xdrlib3")
_DIGITS = 12


@cache
def decoder_build() -> str:
    """Twelve hex digits over the decoders' sources and the versions of the XDR libraries.

    A quarantined ledger is retried by each build with another name, so a version number that must
    be raised by hand is not needed. Names have no order.
    """
    here = Path(__file__).parents[1]
    digest = sha256()
    for folder in _DECODERS:
        for source in sorted((here / folder).rglob("*.py")):
            digest.update(f"{source.relative_to(here)}\n".encode() + source.read_bytes())
    for library in _LIBRARIES:
        digest.update(f"{library} {version(library)}\n".encode())
    return digest.hexdigest()[:_DIGITS]
