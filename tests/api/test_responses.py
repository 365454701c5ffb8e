"""Compressed bodies and their bounded cache."""

import gzip

import pytest

from api.responses import MIN_GZIP_BYTES, BoundedCache, StoredBody

LONG = b"[" + b'{"rate":"1.02"},' * 500 + b"{}]"


def test_body_is_compressed_once():
    body = StoredBody(LONG)
    assert gzip.decompress(body.gzipped) == LONG
    assert body.gzipped is body.gzipped
    assert len(body.gzipped) < len(LONG) / 4


def test_small_body_is_not_compressed():
    assert StoredBody(b"x" * (MIN_GZIP_BYTES - 1)).gzipped is None
    assert StoredBody(b"x" * MIN_GZIP_BYTES).gzipped is not None


def test_digest_and_gzip_are_deterministic():
    one, other = StoredBody(LONG), StoredBody(LONG)
    assert (one.digest, one.gzipped) == (other.digest, other.gzipped)
    assert one.digest != StoredBody(LONG + b" ").digest


def kept_of(*sizes: int) -> BoundedCache[int, StoredBody]:
    """Space for three bodies of 1000 bytes, filled with bodies of these sizes under 0, 1, 2 …"""
    kept: BoundedCache[int, StoredBody] = BoundedCache(3 * StoredBody(b"x" * 1000).size)
    for key, size in enumerate(sizes):
        kept.put(key, StoredBody(b"x" * size))
    return kept


def keys(kept: BoundedCache[int, StoredBody]) -> list[int]:
    return [key for key in range(10) if kept.get(key) is not None]


def test_full_cache_evicts_least_recently_used():
    kept = kept_of(1000, 1000, 1000)
    assert kept.get(0) is not None
    kept.put(3, StoredBody(b"x" * 1000))
    assert keys(kept) == [0, 2, 3]


def test_large_body_evicts_several():
    kept = kept_of(1000, 1000, 1000)
    kept.put(3, StoredBody(b"x" * 2000))
    assert keys(kept) == [2, 3]


def test_body_larger_than_the_cache_is_not_stored():
    kept = kept_of(1000, 1000)
    kept.put(2, StoredBody(b"x" * 10_000))
    assert keys(kept) == [0, 1]


def test_replaced_body_is_counted_once():
    kept = kept_of(1000, 1000)
    for _ in range(5):
        kept.put(0, StoredBody(b"x" * 1000))
    assert keys(kept) == [0, 1]
    assert len(kept) == 2


@pytest.mark.parametrize("size", [0, 1, 700])
def test_small_bodies_are_bounded_in_number(size):
    kept: BoundedCache[int, StoredBody] = BoundedCache(100_000)
    for key in range(10_000):
        kept.put(key, StoredBody(b"x" * size))
    assert len(kept) <= 200
