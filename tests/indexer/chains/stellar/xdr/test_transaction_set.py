"""A ledger's transaction set against its header, by each way to find its end."""

from hashlib import sha256

import pytest

from indexer.chains.raw import Block
from indexer.chains.stellar.xdr import transaction_set
from indexer.chains.stellar.xdr.ledgers import block_of_meta
from indexer.chains.stellar.xdr.meta_parts import locate_parts
from indexer.chains.stellar.xdr.transaction_set import check_transaction_set
from indexer.errors import InconsistentAnswer
from tests.factories.stellar_lake import DEVNET, history_metas, recorded_raws
from tests.factories.stellar_recorded import PUBNET

LEDGERS = [
    *((PUBNET, raw) for raw in recorded_raws().values()),
    *((DEVNET, raw) for raw in history_metas()),
]
"""All versions; full sets, and empty ones, which end in no signature."""
WAYS = ("_ends_at_signature", "_ends_as_decoded", "_ends_anywhere")


def _check(raw: bytes, block: Block) -> None:
    check_transaction_set(raw, 0, len(raw), block)


def _only(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in set(WAYS) - {way}:
        monkeypatch.setattr(transaction_set, other, lambda *_: False)


def _passes(raw: bytes, block: Block) -> bool:
    try:
        _check(raw, block)
    except InconsistentAnswer:
        return False
    return True


def test_own_transaction_sets_pass() -> None:
    assert len(LEDGERS) > 50
    for chain, raw in LEDGERS:
        _check(raw, block_of_meta(raw, chain.id))


@pytest.mark.parametrize("way", ["_ends_as_decoded", "_ends_anywhere"])
@pytest.mark.parametrize("height", [26154623, 53312000, 63092988])
def test_each_exact_way_finds_the_set(
    way: str, height: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _only(way, monkeypatch)
    raw = recorded_raws()[height]
    _check(raw, block_of_meta(raw, PUBNET.id))


@pytest.mark.parametrize("height", [51000294, 53312000, 63092988, 63092990])
def test_end_of_full_pubnet_set_is_guessed(height: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _only("_ends_at_signature", monkeypatch)
    raw = recorded_raws()[height]
    _check(raw, block_of_meta(raw, PUBNET.id))


@pytest.mark.parametrize("height", [53312000, 63092988])
def test_set_with_any_other_byte_is_refused(height: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # The search through every length is left out: it is slow, and refuses the same bytes.
    monkeypatch.setattr(transaction_set, "_ends_anywhere", lambda *_: False)
    raw = recorded_raws()[height]
    block = block_of_meta(raw, PUBNET.id)
    found = locate_parts(raw).transaction_set
    for place in [*range(found.start, found.stop, 997), found.stop - 1]:
        damaged = bytearray(raw)
        damaged[place] ^= 1
        assert not _passes(bytes(damaged), block)


def test_number_of_guesses_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    # A thousand likely ends of a set.
    decoy = (64).to_bytes(4, "big") + bytes(64) + (9).to_bytes(4, "big") + bytes(64)
    hashed = []

    def count(content: bytes) -> object:
        hashed.append(len(content))
        return sha256(content)

    monkeypatch.setattr(transaction_set, "sha256", count)
    raw = decoy * 1000
    assert not transaction_set._ends_at_signature(raw, 0, len(raw), bytes(32), 2)
    assert len(hashed) == transaction_set._MAX_GUESSES
