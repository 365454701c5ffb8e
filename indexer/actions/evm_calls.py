"""Calls that the payer of a direct deposit signs on an EVM chain: an approval (if the allowance is
short), then a CCTP burn towards Stellar's CctpForwarder, or an OFT send.

Amounts, recipient and fees are the agreed ones, so the quote holds for any sender. Sources:
Circle's TokenMessengerV2.sol and CctpForwarder (message.rs), LayerZero's IOFT.sol.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError
from eth_utils.crypto import keccak
from eth_utils.hexadecimal import decode_hex

from indexer.actions.agreed import Agreement
from indexer.addresses import account_as_bytes32, contract_as_bytes32
from indexer.config.networks import EvmChain, Network
from indexer.errors import ConfigurationError
from warehouse_schema.identifiers import (
    BaseUnits,
    Bytes32,
    EvmAddress,
    StellarAddress,
    Wei,
    bytes32,
)


def _selector(name: str, types: tuple[str, ...]) -> bytes:
    return keccak(text=f"{name}({','.join(types)})")[:4]


_APPROVE = ("address", "uint256")
_BURN = (*("uint256", "uint32", "bytes32", "address", "bytes32", "uint256", "uint32", "bytes"),)
_SEND = ("(uint32,bytes32,uint256,uint256,bytes,bytes,bytes)", "(uint256,uint256)", "address")
_APPROVES = _selector("approve", _APPROVE)
_BURNS = _selector("depositForBurnWithHook", _BURN)
_SENDS = _selector("send", _SEND)
_NOTHING = Wei(0)


@dataclass(frozen=True, slots=True)
class UnsignedCall:
    """One call."""

    to: EvmAddress
    data: bytes
    value: Wei


@dataclass(frozen=True, slots=True)
class BurnOrder:
    """Arguments of a TokenMessenger call. Amounts have 6 decimals."""

    messenger: EvmAddress
    amount: BaseUnits
    domain: int
    mint_recipient: Bytes32
    token: EvmAddress
    destination_caller: Bytes32
    max_fee: BaseUnits
    min_finality: int
    hook_data: bytes


@dataclass(frozen=True, slots=True)
class SendOrder:
    """Arguments of an OFT call. Amounts are the chain's own base units."""

    oft: EvmAddress
    eid: int
    to: Bytes32
    amount: BaseUnits
    min_amount: BaseUnits
    extra_options: bytes
    compose: bytes
    command: bytes
    native_fee: Wei
    refund_to: EvmAddress
    value: Wei


EvmOrder: TypeAlias = BurnOrder | SendOrder
"""Order of the call that moves the money."""


def forward_hook(recipient: StellarAddress, transfer: str) -> bytes:
    """Hook data that makes Stellar's forwarder pay a strkey.

    The forwarder ignores the transfer's id (32 hex digits) that follows.
    """
    strkey = recipient.encode("ascii")
    return bytes(28) + len(strkey).to_bytes(4, "big") + strkey + bytes.fromhex(transfer)


def evm_calls(
    network: Network, agreed: Agreement, allowance: BaseUnits | None
) -> tuple[UnsignedCall, ...]:
    """Calls that the payer sends one after the other; the last one moves the money.

    `allowance`: the bridge's current one for the payer's token; None where it needs none, as an OFT
    that burns its own token. Raises `ConfigurationError` without a route in the network,
    `ValueError` for a transfer that is no direct deposit.
    """
    order = evm_order(network, agreed)
    approvals = () if allowance is None else _approvals(agreed, order, allowance)
    return *approvals, encode_order(order)


def evm_order(network: Network, agreed: Agreement) -> EvmOrder:
    """The deposit's burn or send. Raises as `evm_calls` does."""
    chain = network.chain(agreed.source_chain)
    is_direct = agreed.deposit_address is None and agreed.dest_chain == network.stellar.id
    if not isinstance(chain, EvmChain) or not is_direct:
        raise ValueError(
            f"transfer {agreed.id} is no deposit that its payer sends from an EVM chain"
        )
    match agreed.mechanism:
        case "cctp":
            return _burn(network, chain, agreed)
        case "oft":
            return _send(network, chain, agreed)
        case "payment":
            raise ValueError(f"transfer {agreed.id} is a payment: no call of an EVM chain")


def spender(order: EvmOrder) -> EvmAddress:
    """The contract that needs the allowance."""
    match order:
        case BurnOrder():
            return order.messenger
        case SendOrder():
            return order.oft


