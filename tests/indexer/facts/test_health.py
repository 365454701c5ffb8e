"""Chain health at the limits of each reason."""

from dataclasses import replace

import pytest

from indexer.config.networks import load_network
from indexer.facts.health import assess
from indexer.facts.status import ChainStatus
from warehouse_schema.identifiers import ChainId, Height

ETHEREUM = load_network("mainnet").chain(ChainId("eip155:1"))
"""A block every 12 s."""
WELL = ChainStatus(
    chain=ETHEREUM.id,
    height=Height(98),
    head_height=Height(100),
    lag_blocks=2,
    lag_seconds=24,
    idle_seconds=1.0,
    silent_seconds=1.0,
    failure=None,
    held=None,
    open_alarms=0,
)


@pytest.mark.parametrize(
    ("changes", "reason", "detail"),
    [
        pytest.param({"height": None}, "NOT_STARTED", "nothing ingested yet", id="no_cursor"),
        pytest.param({"held": "no block 7"}, "ON_HOLD", "on hold: no block 7", id="held"),
        # Ten seconds and three blocks.
        pytest.param({"silent_seconds": 46.0, "idle_seconds": 46.0}, None, "", id="in_time"),
        pytest.param(
            {"silent_seconds": 46.1, "idle_seconds": 46.1},
            "NOT_FOLLOWED",
            "its follower has not reported for 46 s",
            id="dead_follower",
        ),
        pytest.param({"unfollowed_seconds": 2.0}, None, "", id="being_replaced"),
        pytest.param(
            {"unfollowed_seconds": 2.1},
            "NOT_FOLLOWED",
            "its follower has been gone or hung for 2 s",
            id="not_replaced",
        ),
        pytest.param(
            {"idle_seconds": 46.1}, "STOPPED", "no new block for 46 s, says its node", id="frozen"
        ),
        pytest.param(
            {"idle_seconds": 46.1, "failure": "node:8545: ConnectError"},
            "NODE_FAILING",
            "no new block for 46 s: node:8545: ConnectError",
            id="dead_node",
        ),
        pytest.param({"failure": "node:8545: ConnectError"}, None, "", id="one_failure"),
        # A minute and twenty blocks.
        pytest.param({"lag_seconds": 300}, None, "", id="catching_up"),
        pytest.param({"lag_seconds": 301}, "LATE", "301 s and 2 blocks behind its head", id="late"),
    ],
)
def test_each_reason_begins_at_its_limit(changes, reason, detail):
    health = assess(ETHEREUM, replace(WELL, **changes))
    assert (health.reason, health.detail) == (reason, detail)
    assert health.is_well is (reason is None)
    assert health.needs_operator is (reason is not None)


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({"open_alarms": 2}, "2 open alarms"),
        ({"quarantined": 3}, "3 ledgers in quarantine"),
        ({"protocol_ahead": 31}, "protocol 31 is ahead, which this build cannot read"),
    ],
)
def test_warning_leaves_the_chain_well(changes, warning):
    health = assess(ETHEREUM, replace(WELL, **changes))
    assert health.warnings == (warning,)
    assert health.is_well
    assert health.needs_operator
