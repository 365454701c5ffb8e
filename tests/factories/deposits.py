"""Deposits with good defaults, on networks whose chains have the deposit factory."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from indexer.bridges.deposit_address.factory import FACTORY, Deposit
from indexer.config.networks import EvmChain, Network, load_network
from warehouse_schema.identifiers import EvmAddress

OWNER = "GB54KUSW2OO5IY3LXJGIR54Q4ZIGQMQ6FIE7QZENCFCL3E5GYXAKQY7L"
OWNER_KEY = bytes.fromhex("7bc55256d39dd4636bba4c88f790e65068321e2a09f8648d1144bd93a6c5c0a8")
STRANGER = "GAMNA2Q6NTZSUBLMEXLTIXYORE7OXJJBMEGIX7T2OXDAKIA7CCKN4RJV"
DEVNET = "eip155:31337"
OPERATOR = "0x90f79bf6eb2c4f870365e785982e1f101e93b906"


def with_factories(name: str) -> Network:
    """A network as if the factory had been deployed on each of its EVM chains."""
    network = load_network(name)
    return replace(
        network, evm=tuple(replace(chain, deposit_factory=FACTORY) for chain in network.evm)
    )


def with_operator(network: Network, operator: str = OPERATOR) -> Network:
    """A network as if somebody moved deposits on, wherever there is a factory."""

    def operated(chain: EvmChain) -> EvmChain:
        is_there = chain.deposit_factory is not None
        return replace(chain, deposit_operator=EvmAddress(operator)) if is_there else chain

    return replace(network, evm=tuple(operated(chain) for chain in network.evm))


def make_deposit(**changes: Any) -> Deposit:
    """20 USDC on the devnet, of which 19.99 arrive."""
    defaults: dict[str, Any] = {
        "chain": DEVNET,
        "bridge": "cctp",
        "owner": OWNER,
        "transfer_id": UUID("0f1e2d3c-4b5a-4978-8695-a4b3c2d1e0ff"),
        "amount": 20_000_000,
        "min_received": 19_990_000,
        "refund_to": "0x70997970c51812dc3a010c7d01b50e0d17dc79c8",
        "operator": OPERATOR,
        "expires_at": 1_800_000_000,
    }
    return Deposit(**(defaults | changes))
