"""How long after a block is mined its rows are committed, and what it is made of.

The clock starts when `evm_mine` is called, so that mining itself counts too; it stops when a poll
sees the commit, up to 2 ms late. The follower runs bare, in a process of its own. Three kinds of
blocks, one after another, with the same follower:

- one CCTP burn each: four logs, two of them events of ours, and a movement to fold
- the same while 100,000 more addresses are watched: `ratio_100k_watched` is of the medians
- one OFT send each: a packet and the send, and a movement
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from sqlalchemy import func, insert, select

from devnet.evm import NATIVE_FEE, SEND_PARAM, STELLAR_EID, dev_account
from devnet.evm_node import encode_call
from devnet.services import follower
from devnet.world import Pace, remotes_of_evm
from indexer.config.warehouse import open_engine
from tests.system.bench.site import Commits, Site, milliseconds, percentile, print_line, site, until
from warehouse_schema.events import cctp_burns, oft_sent
from warehouse_schema.intake import watched_addresses
from warehouse_schema.projections import movements

BLOCKS = 300
WARM_UP = 20
BLOCK_SECONDS = 0.25
TIMEOUT_SECONDS = 30.0
WATCHED = 100_000
WATCH_SECONDS = 3.0
"""Until the follower has seen that more are watched: it looks every 2 s."""
BURN = "depositForBurn(uint256,uint32,bytes32,address,bytes32,uint256,uint32)"
SEND = f"send({SEND_PARAM},(uint256,uint256),address)"

Submit = Callable[[Site, int], None]


def measure() -> dict[str, Any]:
    """p50, p95 and p99 in milliseconds over 300 blocks of each kind."""
    with site(Pace()) as running:
        chain = running.settings.network.evm[0].id
        commits = Commits(running.settings, chain)
        commits.start()
        running.supervisor.run(follower(chain, running.variables))
        _prepare(running)
        _wait_for(commits, running.world.evm.block_number())
        burns = _delays(running, commits, burn)
        _watch(running, chain)
        running.supervisor.wait(WATCH_SECONDS)
        watching = _delays(running, commits, burn, WARM_UP + BLOCKS)
        sends = _delays(running, commits, send)
        commits.stop()
        _check_rows(running)
    return {
        **_figures(burns),
        "watched_100k": _figures(watching),
        "ratio_100k_watched": round(median(watching) / median(burns), 3),
        "oft": _figures(sends),
        "blocks": BLOCKS,
        "block_seconds": BLOCK_SECONDS,
        "from": "evm_mine called",
        "to": "commit seen by a poll every 2 ms",
    }


def _delays(running: Site, commits: Commits, submit: Submit, first: int = 0) -> list[float]:
    """Seconds from mining to commit of each block of a kind, after a warm-up."""
    mined = [mine_one(running, submit, first + n, time.monotonic()) for n in range(1, WARM_UP + 1)]
    _wait_for(commits, mined[-1][0])
    print_line(f"mining {BLOCKS} blocks at {BLOCK_SECONDS} s")
    began = time.monotonic()
    mined = [
        mine_one(running, submit, first + WARM_UP + n, began + n * BLOCK_SECONDS)
        for n in range(1, BLOCKS + 1)
    ]
    _wait_for(commits, mined[-1][0])
    return [commits.when(height) - called for height, called in mined]


def _figures(delays: list[float]) -> dict[str, float]:
    return {
        "p50_ms": milliseconds(percentile(delays, 0.50)),
        "p95_ms": milliseconds(percentile(delays, 0.95)),
        "p99_ms": milliseconds(percentile(delays, 0.99)),
        "max_ms": milliseconds(max(delays)),
    }


def _prepare(running: Site) -> None:
    evm, user = running.world.evm, dev_account(1)
    total = 2 * sum(range(1, 2 * (WARM_UP + BLOCKS) + 1))
    evm.faucet_usdc(user.address, total)
    evm.approve(user, evm.addresses.usdc, evm.addresses.token_messenger, total)
    evm.faucet_usdt0(user.address, total)
    evm.approve(user, evm.addresses.usdt0, evm.addresses.oft, total)
    evm.set_automine(False)


def _watch(running: Site, chain: str) -> None:
    print_line(f"watching {WATCHED} addresses")
    rows = [
        {"chain": chain, "address": f"0x{n:040x}", "reason": "a benchmark"}
        for n in range(1, WATCHED + 1)
    ]
    engine = open_engine(running.settings, "api")
    with engine.begin() as conn:
        conn.execute(insert(watched_addresses), rows)
    engine.dispose()


def burn(running: Site, number: int) -> None:
    """Submit a burn of `number` base units. Amounts differ, so the movements do."""
    evm, user = running.world.evm, dev_account(1)
    recipient = remotes_of_evm().token_messenger_minter
    call = encode_call(BURN, number, 27, recipient, evm.addresses.usdc, recipient, 0, 2000)
    evm.submit(user, evm.addresses.token_messenger, call, gas=400_000)


def send(running: Site, number: int) -> None:
    """Submit an OFT send of `number` base units."""
    evm, user = running.world.evm, dev_account(1)
    sent = (STELLAR_EID, remotes_of_evm().oft, number, number, b"", b"", b"")
    call = encode_call(SEND, sent, (NATIVE_FEE, 0), user.address)
    evm.submit(user, evm.addresses.oft, call, value=NATIVE_FEE, gas=600_000)


def mine_one(running: Site, submit: Submit, number: int, beat: float) -> tuple[int, float]:
    """Submit the n-th transaction, mine it at `beat`; its height and when it was mined."""
    submit(running, number)
    until(beat)
    called = time.monotonic()
    running.world.evm.rpc("evm_mine")
    return running.world.evm.block_number(), called


def _wait_for(commits: Commits, height: int) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not commits.reached(height):
        if time.monotonic() > deadline:
            raise TimeoutError(f"height {height} is not committed after {TIMEOUT_SECONDS} s")
        time.sleep(0.01)


def _check_rows(running: Site) -> None:
    """A figure for rows that are not there would be worth nothing."""
    each = WARM_UP + BLOCKS
    with running.engine.connect() as connection:
        for table, expected in ((cctp_burns, 2 * each), (oft_sent, each), (movements, 3 * each)):
            rows = connection.scalar(select(func.count()).select_from(table))
            if rows != expected:
                raise AssertionError(f"{table} has {rows} rows, not {expected}")