def encode_order(order: EvmOrder) -> UnsignedCall:
    """The call of an order."""
    match order:
        case BurnOrder():
            burn = (
                *(order.amount, order.domain, decode_hex(order.mint_recipient), order.token),
                *(decode_hex(order.destination_caller), order.max_fee, order.min_finality),
                order.hook_data,
            )
            return UnsignedCall(order.messenger, _BURNS + encode(_BURN, burn), _NOTHING)
        case SendOrder():
            param = (
                *(order.eid, decode_hex(order.to), order.amount, order.min_amount),
                *(order.extra_options, order.compose, order.command),
            )
            send = (param, (order.native_fee, 0), order.refund_to)
            return UnsignedCall(order.oft, _SENDS + encode(_SEND, send), order.value)


def parse_order(call: UnsignedCall) -> EvmOrder:
    """Decode the order of a call. Raises `ValueError` for a call that is no burn or send."""
    selector, arguments = call.data[:4], call.data[4:]
    try:
        if selector == _BURNS:
            return _read_burn(call, decode(_BURN, arguments))
        if selector == _SENDS:
            return _read_send(call, decode(_SEND, arguments))
    except DecodingError as error:
        raise ValueError(f"a call of {call.to} cannot be read: {error}") from error
    raise ValueError(f"a call of {call.to} begins with 0x{selector.hex()}: neither burn nor send")


def _burn(network: Network, chain: EvmChain, agreed: Agreement) -> BurnOrder:
    """Minted to the forwarder, and deliverable by it only: otherwise the money can be lost."""
    stellar = network.stellar
    if chain.cctp_token_messenger is None or stellar.cctp_forwarder is None:
        raise ConfigurationError(f"CCTP does not lead from {chain.id} to {stellar.id}")
    if agreed.finality_threshold is None or stellar.cctp_domain is None:
        raise ValueError(f"nothing says how transfer {agreed.id} burns")
    forwarder = contract_as_bytes32(stellar.cctp_forwarder)
    return BurnOrder(
        messenger=chain.cctp_token_messenger,
        amount=agreed.amount_in,
        domain=stellar.cctp_domain,
        mint_recipient=forwarder,
        token=EvmAddress(agreed.source_token),
        destination_caller=forwarder,
        max_fee=BaseUnits(agreed.amount_in - agreed.least_sent),
        min_finality=agreed.finality_threshold,
        hook_data=forward_hook(StellarAddress(agreed.dest_address), agreed.id),
    )


def _send(network: Network, chain: EvmChain, agreed: Agreement) -> SendOrder:
    """The value is the quoted fee: the OFT needs exactly its fee, and refunds the excess."""
    stellar = network.stellar
    if chain.oft is None or stellar.lz_eid is None:
        raise ConfigurationError(f"the OFT does not lead from {chain.id} to {stellar.id}")
    if agreed.native_fee is None:
        raise ValueError(f"nothing says what the message of transfer {agreed.id} costs")
    fee = Wei(agreed.native_fee)
    return SendOrder(
        oft=chain.oft,
        eid=stellar.lz_eid,
        to=account_as_bytes32(StellarAddress(agreed.dest_address)),
        amount=agreed.amount_in,
        min_amount=agreed.least_sent,
        extra_options=b"",
        compose=b"",
        command=b"",
        native_fee=fee,
        refund_to=EvmAddress(agreed.source_address),
        value=fee,
    )


def _approvals(
    agreed: Agreement, order: EvmOrder, allowance: BaseUnits
) -> tuple[UnsignedCall, ...]:
    """Of exactly the amount, so no allowance is left after the transfer."""
    if allowance >= order.amount:
        return ()
    # An OFT with an allowance is the adapter of an existing token. Ethereum's USDT changes an
    # allowance only from or to zero.
    steps = (0, order.amount) if isinstance(order, SendOrder) and allowance else (order.amount,)
    token = EvmAddress(agreed.source_token)
    return tuple(
        UnsignedCall(token, _APPROVES + encode(_APPROVE, [spender(order), step]), _NOTHING)
        for step in steps
    )


def _read_burn(call: UnsignedCall, words: tuple[Any, ...]) -> BurnOrder:
    amount, domain, recipient, token, caller, max_fee, min_finality, hook = words
    return BurnOrder(
        messenger=call.to,
        amount=BaseUnits(amount),
        domain=domain,
        mint_recipient=bytes32(recipient),
        token=EvmAddress(token),
        destination_caller=bytes32(caller),
        max_fee=BaseUnits(max_fee),
        min_finality=min_finality,
        hook_data=hook,
    )


def _read_send(call: UnsignedCall, words: tuple[Any, ...]) -> SendOrder:
    (eid, to, amount, least, options, compose, command), fee, refund_to = words
    if fee[1] != 0:
        raise ValueError(f"a call of {call.to} pays in a token that none of ours pays in")
    return SendOrder(
        oft=call.to,
        eid=eid,
        to=bytes32(to),
        amount=BaseUnits(amount),
        min_amount=BaseUnits(least),
        extra_options=options,
        compose=compose,
        command=command,
        native_fee=Wei(fee[0]),
        refund_to=EvmAddress(refund_to),
        value=call.value,
    )
