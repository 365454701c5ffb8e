"""The recorded ledgers of `tests/golden/stellar/ledgers`, parsed once for all tests."""

import gc
from functools import cache
from pathlib import Path

from stellar_sdk import xdr

from tests.factories.recorded_ledgers import recorded_ledgers
from tests.factories.sdk_ledgers import closed_ledger, parse_meta
from tests.factories.stellar_recorded import FOLDER

LAKE_51000294 = FOLDER / "ledgers" / "ledger-51000294.xdr.gz"
LAKE_63092988 = FOLDER / "ledgers" / "ledger-63092988.xdr.gz"
LAKE_63092990 = FOLDER / "ledgers" / "ledger-63092990.xdr.gz"
BATCH_53312000 = FOLDER / "ledgers" / "FCD285FF--53312000.xdr.zstd"
LINES = FOLDER / "ledgers" / "ledgers-base64.txt.gz"
FILES: tuple[Path, ...] = (LAKE_51000294, LAKE_63092988, LAKE_63092990, BATCH_53312000, LINES)
HEIGHTS = (
    6154623,
    16154623,
    26154623,
    36154623,
    46154623,
    51000294,
    53312000,
    63092988,
    63092990,
)


@cache
def recorded_metas() -> dict[int, xdr.LedgerCloseMeta]:
    """Sequence → ledger. Parsing takes half a second each: never change what this gives."""
    metas = [parse_meta(raw) for file in FILES for raw in recorded_ledgers(file)]
    # Millions of objects that live to the end: the collector would walk them in every other test.
    gc.freeze()
    return {closed_ledger(meta).ledger_header.header.ledger_seq.uint32: meta for meta in metas}
