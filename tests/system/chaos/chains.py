"""A run's own pair of chains, new each time, so that a seed tells the same story again.

The EVM node is a process; the Stellar stand-in lives in a thread of this one. Neither is what is
being tested, and neither is ever killed: their chains are in their memory.
"""

import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from devnet.evm import EvmDevnet
from devnet.evm_deployment import deploy
from devnet.evm_node import AnvilProcess
from devnet.scenario import PacedClient
from devnet.stellar.genesis import Genesis
from devnet.stellar.node import FIRST_LEDGER, Node, fixed_clock
from devnet.stellar.rpc import Rpc
from devnet.stellar.server import DevnetServer
from devnet.world import remotes_of_evm, remotes_of_stellar
from tests.system.chaos.contents import Tip

EVM = "eip155:31337"
STELLAR = "stellar:devnet"
CHAINS = (EVM, STELLAR)
HOST = "127.0.0.1"
_LEDGER_MS = (1, 300, 1_000, 12_000)
"""Milliseconds between ledgers: several in a second, or seconds apart."""


@dataclass(frozen=True)
class Chains:
    """Both chains, and what is true of them. `paced` closes a ledger for each transaction."""

    evm: EvmDevnet
    evm_url: str
    evm_ws_url: str
    stellar: Node
    stellar_url: str
    paced: PacedClient

    def evm_hashes(self, first: int, last: int) -> dict[int, str]:
        """Block hashes by height, as the chain stands."""
        return {height: self.evm.block_hash(height) for height in range(first, last + 1)}

    def evm_tip(self) -> Tip:
        """The EVM chain's end, in its own words."""
        heads = {
            tag: self.evm.rpc("eth_getBlockByNumber", tag, False)
            for tag in ("latest", "safe", "finalized")
        }
        heights = {tag: int(head["number"], 16) for tag, head in heads.items()}
        return Tip(
            chain=EVM,
            height=heights["latest"],
            block_hash=heads["latest"]["hash"],
            safe=heights["safe"],
            final=heights["finalized"],
        )

    def stellar_tip(self) -> Tip:
        """The Stellar chain's end: a closed ledger is final."""
        latest = self.stellar.latest
        return Tip(STELLAR, latest.sequence, latest.hash, latest.sequence, latest.sequence)

    def tips(self) -> tuple[Tip, ...]:
        """Both ends."""
        return (self.evm_tip(), self.stellar_tip())

    def hashes(self) -> dict[str, dict[int, str]]:
        """Every block of both chains as they stand."""
        ledgers = range(FIRST_LEDGER, self.stellar.latest.sequence + 1)
        return {
            EVM: self.evm_hashes(0, self.evm.block_number()),
            STELLAR: {height: self.stellar.ledger(height).hash for height in ledgers},
        }


@contextmanager
def fresh_chains(folder: Path, chance: random.Random) -> Iterator[Chains]:
    """Both chains with every contract in place; ledgers close some seconds apart by chance."""
    with ExitStack() as stack:
        anvil = stack.enter_context(AnvilProcess(folder / "anvil.log"))
        evm = stack.enter_context(deploy(anvil.rpc_url, remotes_of_evm()))
        node = Node(Genesis(remotes_of_stellar()), clock=fixed_clock)
        url = stack.enter_context(_served(node))
        paced = PacedClient(url, lambda last: last + chance.choice(_LEDGER_MS))
        stack.enter_context(paced)
        yield Chains(evm, anvil.rpc_url, anvil.ws_url, node, url, paced)


@contextmanager
def _served(node: Node) -> Iterator[str]:
    rpc = Rpc(node, close_on_friendbot=True)
    server = DevnetServer(rpc, host=HOST, port=0, interval=None)
    thread = threading.Thread(target=server.run, name="stellar stand-in", daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.port}"
    finally:
        server.stop()
        thread.join()
