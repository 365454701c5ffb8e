"""Checks that stored blocks join: all blocks, or those from a height on."""

from collections.abc import Callable

import pytest
from sqlalchemy import Engine, delete, insert, update

from indexer.facts.checks import block_faults
from warehouse_schema.facts import blocks
from warehouse_schema.identifiers import ChainId, Height

CHAIN = ChainId("eip155:31337")


@pytest.fixture
def stored(engine: Engine) -> Callable[[int], None]:
    """Call it to store blocks up to a height."""

    def store(top: int) -> None:
        rows = [
            {
                "chain": CHAIN,
                "height": height,
                "hash": f"0x{height:064x}",
                "parent_hash": f"0x{height - 1:064x}" if height else "0x" + "f" * 64,
                "time": 1_700_000_000 + height,
                "events": 0,
            }
            for height in range(top + 1)
        ]
        with engine.begin() as conn:
            conn.execute(insert(blocks), rows)

    return store


@pytest.mark.parametrize(
    ("since", "named"), [(None, True), (0, True), (4, True), (5, False), (6, False)]
)
def test_missing_blocks_are_listed(
    engine: Engine, stored: Callable[[int], None], since: Height | None, named: bool
) -> None:
    stored(9)
    with engine.begin() as conn:
        conn.execute(delete(blocks).where(blocks.c.height == 5))
    found = block_faults(engine, CHAIN, since)
    assert found == ([f"{CHAIN}: no block between 4 and 6"] if named else [])


@pytest.mark.parametrize(("since", "named"), [(None, True), (5, True), (6, False)])
def test_unequal_parent_hash_is_listed(
    engine: Engine, stored: Callable[[int], None], since: Height | None, named: bool
) -> None:
    stored(9)
    with engine.begin() as conn:
        conn.execute(update(blocks).where(blocks.c.height == 5).values(parent_hash="0xbad"))
    assert bool(block_faults(engine, CHAIN, since)) == named
