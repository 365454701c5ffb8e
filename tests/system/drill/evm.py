"""Faults of the EVM chain and its nodes that take several steps to bring about."""

import re
import time

from sqlalchemy import text

from devnet.evm import dev_account
from indexer.config.networks import confirmations_variable
from tests.architecture.imports import ROOT
from tests.system.drill.system import DrillFailed, System, wait_until
from tests.system.faults.fault import Call, Exchange, Reply, instead
from tests.system.faults.lies import StaleBackend

OPERATIONS = ROOT / "docs" / "operations.md"
REORG_DEPTH = 70
"""More than the 64 blocks after which anvil calls a block final, and than `confirmations`."""
_DEEPER_CONFIRMATIONS = 200
_OLD_HEAD_SECONDS = 90
"""Age of a head from which on its node is behind."""
_IMPORT_SECONDS = 8.0
"""Between two heads of a slow node. The chain counts as halted after 13 s without one."""
_MARKER_ACCOUNT = 8
_TAGS = {"safe": 32, "finalized": 64}
"""Blocks behind the head, as anvil names them."""


class SlowImport(StaleBackend):
    """EVM node that imports a block each `seconds`, fewer than the chain makes.

    Its head moves on and grows older.
    """

    def __init__(self, head: int, *, seconds: float) -> None:
        super().__init__(behind=0)
        self._first, self._seconds, self._began = head, seconds, time.monotonic()

    @property
    def head(self) -> int:
        """Height of the block that it imported last."""
        return self._first + int((time.monotonic() - self._began) / self._seconds)

    def spoil(self, call: Call, reply: Reply, exchange: Exchange) -> Reply:
        head = self.head
        self.behind = max(0, int(exchange.ask("eth_blockNumber"), 16) - head)
        params = call.get("params", [])
        if call["method"] == "eth_getBlockByNumber" and params[0] in _TAGS:
            tagged = hex(max(0, head - _TAGS[params[0]]))
            return instead(reply, exchange.ask("eth_getBlockByNumber", tagged, False))
        return super().spoil(call, reply, exchange)


def slow_nodes_down(system: System) -> None:
    """Both nodes import fewer blocks than the chain makes, until their head is too old.

    Its age grows second by second, so the fault begins when it passes the limit.
    """
    fault = SlowImport(_height(system), seconds=_IMPORT_SECONDS)
    for node in system.evm_nodes:
        node.inject(fault)

    def is_old() -> bool:
        head = system.world.evm.rpc("eth_getBlockByNumber", hex(fault.head), False)
        return time.time() - int(head["timestamp"], 16) > _OLD_HEAD_SECONDS

    wait_until(is_old, "an old head", seconds=2 * _OLD_HEAD_SECONDS)


def reorganise_deeply(system: System) -> None:
    """The chain replaces final blocks, and both nodes follow the new ones.

    Contracts and balances are older than the fork. A transaction makes the new blocks others than
    the old ones: empty blocks of the same times would have the same hashes.
    """
    wait_until(
        lambda: _height(system) > system.first_empty_block + REORG_DEPTH,
        "enough blocks to remove",
        seconds=2 * REORG_DEPTH,
    )
    # Until the follower has recorded as final what the reorg removes.
    wait_until(
        lambda: (system.cursor(system.evm).final_height or 0) > _height(system) - REORG_DEPTH,
        "a final block above the fork",
    )
    rpc, marker = system.world.evm.rpc, dev_account(_MARKER_ACCOUNT).address
    nonce = rpc("eth_getTransactionCount", marker, hex(_height(system) - REORG_DEPTH))
    call = {"from": marker, "to": marker, "nonce": nonce, "gas": hex(100_000), "data": "0x01"}
    rpc("anvil_reorg", REORG_DEPTH, [[call, 0]])
    # The node's clock went back to the fork's time.
    rpc("evm_setTime", int(time.time()))


def accept_reorg(system: System) -> None:
    """What docs/operations.md says after a look at an explorer: the chain did it."""
    system.configure(**{confirmations_variable(system.evm): str(_DEEPER_CONFIRMATIONS)})
    section = OPERATIONS.read_text().partition("### A reorg below finality\n")[2]
    [statement, *_] = re.findall(r"```sql\n(.*?)```", section, re.DOTALL)
    with system.owner.begin() as conn:
        done = conn.execute(text(statement.replace("'eip155:1'", f"'{system.evm}'")))
    if done.rowcount != 1:
        raise DrillFailed(f"{OPERATIONS.name}: the statement changed {done.rowcount} cursors")


def _height(system: System) -> int:
    return int(system.world.evm.rpc("eth_blockNumber"), 16)
