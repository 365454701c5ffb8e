"""A short soak; `python -m tests.system.faults.soak` is the long one."""

import pytest

from tests.system.faults.soak import Soak
from tests.system.faults.world import Followed


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_all_faults_together_lose_and_corrupt_no_row(world: Followed, seed: int) -> None:
    soak = Soak(world, seed, steps=15)
    soak.run()
    assert len({type(fault) for fault in soak.faults if fault.fired}) > 8
    assert soak.done.keys() == {"grow", "reorg", "restart", "kill"}
