"""Verifying a submitted EVM transaction: read from a local node, decoded, held against its issue.

What a `POST …/submissions` does beside the database. `floor_…` is one receipt fetched from the same
node over the same kind of connection, with nothing made of it.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from devnet.evm import dev_account
from devnet.evm_deployment import deploy
from devnet.evm_node import AnvilProcess
from devnet.world import remotes_of_evm
from indexer.actions.evm_calls import evm_calls, evm_order
from indexer.actions.evm_check import Match, check_order
from indexer.chain_state.evm import EvmState
from indexer.chains.evm.jsonrpc import JsonRpc
from indexer.config.networks import load_network
from tests.factories.actions import make_agreed
from tests.system.bench.site import milliseconds, percentile, print_line
from warehouse_schema.identifiers import BaseUnits, EvmAddress, TxHash

TIMES = 400


def measure() -> dict[str, Any]:
    """Milliseconds of each."""
    load_before = os.getloadavg()[0]
    network = load_network("devnet")
    chain = network.evm[0]
    payer = dev_account(1)
    agreed = make_agreed(network, chain=chain.id, source_address=payer.address.lower())
    order = evm_order(network, agreed)
    with (
        tempfile.TemporaryDirectory() as folder,
        AnvilProcess(log_file=Path(folder) / "anvil.log") as anvil,
        deploy(anvil.rpc_url, remotes_of_evm()) as devnet,
    ):
        devnet.faucet_usdc(payer.address, agreed.amount_in)
        for call in evm_calls(network, agreed, BaseUnits(0)):
            sent = devnet.send(payer, call.to, call.data, value=call.value)
        tx = TxHash(sent.transaction_hash)
        state = EvmState(network, {chain.id: [anvil.rpc_url]}, needed=1)
        node = JsonRpc(anvil.rpc_url, timeout=5.0)

        def verify() -> None:
            mined = state.mined(chain.id, tx)
            if mined is None:
                raise RuntimeError(f"{tx} is not mined")
            found = check_order(network, EvmAddress(agreed.source_address), [order], mined)
            if not isinstance(found, Match):
                raise RuntimeError(found.message)

        print_line(f"verifying {TIMES} times")
        took = _timed(verify)
        floor = _timed(lambda: node.call("eth_getTransactionReceipt", [tx]))
        state.close()
        node.close()
    return {
        "p50_ms": milliseconds(statistics.median(took)),
        "p99_ms": milliseconds(percentile(took, 0.99)),
        "floor_p50_ms": milliseconds(statistics.median(floor)),
        "floor_p99_ms": milliseconds(percentile(floor, 0.99)),
        "times": TIMES,
        "machine_load": [round(load_before, 1), round(os.getloadavg()[0], 1)],
    }


def _timed(act: Callable[[], object]) -> list[float]:
    """Seconds of each, after some that warm up."""
    took = []
    for _ in range(TIMES // 10 + TIMES):
        began = time.perf_counter()
        act()
        took.append(time.perf_counter() - began)
    return took[TIMES // 10 :]
