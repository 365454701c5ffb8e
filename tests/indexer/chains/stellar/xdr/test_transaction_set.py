"""A ledger's transactions held against its header, whichever way their end is found."""

from hashlib import sha256

import pytest

from indexer.chains.raw import Block
from indexer.chains.stellar.xdr import transaction_set
from indexer.chains.stellar.xdr.ledgers import block_of_meta
from indexer.chains.stellar.xdr.transaction_set import check_transaction_set
from indexer.errors import InconsistentAnswer
from tests.factories.stellar_lake import DEVNET, history_metas, recorded_raws
from tests.factories.stellar_recorded import PUBNET

LEDGERS = [
    *((PUBNET, raw) for raw in recorded_raws().values()),
    *((DEVNET, raw) for raw in history_metas()),
]
"""Of every version, with full sets, and with empty ones, which end in no signature."""
WAYS = ("_as_guessed", "_as_decoded", "_as_some_length")


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


@pytest.mark.parametrize("way", ["_as_decoded", "_as_some_length"])
@pytest.mark.parametrize("height", [26154623, 53312000, 63092988])
def test_each_exact_way_knows_them_alone(
    way: str, height: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _only(way, monkeypatch)
    raw = recorded_raws()[height]
    _check(raw, block_of_meta(raw, PUBNET.id))


@pytest.mark.parametrize("height", [51000294, 53312000, 63092988, 63092990])
def test_a_full_pubnet_ledgers_end_is_guessed(height: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _only("_as_guessed", monkeypatch)
    raw = recorded_raws()[height]
    _check(raw, block_of_meta(raw, PUBNET.id))


@pytest.mark.parametrize("height", [53312000, 63092988])
def test_a_set_that_differs_anywhere_is_refused(
    height: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The way for ledgers that nothing decodes tries every length; a guess and a decoding are enough
    # to say here that none of the bytes may differ.
    monkeypatch.setattr(transaction_set, "_as_some_length", lambda *_: False)
    raw = recorded_raws()[height]
    block = block_of_meta(raw, PUBNET.id)
    begin = transaction_set._places(raw, 0, int.from_bytes(raw[:4], "big"))[1]
    end = transaction_set._NEW(raw, begin)
    for place in [*range(begin, end, 997), end - 1]:
        damaged = bytearray(raw)
        damaged[place] ^= 1
        assert not _passes(bytes(damaged), block)


def test_guesses_are_few_whatever_a_ledger_is_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    # What looks like the end of a set, a thousand times over.
    decoy = (64).to_bytes(4, "big") + bytes(64) + (9).to_bytes(4, "big") + bytes(64)
    hashed = []

    def count(content: bytes) -> object:
        hashed.append(len(content))
        return sha256(content)

    monkeypatch.setattr(transaction_set, "sha256", count)
    raw = decoy * 1000
    assert not transaction_set._as_guessed(raw, 0, len(raw), bytes(32), 2)
    assert len(hashed) == transaction_set._MOST_GUESSES
