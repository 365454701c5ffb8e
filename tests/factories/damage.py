"""Bytes as a bad disk, a bad line or a bad writer leaves them, by dice."""

import random
from collections.abc import Callable


def _bit(raw: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(raw))
    return raw[:at] + bytes([raw[at] ^ 1 << dice.randrange(8)]) + raw[at + 1 :]


def _bytes(raw: bytes, dice: random.Random) -> bytes:
    changed = bytearray(raw)
    for _ in range(dice.randrange(2, 6)):
        changed[dice.randrange(len(raw))] = dice.randrange(256)
    return bytes(changed)


def _word(raw: bytes, dice: random.Random) -> bytes:
    """A word of XDR: a length, an arm, a flag, a part of a number."""
    at = 4 * dice.randrange(len(raw) // 4)
    word = dice.choice((0, 1, 2, 3, 4, 99, 2**16, 2**31 - 1, 2**31, 2**32 - 1))
    return raw[:at] + word.to_bytes(4, "big") + raw[at + 4 :]


def _cut(raw: bytes, dice: random.Random) -> bytes:
    return raw[: dice.randrange(1, len(raw))]


def _hole(raw: bytes, dice: random.Random) -> bytes:
    """A stretch that is missing."""
    at = 4 * dice.randrange(len(raw) // 4)
    return raw[:at] + raw[at + 4 * dice.randrange(1, 200) :]


def _zeros(raw: bytes, dice: random.Random) -> bytes:
    """A stretch that was never written."""
    at = dice.randrange(len(raw))
    gone = raw[at : at + dice.randrange(1, 600)]
    return raw[:at] + bytes(len(gone)) + raw[at + len(gone) :]


def _twice(raw: bytes, dice: random.Random) -> bytes:
    """A stretch that was written twice."""
    at, size = 4 * dice.randrange(len(raw) // 4), 4 * dice.randrange(1, 100)
    return raw[: at + size] + raw[at:]


_WAYS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(_bit, _bit, _bytes, _word, _word),
    *(_cut, _hole, _zeros, _twice),
)


def damaged(raw: bytes, dice: random.Random, begin: int = 0) -> bytes:
    """The bytes with something wrong with them, behind `begin`; at least one byte remains."""
    head, rest = raw[:begin], raw[begin:]
    changed = head + dice.choice(_WAYS)(rest, dice)
    return changed if changed != raw else head + _bit(rest, dice)
