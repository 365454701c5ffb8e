"""How long after a block is mined its rows are committed.

The clock starts when `evm_mine` is called, so that mining itself counts too; it stops when the
NOTIFY of the committing transaction arrives. Each block holds one CCTP burn (four logs, two of
them events of ours, and a movement to fold). The follower runs bare, in a process of its own.
"""

import time
from typing import Any

from sqlalchemy import func, select

from devnet.evm import dev_account
from devnet.evm_node import encode_call
from devnet.services import follower
from devnet.world import Pace, remotes_of_evm
from tests.system.bench.site import Commits, Site, milliseconds, percentile, print_line, site, until
from warehouse_schema.events import cctp_burns
from warehouse_schema.projections import movements

BLOCKS = 300
WARM_UP = 20
BLOCK_SECONDS = 0.25
TIMEOUT_SECONDS = 30.0
BURN = "depositForBurn(uint256,uint32,bytes32,address,bytes32,uint256,uint32)"


def measure() -> dict[str, Any]:
    """p50 and p95 in milliseconds over 300 blocks."""
    with site(Pace()) as running:
        chain = running.settings.network.evm[0].id
        commits = Commits(running.settings, chain)
        commits.start()
        running.supervisor.run(follower(chain, running.variables))
        _prepare(running)
        _wait_for(commits, running.world.evm.block_number())
        mined = [_mine_one(running, n, time.monotonic()) for n in range(1, WARM_UP + 1)]
        _wait_for(commits, mined[-1][0])
        print_line(f"mining {BLOCKS} blocks at {BLOCK_SECONDS} s")
        began = time.monotonic()
        mined = [
            _mine_one(running, WARM_UP + n, began + n * BLOCK_SECONDS) for n in range(1, BLOCKS + 1)
        ]
        _wait_for(commits, mined[-1][0])
        commits.stop()
        _check_rows(running)
    delays = [commits.when(height) - called for height, called in mined]
    return {
        "p50_ms": milliseconds(percentile(delays, 0.50)),
        "p95_ms": milliseconds(percentile(delays, 0.95)),
        "max_ms": milliseconds(max(delays)),
        "blocks": BLOCKS,
        "block_seconds": BLOCK_SECONDS,
        "from": "evm_mine called",
        "to": "NOTIFY of the committing transaction received",
    }


def _prepare(running: Site) -> None:
    evm, user = running.world.evm, dev_account(1)
    total = sum(range(1, WARM_UP + BLOCKS + 1))
    evm.faucet_usdc(user.address, total)
    evm.approve(user, evm.addresses.usdc, evm.addresses.token_messenger, total)
    evm.set_automine(False)


def _mine_one(running: Site, number: int, beat: float) -> tuple[int, float]:
    """Queue a burn of `number` base units, mine it at `beat`; its height and when it was mined."""
    evm, user = running.world.evm, dev_account(1)
    # Amounts differ so that the burns are different movements.
    recipient = remotes_of_evm().token_messenger_minter
    call = encode_call(BURN, number, 27, recipient, evm.addresses.usdc, recipient, 0, 2000)
    evm.submit(user, evm.addresses.token_messenger, call, gas=400_000)
    until(beat)
    called = time.monotonic()
    evm.rpc("evm_mine")
    return evm.block_number(), called


def _wait_for(commits: Commits, height: int) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not commits.reached(height):
        if time.monotonic() > deadline:
            raise TimeoutError(f"height {height} is not committed after {TIMEOUT_SECONDS} s")
        time.sleep(0.01)


def _check_rows(running: Site) -> None:
    """A figure for rows that are not there would be worth nothing."""
    with running.engine.connect() as connection:
        for table in (cctp_burns, movements):
            rows = connection.scalar(select(func.count()).select_from(table))
            if rows != WARM_UP + BLOCKS:
                raise AssertionError(f"{table} has {rows} rows, not {WARM_UP + BLOCKS}")
