"""Operations of an owner's Stellar transaction: a payment, an approval (if the allowance is short)
and then a CCTP burn, or an OFT send.

Amounts, recipient and fees are the agreed ones. Amounts are stroops.
Sources: Circle's token_messenger_minter (deposit_for_burn_with_hook) and the Stellar asset contract
(SEP-41), LayerZero's OFT for Stellar (oft-core, SendParam with symbol keys in alphabetical order).
"""

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from eth_utils.hexadecimal import decode_hex
from stellar_sdk import Address, Asset, scval, xdr
from stellar_sdk.operation import InvokeHostFunction, Payment
from stellar_sdk.operation.operation import Operation
from stellar_sdk.utils import from_xdr_amount

from indexer.actions.agreed import Agreement
from indexer.addresses import evm_as_bytes32
from indexer.config.networks import EvmChain, Network
from indexer.errors import ConfigurationError
from indexer.movements.fold import STELLAR_PER_SHARED
from warehouse_schema.identifiers import (
    AssetId,
    BaseUnits,
    Bytes32,
    EvmAddress,
    Height,
    StellarAddress,
    Stroops,
)

APPROVED_LEDGERS = 17_280
"""Validity of an approval: about a day, longer than any transfer at any ledger pace. It covers one
amount, which only its owner can burn."""
ANY_CALLER = bytes(32)
"""Destination caller of a burn that anyone may deliver, its recipient included."""


@dataclass(frozen=True, slots=True)
class Pay:
    """A payment of a classic asset."""

    asset: AssetId
    to: StellarAddress
    amount: BaseUnits


@dataclass(frozen=True, slots=True)
class Approve:
    """Allowance of a contract for an amount of a token, up to a ledger (inclusive)."""

    token: StellarAddress
    spender: StellarAddress
    amount: BaseUnits
    until: Height


@dataclass(frozen=True, slots=True)
class BurnOnStellar:
    """A CCTP burn towards an EVM chain."""

    messenger: StellarAddress
    amount: BaseUnits
    domain: int
    mint_recipient: Bytes32
    token: StellarAddress
    max_fee: BaseUnits
    min_finality: int
    hook_data: bytes


@dataclass(frozen=True, slots=True)
class SendOnStellar:
    """An OFT send towards an EVM chain; an excess message fee is refunded."""

    oft: StellarAddress
    eid: int
    to: Bytes32
    amount: BaseUnits
    min_amount: BaseUnits
    native_fee: Stroops


StellarOrder: TypeAlias = Pay | BurnOnStellar | SendOnStellar
"""The step that moves the money."""
StellarStep: TypeAlias = StellarOrder | Approve
"""The operation of one transaction."""


def stellar_order(network: Network, agreed: Agreement) -> StellarOrder:
    """The order that the owner's transaction has to carry out.

    Raises `ConfigurationError` without a route in the network, `ValueError` for a transfer that
    does not begin on Stellar or contradicts its quote.
    """
    if agreed.source_chain != network.stellar.id:
        raise ValueError(f"transfer {agreed.id} does not begin on {network.stellar.id}")
    match agreed.mechanism:
        case "payment":
            return _payment(network, agreed)
        case "cctp":
            return _burn(network, agreed)
        case "oft":
            return _send(network, agreed)


def approval(order: StellarOrder, allowance: BaseUnits, ledger: Height) -> Approve | None:
    """The approval that the order needs first, if any; `ledger`: about the newest."""
    if not isinstance(order, BurnOnStellar) or allowance >= order.amount:
        return None
    until = Height(ledger + APPROVED_LEDGERS)
    return Approve(order.token, order.messenger, order.amount, until)


def operation_of(step: StellarStep, owner: StellarAddress) -> Operation:
    """The step's operation, with the transaction's source; contract calls are not prepared."""
    payer = scval.to_address(owner)
    match step:
        case Pay():
            return Payment(step.to, asset_of(step.asset), from_xdr_amount(step.amount))
        case Approve():
            spender, amount = scval.to_address(step.spender), scval.to_int128(step.amount)
            return contract_call(
                step.token, "approve", payer, spender, amount, scval.to_uint32(step.until)
            )
        case BurnOnStellar():
            return contract_call(
                step.messenger,
                "deposit_for_burn_with_hook",
                payer,
                scval.to_int128(step.amount),
                scval.to_uint32(step.domain),
                scval.to_bytes(decode_hex(step.mint_recipient)),
                scval.to_address(step.token),
                scval.to_bytes(ANY_CALLER),
                scval.to_int128(step.max_fee),
                scval.to_uint32(step.min_finality),
                scval.to_bytes(step.hook_data),
            )
        case SendOnStellar():
            fee = {"native_fee": scval.to_int128(step.native_fee), "zro_fee": scval.to_int128(0)}
            param = _send_param(step.eid, step.to, step.amount, step.min_amount)
            return contract_call(step.oft, "send", payer, param, scval.to_struct(fee), payer)
        case _:
            assert_never(step)


def allowance_call(order: BurnOnStellar, owner: StellarAddress) -> Operation:
    """View call: the messenger's allowance, an i128."""
    parties = (scval.to_address(owner), scval.to_address(order.messenger))
    return contract_call(order.token, "allowance", *parties)


