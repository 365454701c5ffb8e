"""The ingestion status that `indexer.facts.health` assesses."""

from datetime import timedelta

import pytest
from sqlalchemy import Engine, func, update

from indexer.config.networks import load_network
from indexer.facts.status import chain_status
from warehouse_schema import locks
from warehouse_schema.leases import (
    INDEXER_LEASES,
    LeaseName,
    add_lease,
    release_lease,
    take_lease,
)

NETWORK = load_network("devnet")
CHAIN, OTHER = (chain.id for chain in NETWORK.chains)


@pytest.mark.usefixtures("long_leases")
def test_expired_lease_counts_from_its_expiry_and_released_one_not(indexer_engine: Engine) -> None:
    def unfollowed() -> dict[str, float | None]:
        return {
            each.chain: each.unfollowed_seconds for each in chain_status(indexer_engine, NETWORK)
        }

    assert unfollowed() == {CHAIN: None, OTHER: None}
    name, leases = LeaseName(locks.FOLLOWER, CHAIN), INDEXER_LEASES.leases
    with indexer_engine.connect() as conn:
        with conn.begin():
            add_lease(conn, INDEXER_LEASES, name)
        lease = take_lease(conn, INDEXER_LEASES, name, "host", 1)
        assert lease is not None
        assert unfollowed() == {CHAIN: None, OTHER: None}
        gone = func.clock_timestamp() - timedelta(seconds=40)
        with conn.begin():
            conn.execute(update(leases).values(expires_at=gone))
        after = unfollowed()
        assert 40 <= (after[CHAIN] or 0) < 160
        assert after[OTHER] is None
        with conn.begin():
            release_lease(conn, lease)
        assert unfollowed() == {CHAIN: None, OTHER: None}
