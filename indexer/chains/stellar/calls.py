"""What contracts on Stellar would do now, tried while somebody waits for it.

One node is asked, the next when it fails. A node's word is enough for what a contract holds by
itself (`min_amount_ld`, the fee that a call carries) and for what its footprint has to be: a wrong
one makes the transaction fail, and moves nothing. Threads may share it.
"""

from collections.abc import Sequence

from indexer.chains.http.failover import REQUEST_SECONDS
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
    """Tries calls on the first node that answers well; it stays the first until it fails."""

    def __init__(
        self, chain: StellarChain, urls: Sequence[str], *, timeout: float = REQUEST_SECONDS
    ) -> None:
        """`timeout` is seconds. Raises `ConfigurationError` without an http URL."""
        self._nodes = open_nodes(chain, urls, timeout)

    def simulate(self, envelope: str) -> SimulationResult | SimulationFailure:
        """What a transaction of one contract call would do; base64, unsigned.

        `Trapped` is the contract's answer, which another node would give as well. Raises
        `RetryableChainError`, or `PermanentChainError` when every node is unfit.
        """
        return self._nodes.ask(lambda node: simulate(node, envelope))

    def close(self) -> None:
        """Let go of the connections."""
        self._nodes.close()


def simulate(node: CheckedStellarNode, envelope: str) -> SimulationResult | SimulationFailure:
    """As `StellarCalls.simulate`, of one node."""
    # Credentials that name an address are not ours to sign: the older form is as good.
    asked = {"transaction": envelope, "useUpgradedAuth": False}
    answer = node.rpc.call("simulateTransaction", asked)
    node.told(answer)
    with inconsistent_on_error(node.host):
        return parse_simulation(answer)