def paused_call(contract: StellarAddress) -> Operation:
    """View call: whether a CCTP contract is paused, a bool."""
    return contract_call(contract, "paused")


def quote_oft_call(
    oft: StellarAddress, owner: StellarAddress, eid: int, to: Bytes32, amount: BaseUnits
) -> Operation:
    """View call: what an OFT would do with an amount, (OFTLimit, fees, OFTReceipt)."""
    param = _send_param(eid, to, amount, BaseUnits(0))
    return contract_call(oft, "quote_oft", scval.to_address(owner), param)


def quote_send_call(send: SendOnStellar, owner: StellarAddress) -> Operation:
    """View call: the message fee of a send, a MessagingFee."""
    param = _send_param(send.eid, send.to, send.amount, send.min_amount)
    return contract_call(
        send.oft, "quote_send", scval.to_address(owner), param, scval.to_bool(False)
    )


def asset_of(asset: AssetId) -> Asset:
    """The classic asset behind `stellar:CODE:ISSUER`."""
    code, _, issuer = asset.removeprefix("stellar:").partition(":")
    return Asset(code, issuer)


def _payment(network: Network, agreed: Agreement) -> Pay:
    stellar = network.stellar
    assets = {stellar.usdc_contract: stellar.usdc, stellar.usdt0_contract: stellar.usdt0}
    asset = assets.get(StellarAddress(agreed.source_token))
    if asset is None:
        raise ConfigurationError(f"{agreed.source_token} is no asset of {stellar.id}")
    if agreed.amount_out != agreed.amount_in or agreed.dest_chain != stellar.id:
        raise ValueError(f"transfer {agreed.id} is no payment of all that is sent")
    return Pay(asset, StellarAddress(agreed.dest_address), agreed.amount_in)


def _burn(network: Network, agreed: Agreement) -> BurnOnStellar:
    stellar = network.stellar
    destination = _evm(network, agreed)
    if stellar.cctp_token_messenger is None or destination.cctp_domain is None:
        raise ConfigurationError(f"CCTP does not lead from {stellar.id} to {destination.id}")
    if agreed.finality_threshold is None:
        raise ValueError(f"nothing says how transfer {agreed.id} burns")
    return BurnOnStellar(
        messenger=stellar.cctp_token_messenger,
        amount=agreed.amount_in,
        domain=destination.cctp_domain,
        mint_recipient=evm_as_bytes32(EvmAddress(agreed.dest_address)),
        token=StellarAddress(agreed.source_token),
        max_fee=BaseUnits(agreed.amount_in - _min_received(agreed)),
        min_finality=agreed.finality_threshold,
        hook_data=bytes.fromhex(agreed.id),
    )


def _send(network: Network, agreed: Agreement) -> SendOnStellar:
    stellar = network.stellar
    destination = _evm(network, agreed)
    if stellar.oft is None or destination.lz_eid is None:
        raise ConfigurationError(f"the OFT does not lead from {stellar.id} to {destination.id}")
    if agreed.native_fee is None:
        raise ValueError(f"nothing says what the message of transfer {agreed.id} costs")
    return SendOnStellar(
        oft=stellar.oft,
        eid=destination.lz_eid,
        to=evm_as_bytes32(EvmAddress(agreed.dest_address)),
        amount=agreed.amount_in,
        min_amount=_min_received(agreed),
        native_fee=Stroops(agreed.native_fee),
    )


def _evm(network: Network, agreed: Agreement) -> EvmChain:
    chain = network.chain(agreed.dest_chain)
    if not isinstance(chain, EvmChain):
        raise ValueError(f"transfer {agreed.id} ends on {chain.id}: nothing crosses")
    return chain


def _min_received(agreed: Agreement) -> BaseUnits:
    """Minimum to arrive on an EVM chain, in Stellar's 7 decimals.

    The 7th decimal of the amount sent must be 0: the bridge would not move it.
    """
    least = BaseUnits(agreed.amount_out * STELLAR_PER_SHARED)
    if agreed.amount_in % STELLAR_PER_SHARED or not 0 < least <= agreed.amount_in:
        amounts = f"{agreed.amount_out} cannot be what arrives of {agreed.amount_in}"
        raise ValueError(f"transfer {agreed.id}: {amounts}")
    return least


def _send_param(eid: int, to: Bytes32, amount: BaseUnits, least: BaseUnits) -> xdr.SCVal:
    return scval.to_struct(
        {
            "amount_ld": scval.to_int128(amount),
            "compose_msg": scval.to_bytes(b""),
            "dst_eid": scval.to_uint32(eid),
            "extra_options": scval.to_bytes(b""),
            "min_amount_ld": scval.to_int128(least),
            "oft_cmd": scval.to_bytes(b""),
            "to": scval.to_bytes(decode_hex(to)),
        }
    )


def contract_call(contract: StellarAddress, function: str, *arguments: xdr.SCVal) -> Operation:
    """A call of a contract's function, not prepared yet."""
    call = xdr.InvokeContractArgs(
        Address(contract).to_xdr_sc_address(), xdr.SCSymbol(function.encode()), list(arguments)
    )
    kind = xdr.HostFunctionType.HOST_FUNCTION_TYPE_INVOKE_CONTRACT
    return InvokeHostFunction(xdr.HostFunction(kind, invoke_contract=call), auth=[])
