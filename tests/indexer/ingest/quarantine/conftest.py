"""A lake of the history, and a build that cannot read all of it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, Engine

from indexer.chains.ports import ChainReader
from indexer.chains.stellar import lake
from indexer.chains.stellar.lake import LakeReader
from indexer.chains.stellar.lake_store import LakeStore
from indexer.chains.stellar.xdr import close_meta
from indexer.errors import UndecodableLedger
from indexer.ingest import ranges
from tests.factories.quarantine import OLDER, drained, history, network
from tests.factories.stellar_lake import write_lake
from warehouse_schema.engine import make_engine
from warehouse_schema.identifiers import Height


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[LakeReader]:
    reader = LakeReader(network().stellar, LakeStore(write_lake(tmp_path, history().metas)))
    yield reader
    reader.close()


@pytest.fixture
def second_engine(clone: Callable[[], URL]) -> Iterator[Engine]:
    """Another empty warehouse, to compare with."""
    engine = make_engine(clone(), role="indexer")
    yield engine
    engine.dispose()


@pytest.fixture
def by_an_older_build(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Drains with decoders that cannot read some ledgers, though they are sound."""
    genuine = close_meta.decode_meta

    def drain_all(engine: Engine, reader: ChainReader, *unreadable: Height, **options: int) -> None:
        def decode_meta(raw: bytes, chain: Any) -> Any:
            ledger, proof = genuine(raw, chain)
            if ledger.block.height in unreadable:
                raise UndecodableLedger(f"ledger {ledger.block.height} cannot be decoded: 99 at 4")
            return ledger, proof

        with monkeypatch.context() as older:
            older.setattr(lake, "decode_meta", decode_meta)
            older.setattr(ranges, "decoder_build", lambda: OLDER)
            assert drained(engine, reader, **options) == len(unreadable)

    return drain_all
