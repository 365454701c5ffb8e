"""Gas of moving a deposit on: what an operator pays for each address, on a local node.

Gas is a count and not a time, so the machine and its load are not in these figures. The tokens and
bridges are the devnet's, whose code is not the real ones': Circle's USDC is behind a proxy and the
real OFT asks more contracts for its fee. What the deposit address adds to a direct burn or send is
`burn_added` and `send_added`, and is the same on a real chain.

`first`: the address has no code yet, as with every deposit that is paid once. `again`: it has.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

from devnet.evm import NATIVE_FEE, EvmDevnet, dev_account
from devnet.evm_deployment import deploy
from devnet.evm_messages import FINALIZED
from devnet.evm_node import AnvilProcess
from devnet.evm_sending import Receipt
from devnet.world import remotes_of_evm
from indexer.addresses import contract_as_bytes32
from indexer.bridges.deposit_address.factory import (
    Deposit,
    FactoryCall,
    burn_call,
    deposit_address,
    refund_call,
    refund_native_call,
    send_call,
)
from indexer.config.networks import Network, load_network
from warehouse_schema.identifiers import BaseUnits, ChainId, EvmAddress, StellarAddress, UnixSeconds

_OPERATOR, _PAYER = dev_account(3), dev_account(1)
_OWNER = StellarAddress("GB54KUSW2OO5IY3LXJGIR54Q4ZIGQMQ6FIE7QZENCFCL3E5GYXAKQY7L")
_AMOUNT = BaseUnits(20_000_000)


def measure() -> dict[str, Any]:
    """What the module's docstring says."""
    with (
        tempfile.TemporaryDirectory() as folder,
        AnvilProcess(log_file=Path(folder) / "anvil.log") as anvil,
        deploy(anvil.rpc_url, remotes_of_evm()) as devnet,
    ):
        return _figures(devnet, load_network("devnet"))


def _figures(devnet: EvmDevnet, network: Network) -> dict[str, Any]:
    usdc = EvmAddress(devnet.addresses.usdc)
    burned, sent = _deposit(), replace(_deposit(), bridge="oft")
    returned = replace(burned, transfer_id=UUID(int=2))
    burn, send = _burn(network, burned), send_call(network, sent)
    refund = refund_call(network, returned, usdc)
    figures: dict[str, Any] = {}
    # What is written for the first time on the chain costs more, and once: not in the figures.
    _direct_burn(devnet, network)
    _direct_send(devnet)
    for when in ("first", "again"):
        _pay(devnet, network, burned, sent, returned)
        figures[f"burn_{when}"] = _gas(devnet, burn)
        figures[f"send_{when}"] = _gas(devnet, send, value=NATIVE_FEE)
        figures[f"refund_{when}"] = _gas(devnet, refund)
    stray = replace(burned, transfer_id=UUID(int=3))
    devnet.send(_PAYER, deposit_address(network, stray), b"", value=1)
    figures["refund_native_first"] = _gas(devnet, refund_native_call(network, stray))
    burn_alone, send_alone = _direct_burn(devnet, network), _direct_send(devnet)
    return figures | {
        "direct_burn": burn_alone,
        "direct_send": send_alone,
        "burn_added": figures["burn_first"] - burn_alone,
        "send_added": figures["send_first"] - send_alone,
    }


def _direct_send(devnet: EvmDevnet) -> int:
    """From an account of one's own, which keeps some of the token."""
    devnet.faucet_usdt0(_PAYER.address, 2 * _AMOUNT)
    return _used(devnet, devnet.oft_send(_PAYER, to=bytes(31) + b"\1", amount=_AMOUNT))


def _direct_burn(devnet: EvmDevnet, network: Network) -> int:
    """The same, the approval in a transaction of its own included."""
    forwarder = network.stellar.cctp_forwarder
    if forwarder is None:
        raise ValueError("the devnet has CCTP")
    remote = bytes.fromhex(contract_as_bytes32(forwarder)[2:])
    devnet.faucet_usdc(_PAYER.address, 2 * _AMOUNT)
    at = devnet.addresses
    approved = devnet.approve(_PAYER, at.usdc, at.token_messenger, _AMOUNT)
    burned = devnet.deposit_for_burn_with_hook(
        _PAYER,
        amount=_AMOUNT,
        mint_recipient=remote,
        destination_caller=remote,
        hook_data=bytes(28) + b"\0\0\0\x38" + _OWNER.encode() + bytes(range(16)),
    )
    return _used(devnet, approved) + _used(devnet, burned)


def _deposit() -> Deposit:
    return Deposit(
        chain=ChainId("eip155:31337"),
        bridge="cctp",
        owner=_OWNER,
        transfer_id=UUID("0f1e2d3c-4b5a-4978-8695-a4b3c2d1e0ff"),
        amount=_AMOUNT,
        min_received=_AMOUNT,
        refund_to=EvmAddress(_PAYER.address.lower()),
        operator=EvmAddress(_OPERATOR.address.lower()),
        expires_at=UnixSeconds(1_800_000_000),
    )


def _burn(network: Network, deposit: Deposit) -> FactoryCall:
    return burn_call(network, deposit, max_fee=BaseUnits(0), min_finality=FINALIZED)


def _pay(devnet: EvmDevnet, network: Network, *deposits: Deposit) -> None:
    for deposit in deposits:
        faucet = devnet.faucet_usdc if deposit.bridge == "cctp" else devnet.faucet_usdt0
        faucet(deposit_address(network, deposit), deposit.amount)


def _gas(devnet: EvmDevnet, call: FactoryCall, *, value: int = 0) -> int:
    return _used(devnet, devnet.send(_OPERATOR, call.to, call.data, value=value))


def _used(devnet: EvmDevnet, receipt: Receipt) -> int:
    mined = devnet.rpc("eth_getTransactionReceipt", receipt.transaction_hash)
    return int(mined["gasUsed"], 16)
