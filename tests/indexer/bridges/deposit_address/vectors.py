"""Deposits whose addresses are written down, on real chains' contracts and on the devnet's."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from eth_utils.address import to_checksum_address

from indexer.bridges.deposit_address.factory import Deposit, deposit_address, route_hash
from indexer.config.networks import Network
from tests.factories.deposits import STRANGER, make_deposit, with_factories


@dataclass(frozen=True)
class Vector:
    """A deposit, and the network file that has its contracts."""

    network: Network
    deposit: Deposit


def vectors() -> tuple[Vector, ...]:
    """Both bridges; the first is the one of docs/deposit-addresses.md."""
    mainnet, devnet = with_factories("mainnet"), with_factories("devnet")
    return (
        Vector(mainnet, make_deposit(chain="eip155:1")),
        Vector(mainnet, make_deposit(chain="eip155:8453", transfer_id=UUID(int=2**128 - 1))),
        Vector(mainnet, make_deposit(chain="eip155:1", bridge="oft", min_received=20_000_000)),
        Vector(mainnet, make_deposit(chain="eip155:42161", bridge="oft", owner=STRANGER)),
        Vector(devnet, make_deposit()),
        Vector(devnet, make_deposit(bridge="oft", amount=1, min_received=1, expires_at=1)),
    )


def as_json(known: Iterable[Vector]) -> list[dict[str, Any]]:
    """What a client in any language needs to try itself."""
    return [
        {
            **asdict(each.deposit),
            "transfer_id": str(each.deposit.transfer_id),
            "route_hash": route_hash(each.network, each.deposit),
            "address": to_checksum_address(deposit_address(each.network, each.deposit)),
        }
        for each in known
    ]
