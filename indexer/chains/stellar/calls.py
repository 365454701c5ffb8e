"""Simulated contract calls on Stellar, on request.

One node is trusted for what a contract enforces itself (`min_amount_ld`, the fee of a call) and for
footprints: a wrong value makes the transaction fail, and moves nothing.
"""

from collections.abc import Sequence

from indexer.chains.http.node_pool import REQUEST_SECONDS
from indexer.chains.stellar.checked_nodes import (
    CheckedStellarNode,
    inconsistent_on_error,
    open_nodes,
)
from indexer.chains.stellar.xdr.simulation import (
    SimulationFailure,
    SimulationResult,
    parse_simulation,
)
from indexer.config.networks import StellarChain


class StellarCalls:
    """Simulates calls with failover. Thread-safe."""

    def __init__(self, chain: StellarChain, urls: Sequence[str]) -> None:
        """Raises `ConfigurationError` without an http URL."""
        self._nodes = open_nodes(chain, urls, REQUEST_SECONDS)

    def close(self) -> None:
        """Close the connections."""
        self._nodes.close()

    def simulate(self, envelope: str) -> SimulationResult | SimulationFailure:
        """Simulate an unsigned transaction of one contract call (base64 XDR).

        `SimulationFailure` comes from the contract and causes no failover. Raises
        `RetryableChainError`, or `PermanentChainError` when every node is unfit.
        """
        return self._nodes.failover(lambda node: simulate(node, envelope))


def simulate(node: CheckedStellarNode, envelope: str) -> SimulationResult | SimulationFailure:
    """As `StellarCalls.simulate`, of one node."""
    # Address credentials are not ours to sign, so the older form suffices.
    params = {"transaction": envelope, "useUpgradedAuth": False}
    answer = node.call("simulateTransaction", params)
    node.ledger_of(answer)
    with inconsistent_on_error(node.host):
        return parse_simulation(answer)
