"""Test money on the local chains of a demo that runs (`isthmus faucet`).

It works on the local chains alone: anvil's chain 31337, and the Stellar stand-in of this project.
"""

import sys

import httpx
from eth_account import Account
from stellar_sdk import Asset, Keypair, StrKey
from stellar_sdk.exceptions import ConnectionError as NotConnected

from devnet.evm import EvmDevnet, expected_addresses
from devnet.evm_node import CHAIN_ID, DevnetError, JsonRpc, RpcFailed
from devnet.stellar.accounts import PASSPHRASE, USDC, USDT0
from devnet.stellar.client import DevnetClient, Failed, NotIncluded, Rejected
from indexer.addresses import evm_address

_ETHER = 10**18
_EVM_UNIT, _STELLAR_UNIT = 10**6, 10**7


class NoFaucet(DevnetError):
    """The faucet cannot pay; the message says what to do."""


def pay(address: str | None, amount: int, evm: str, stellar: str) -> int:
    """Pay an address, or None for new keys, and print what it holds then; 1 if it is impossible.

    New keys are printed as assignments that a shell can `eval`. The EVM node sends for the new
    address without its key (`eth_sendTransaction`).
    """
    try:
        if address is None:
            _pay_new(amount, evm, stellar)
        elif address.startswith("0x"):
            _pay_evm(evm, address, amount)
        else:
            _pay_stellar(stellar, address, amount)
    except (NoFaucet, RpcFailed, Failed, NotIncluded, Rejected) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except (httpx.TransportError, NotConnected) as error:
        print(f"no local chain answers ({error}): start `make demo` first", file=sys.stderr)
        return 1
    return 0


def _pay_new(amount: int, evm_url: str, stellar_url: str) -> None:
    payer, owner = Account.create(), Keypair.random()
    with DevnetClient(stellar_url) as stellar:
        _check_is_stand_in(stellar, stellar_url)
        stellar.fund(owner.public_key)
        for asset in (USDC, USDT0):
            stellar.trust(owner, asset)
    _pay_evm(evm_url, payer.address, amount)
    _pay_stellar(stellar_url, owner.public_key, amount)
    with JsonRpc(evm_url) as rpc:
        # The node then sends for it, as a wallet does.
        rpc("anvil_impersonateAccount", payer.address)
    for name, value in (
        ("EVM_ADDRESS", payer.address),
        ("EVM_KEY", payer.key.to_0x_hex()),
        ("STELLAR_ADDRESS", owner.public_key),
        ("STELLAR_KEY", owner.secret),
    ):
        print(f"export {name}={value}")


def _pay_evm(url: str, text: str, amount: int) -> None:
    try:
        address = evm_address(text)
    except ValueError as error:
        raise NoFaucet(f"{text} is no EVM address: {error}") from error
    with EvmDevnet(JsonRpc(url), expected_addresses()) as evm:
        if evm.rpc.chain_id != CHAIN_ID:
            raise NoFaucet(f"{url} is chain {evm.rpc.chain_id}, not the local one ({CHAIN_ID})")
        evm.rpc("anvil_setBalance", address, hex(_ETHER))
        evm.faucet_usdc(address, amount * _EVM_UNIT)
        evm.faucet_usdt0(address, amount * _EVM_UNIT)
        tokens = {"USDC": evm.addresses.usdc, "USDT0": evm.addresses.usdt0}
        held = {code: evm.balance_of(token, address) for code, token in tokens.items()}
    _print_balances(address, {code: units / _EVM_UNIT for code, units in held.items()})


def _pay_stellar(url: str, address: str, amount: int) -> None:
    if not StrKey.is_valid_ed25519_public_key(address):
        raise NoFaucet(f"{address} is neither an EVM address (0x…) nor a Stellar account (G…)")
    with DevnetClient(url) as stellar:
        _check_is_stand_in(stellar, url)
        if stellar.account(address) is None:
            stellar.fund(address)
        lines = [asset for asset in (USDC, USDT0) if stellar.trustline(address, asset) is not None]
        for asset in lines:
            stellar.issue(address, asset, amount * _STELLAR_UNIT)
        held = {asset.code: stellar.balance(address, asset) for asset in lines}
    _print_balances(address, {code: units / _STELLAR_UNIT for code, units in held.items()})
    for asset in (USDC, USDT0):
        if asset not in lines:
            print(f"  no trustline for {_name(asset)}: open one and run this again")


def _check_is_stand_in(stellar: DevnetClient, url: str) -> None:
    try:
        stellar.close_time_ms()
    except ValueError as error:
        raise NoFaucet(f"{url} is not the stand-in of a demo: {error}") from error
    passphrase = stellar.server.get_network().passphrase
    if passphrase != PASSPHRASE:
        raise NoFaucet(
            f"{url} has the passphrase {passphrase!r}: set "
            "ISTHMUS_DEVNET_PASSPHRASE as for the demo"
        )


def _print_balances(address: str, held: dict[str, float]) -> None:
    balances = ", ".join(f"{amount:,.7g} {code}" for code, amount in held.items())
    print(f"# {address} holds {balances or 'XLM alone'}")


def _name(asset: Asset) -> str:
    return f"{asset.code}:{asset.issuer}"
