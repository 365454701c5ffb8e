"""Sessions that hold leases."""

import pytest
from sqlalchemy import Engine, text

from indexer.facts.sessions import hold_lease
from warehouse_schema import locks
from warehouse_schema.leases import INDEXER_LEASES, LeaseName, lease_holder


@pytest.mark.usefixtures("long_leases")
def test_lease_is_released_though_another_of_its_session_is_lost(indexer_engine: Engine) -> None:
    lost, other = "eip155:1", "eip155:8453"
    with (
        indexer_engine.connect() as conn,
        hold_lease(conn, locks.BACKFILL, lost, "busy"),
        hold_lease(conn, locks.BACKFILL, other, "busy"),
        indexer_engine.begin() as taker,
    ):
        statement = "UPDATE locks.leases SET term = term + 1 WHERE name = :name"
        taker.execute(text(statement), {"name": lost})
    with indexer_engine.begin() as conn:
        holders = {
            name: lease_holder(conn, INDEXER_LEASES, LeaseName(locks.BACKFILL, name))
            for name in (lost, other)
        }
    assert holders[lost] is not None, "the process that took it has it"
    assert holders[other] is None
