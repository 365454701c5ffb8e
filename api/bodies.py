"""Answers as the bytes that are sent, and a place of bounded size to keep them in."""

import gzip
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

LEAST_PACKED = 1_400
"""Bytes that fit one packet anyway are not worth packing."""
_LEVEL = 6
_OVERHEAD = 500
"""About what a kept answer takes beside its bytes."""


class StoredBody:
    """JSON, or a file; `digest` is the same in every process that says the same.

    `packs` is False for what is compressed already.
    """

    __slots__ = ("_packed", "_packs", "digest", "plain")

    def __init__(self, plain: bytes, *, packs: bool = True) -> None:
        self.plain = plain
        self._packs = packs and len(plain) >= LEAST_PACKED
        self.digest = hashlib.sha256(plain).hexdigest()[:32]
        self._packed: bytes | None = None

    @property
    def packed(self) -> bytes | None:
        """The same by gzip, made when it is first asked for; None where it is not worth it."""
        # Two threads may both make it: the bytes are the same.
        if self._packed is None and self._packs:
            self._packed = gzip.compress(self.plain, _LEVEL, mtime=0)
        return self._packed

    @property
    def size(self) -> int:
        """Bytes it takes, about; packed JSON is below a fourth of itself."""
        return _OVERHEAD + len(self.plain) * 5 // 4


class BodyCache(Generic[K]):
    """Bodies by key in at most `most_bytes`; what was not asked for the longest goes first."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._bodies: OrderedDict[K, StoredBody] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> StoredBody | None:
        """The body, if it is still there."""
        with self._lock:
            body = self._bodies.get(key)
            if body is not None:
                self._bodies.move_to_end(key)
            return body

    def put(self, key: K, body: StoredBody) -> None:
        """Keep it, unless it is larger than all that may be kept."""
        if body.size > self._most:
            return
        with self._lock:
            replaced = self._bodies.pop(key, None)
            self._bodies[key] = body
            self._bytes += body.size - (replaced.size if replaced else 0)
            while self._bytes > self._most:
                _, gone = self._bodies.popitem(last=False)
                self._bytes -= gone.size

    def __len__(self) -> int:
        return len(self._bodies)
