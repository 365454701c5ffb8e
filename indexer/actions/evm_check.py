"""Verifies that a mined EVM transaction is one that was issued to a transfer's owner.

Only logs count: a successful transaction may have moved nothing, and its sender may be a smart
wallet or a bundler. Only logs of the configured contracts count: any contract can emit the same
topics. Each log is compared with the issued orders field by field.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from indexer.actions.agreed import Mismatch
from indexer.actions.evm_calls import BurnOrder, EvmOrder, SendOrder, spender
from indexer.addresses import contract_as_bytes32
from indexer.bridges.cctp.events import DepositForBurn
from indexer.bridges.oft.events import OftSent, PacketSent
from indexer.bridges.oft.packet import parse_oft_message, parse_packet
from indexer.bridges.tokens.events import Erc20Transfer
from indexer.chains.events import Event
from indexer.chains.raw import EvmLog
from indexer.config.networks import EvmChain, Network
from indexer.decode.evm import decode
from indexer.errors import Undecodable
from warehouse_schema.identifiers import ChainId, EvmAddress, TxHash


@dataclass(frozen=True, slots=True)
class MinedTx:
    """A mined transaction with all its logs, in order."""

    chain: ChainId
    tx: TxHash
    succeeded: bool
    logs: tuple[EvmLog, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """The transaction carries out an order; a bundle may do so more than once."""

    logs: tuple[int, ...]
    """Indexes of the matching logs in the transaction."""


_Fields: TypeAlias = dict[str, tuple[object, object]]
"""Field → its value in the order, and in the log."""


def check_order(
    network: Network, payer: EvmAddress, orders: Sequence[EvmOrder], mined: MinedTx
) -> Match | Mismatch:
    """Whether `payer` carried out one of the orders issued to it.

    Raises `ValueError` without an order, or for a chain that is not EVM.
    """
    chain = network.chain(mined.chain)
    if not orders or not isinstance(chain, EvmChain):
        raise ValueError(f"nothing was issued that {mined.tx} on {mined.chain} could be")
    if not mined.succeeded:
        return Mismatch(("status",), f"{mined.tx} failed: it moved nothing")
    events = list(_events(chain, mined.logs))
    packets = {each.guid: each for _, each in events if isinstance(each, PacketSent)}
    compared: list[tuple[int, _Fields]] = []
    for (log, event), order in product(events, orders):
        match order, event:
            case BurnOrder(), DepositForBurn():
                fields = _compare_burn(network, payer, order, event)
            case SendOrder(), OftSent():
                fields = _compare_send(network, payer, order, event, packets.get(event.guid))
            case _:
                continue
        compared.append((log, {name: pair for name, pair in fields.items() if pair[0] != pair[1]}))
    if matching := {log for log, differences in compared if not differences}:
        return Match(tuple(sorted(matching)))
    if not compared:
        name = "DepositForBurn" if isinstance(orders[0], BurnOrder) else "OFTSent"
        return Mismatch(("contract",), f"{mined.tx} holds no {name} of {spender(orders[0])}")
    nearest = min((differences for _, differences in compared), key=len)
    message = "; ".join(
        f"{field} is {found}, not {expected}" for field, (expected, found) in nearest.items()
    )
    return Mismatch(tuple(nearest), f"{mined.tx}: {message}")


def check_payment(network: Network, address: EvmAddress, mined: MinedTx) -> Mismatch | None:
    """Why a transaction pays no indexed token to a deposit address; None if it pays one.

    Raises `ValueError` for a chain that is not EVM.
    """
    chain = network.chain(mined.chain)
    if not isinstance(chain, EvmChain):
        raise ValueError(f"{mined.chain} has no deposit addresses")
    if not mined.succeeded:
        return Mismatch(("status",), f"{mined.tx} failed: it moved nothing")
    paid = (event for _, event in _events(chain, mined.logs) if isinstance(event, Erc20Transfer))
    if any(event.recipient == address for event in paid):
        return None
    return Mismatch(("recipient",), f"{mined.tx} pays no token to {address}")


def _events(chain: EvmChain, logs: Sequence[EvmLog]) -> Iterator[tuple[int, Event]]:
    for index, log in enumerate(logs):
        try:
            event = decode(log, chain)
        except Undecodable:
            # The indexer stores it and raises the alarm; an issued order's logs can be decoded.
            continue
        if event is not None:
            yield index, event


def _compare_burn(
    network: Network, payer: EvmAddress, order: BurnOrder, burn: DepositForBurn
) -> _Fields:
    remote = network.stellar.cctp_token_messenger
    contract = None if remote is None else contract_as_bytes32(remote)
    return {
        "sender": (payer, burn.depositor),
        "token": (order.token, burn.burn_token),
        "amount": (order.amount, burn.amount),
        "destination": (order.domain, burn.destination_domain),
        "recipient": (order.mint_recipient, burn.mint_recipient),
        "destination_contract": (contract, burn.destination_token_messenger),
        "destination_caller": (order.destination_caller, burn.destination_caller),
        "max_fee": (order.max_fee, burn.max_fee),
        "finality_threshold": (order.min_finality, burn.min_finality_threshold),
        "hook": (f"0x{order.hook_data.hex()}", f"0x{burn.hook_data.hex()}"),
    }


def _compare_send(
    network: Network, payer: EvmAddress, order: SendOrder, sent: OftSent, packet: PacketSent | None
) -> _Fields:
    """Without its packet a send has no recipient and matches no order."""
    remote = network.stellar.oft
    contract = None if remote is None else contract_as_bytes32(remote)
    is_enough = order.min_amount <= sent.amount_received <= sent.amount_sent
    message = None if packet is None else parse_oft_message(parse_packet(packet.packet).message)
    # On an EVM chain both have 6 decimals.
    is_carried = message is not None and message.amount_shared == sent.amount_received
    # Event and packet both name the destination.
    is_other = packet is not None and packet.dst_eid != order.eid
    return {
        "sender": (payer, sent.from_address),
        "amount": (order.amount, sent.amount_sent),
        "destination": (order.eid, packet.dst_eid if packet and is_other else sent.dst_eid),
        "recipient": (order.to, packet and packet.send_to),
        "destination_contract": (contract, packet and packet.receiver),
        "amount_received": (
            "enough",
            "enough" if is_enough and is_carried else sent.amount_received,
        ),
        "compose": (f"0x{order.compose.hex()}", message and f"0x{message.compose.hex()}"),
    }
