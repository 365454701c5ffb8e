"""Which chains are followed, and which ends of routes can carry a transfer now. Pure."""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from indexer.config.networks import Network
from indexer.config.routes import Mechanism
from indexer.facts.status import ChainStatus
from indexer.policy.relay_accounts import Duty, RelayAccountStatus
from warehouse_schema.identifiers import ChainId, is_evm


def followed_chains(network: Network, statuses: Sequence[ChainStatus]) -> list[ChainStatus]:
    """Chains that this deployment must keep up with: those with a cursor, and Stellar.

    Read from the cursors: the public process has no node settings. To stop following a chain for
    good, an operator deletes its cursor.
    """
    return [
        status
        for status in statuses
        if status.height is not None or status.chain == network.stellar.id
    ]


@dataclass(frozen=True, slots=True)
class RelayedChains:
    """Chains on which the relay can send now."""

    delivering: frozenset[ChainId]
    """Deliveries, sweeps and refunds."""
    submitting: frozenset[ChainId]
    """Transactions that owners signed."""


def relayed_chains(accounts: Sequence[RelayAccountStatus]) -> RelayedChains:
    """Chains with a healthy account for each duty that routes need."""
    return RelayedChains(
        delivering=healthy_chains(accounts, "deliver"),
        submitting=healthy_chains(accounts, "submit"),
    )


def healthy_chains(accounts: Sequence[RelayAccountStatus], duty: Duty) -> frozenset[ChainId]:
    """Chains with a healthy account of this duty."""
    return frozenset(each.chain for each in accounts if each.duty == duty and each.is_healthy)


def relay_sends_at_source(chain: ChainId) -> bool:
    """Whether the relay submits the first transaction: those that owners sign on Stellar."""
    return not is_evm(chain)


def relay_sends_at_dest(mechanism: Mechanism) -> bool:
    """Whether the relay sends the last transaction: LayerZero's executor delivers the OFT's."""
    return mechanism == "cctp"


def is_source_available(
    chain: ChainId, healthy: Container[ChainId], relayed: RelayedChains
) -> bool:
    """Whether a transfer can start on the chain: it is healthy, and the relay where it sends."""
    return chain in healthy and (chain in relayed.submitting or not relay_sends_at_source(chain))


def is_dest_available(
    mechanism: Mechanism,
    chain: ChainId,
    healthy: Container[ChainId],
    relayed: RelayedChains,
) -> bool:
    """Whether a transfer can arrive on the chain: it is healthy, and the relay where it sends."""
    return chain in healthy and (chain in relayed.delivering or not relay_sends_at_dest(mechanism))
