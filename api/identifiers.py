"""Identifiers in hex as clients write them: with or without `0x`, in either case."""

import re

_HEX = re.compile(r"(?:0[xX])?([0-9a-fA-F]+)")


def canonical_hex(text: str, digits: int) -> str | None:
    """The identifier in lower case without `0x`; None if it is not that many hex digits."""
    found = _HEX.fullmatch(text)
    return found[1].lower() if found and len(found[1]) == digits else None
