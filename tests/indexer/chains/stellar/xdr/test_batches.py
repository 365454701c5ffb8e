"""A batch of ledgers is split without decoding them."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pytest
from stellar_sdk import xdr

from indexer.chains.stellar.xdr import batches
from indexer.chains.stellar.xdr.batches import split_batch
from indexer.chains.stellar.xdr.ledgers import block_of_meta
from indexer.errors import InconsistentAnswer
from tests.factories.sdk_ledgers import parse_meta
from tests.factories.stellar_lake import DEVNET, FIRST, batch_of, history_metas, recorded_raws
from tests.factories.stellar_recorded import PUBNET


def test_split_batch_equals_its_ledgers() -> None:
    metas = history_metas()
    found = split_batch(batch_of(metas, FIRST), DEVNET.id)
    assert [ledger.meta for ledger in found] == list(metas)
    assert [ledger.block for ledger in found] == [block_of_meta(m, DEVNET.id) for m in metas]


def test_batch_factory_equals_the_sdk() -> None:
    metas = history_metas()[:3]
    batch = xdr.LedgerCloseMetaBatch(xdr.Uint32(2), xdr.Uint32(4), [parse_meta(m) for m in metas])
    assert batch_of(metas, FIRST) == batch.to_xdr_bytes()


@pytest.mark.parametrize("height", [16154623, 63092990])
def test_batch_of_one_pubnet_ledger_is_split(height: int) -> None:
    raw = recorded_raws()[height]
    (ledger,) = split_batch(batch_of([raw], height), PUBNET.id)
    assert (ledger.block.height, ledger.meta) == (height, raw)


@pytest.mark.parametrize("extension", [0, 1])
def test_batch_of_every_wrapper_is_split(extension: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_next_by_skipping", None)
    metas = [parse_meta(raw) for raw in history_metas()[:4]]
    for meta in metas:
        assert meta.v2 is not None
        v1 = xdr.LedgerCloseMetaExtV1(xdr.ExtensionPoint(0), xdr.Int64(5)) if extension else None
        meta.v2.ext = xdr.LedgerCloseMetaExt(extension, v1=v1)
    raws = [meta.to_xdr_bytes() for meta in metas]
    assert [ledger.meta for ledger in split_batch(batch_of(raws, 2), DEVNET.id)] == raws


def test_batch_splits_by_skipping_without_hash_match(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batches, "_EXTENSIONS", ())
    metas = history_metas()[:5]
    assert [each.meta for each in split_batch(batch_of(metas, 2), DEVNET.id)] == list(metas)


def _with_head(raw: bytes, *head: int) -> bytes:
    return b"".join(number.to_bytes(4, "big") for number in head) + raw[12:]


Spoil: TypeAlias = Callable[[Sequence[bytes]], bytes]

WRONG: dict[str, Spoil] = {
    "nothing": lambda metas: b"",
    "no ledger": lambda metas: _with_head(b"", 2, 1, 0),
    "fewer ledgers than it says": lambda metas: _with_head(batch_of(metas, 2), 2, 6, 5),
    "a number that is not the range's": lambda metas: _with_head(batch_of(metas, 2), 2, 5, 3),
    "other ledgers than it says": lambda metas: _with_head(batch_of(metas, 2), 3, 6, 4),
    "a ledger left out": lambda metas: batch_of([metas[0], *metas[2:]], 2),
    "a ledger twice": lambda metas: batch_of([metas[0], *metas[:3]], 2),
    "ledgers in another order": lambda metas: batch_of([metas[1], metas[0], *metas[2:]], 2),
    "no XDR": lambda metas: _with_head(bytes(500), 2, 5, 4),
}


@pytest.mark.parametrize("spoiled", WRONG.values(), ids=WRONG)
def test_batch_contradicting_its_head_is_refused(spoiled: Spoil) -> None:
    with pytest.raises(InconsistentAnswer):
        split_batch(spoiled(history_metas()[:4]), DEVNET.id)
