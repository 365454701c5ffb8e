"""People who move money through the API on the devnet: a key on each chain, and a client.

Clients verify actions against contracts derived from the devnet's own keys, not from a server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import httpx
from eth_account import Account
from eth_account.signers.local import LocalAccount
from stellar_sdk import Asset, Keypair
from stellar_sdk.operation import ChangeTrust, CreateAccount, Operation, Payment
from stellar_sdk.utils import from_xdr_amount

from devnet.bridges import EVM
from devnet.evm import DOMAIN, EID, EvmDevnet, expected_addresses
from devnet.keys import WEB_AUTH_DOMAIN
from devnet.local_http import TIMEOUTS
from devnet.stellar.accounts import (
    ADMIN,
    PASSPHRASE,
    SEP10,
    USDC,
    USDC_ISSUER,
    USDT0,
    USDT0_ISSUER,
    address,
    keypair,
    secret,
)
from devnet.stellar.client import DevnetClient
from devnet.stellar.registry import devnet_contracts
from isthmus_client import Bridges, EvmBridges, Isthmus, Login, SignIn, StellarBridges

STARTING_XLM = "20"
ETHER = 10**18

ASSETS: Mapping[str, Asset] = {"usdc": USDC, "usdt0": USDT0}
_ISSUERS = {USDC: USDC_ISSUER, USDT0: USDT0_ISSUER}


@dataclass(frozen=True)
class Purse:
    """A customer's initial balances, in each chain's base units."""

    on_stellar: Mapping[str, int]
    """By coin, `usdc` or `usdt0`; a coin that is not named has no trustline."""
    on_evm: Mapping[str, int]
    has_account: bool = True
    """On Stellar; without one there are no trustlines either."""


@dataclass(frozen=True)
class Customer:
    """A customer with an account on each chain, signed in to the API."""

    name: str
    key: Keypair
    payer: LocalAccount
    api: Isthmus

    @property
    def account(self) -> str:
        """On Stellar."""
        return self.key.public_key

    @property
    def wallet(self) -> str:
        """On the EVM chain, lower-case."""
        return self.payer.address.lower()

    def close(self) -> None:
        """Close the connections."""
        self.api.close()


def customer(name: str, api_url: str, *, domain: str | None = None) -> Customer:
    """The customer of that name, with the accounts that `open_accounts` funds.

    `domain`: host and port of the API's public URL, if it is another than `api_url`.
    """
    key = keypair(name)
    server = SignIn(
        PASSPHRASE,
        home_domain=domain,
        signing_key=address(SEP10),
        web_auth_domain=domain or WEB_AUTH_DOMAIN,
    )
    login = Login.with_key(key, server)
    # A transport of its own: a proxy that the environment names is for the world outside.
    api = Isthmus(api_url, login=login, transport=httpx.HTTPTransport(), timeouts=TIMEOUTS)
    return Customer(name, key, Account.from_key(secret(name)), api)


def open_accounts(
    people: Mapping[str, Purse], stellar: DevnetClient, evm: EvmDevnet
) -> Mapping[str, Keypair]:
    """Fund all customers on both chains, in three ledgers."""
    keys = {name: keypair(name) for name in people}
    admin = keypair(ADMIN)
    made = [
        CreateAccount(key.public_key, STARTING_XLM)
        for name, key in keys.items()
        if people[name].has_account
    ]
    _submit(stellar, admin, made, [])
    lines: list[Operation] = []
    paid: list[Operation] = []
    for name, purse in people.items():
        holder = keys[name].public_key
        for coin, amount in purse.on_stellar.items():
            asset = ASSETS[coin]
            lines.append(ChangeTrust(asset, source=holder))
            if amount:
                issuer = address(_ISSUERS[asset])
                paid.append(Payment(holder, asset, from_xdr_amount(amount), source=issuer))
    _submit(stellar, admin, lines, [keys[name] for name in people if people[name].on_stellar])
    _submit(stellar, admin, paid, [keypair(each) for each in _ISSUERS.values()])
    for name, purse in people.items():
        _fill(evm, Account.from_key(secret(name)).address, purse.on_evm)
    return keys


def _submit(
    stellar: DevnetClient,
    source: Keypair,
    operations: Sequence[Operation],
    signers: Sequence[Keypair],
) -> None:
    if operations:
        named = {each.source.account_id for each in operations if each.source is not None}
        needed = [key for key in signers if key.public_key in named]
        stellar.submit(source, operations, signers=needed)


def _fill(evm: EvmDevnet, wallet: str, holdings: Mapping[str, int]) -> None:
    evm.rpc("anvil_setBalance", wallet, hex(ETHER))
    faucets = {"usdc": evm.faucet_usdc, "usdt0": evm.faucet_usdt0}
    for coin, amount in holdings.items():
        faucets[coin](wallet, amount)


def devnet_bridges() -> Bridges:
    """Contracts that a customer of the devnet verifies an action against."""
    there, here = expected_addresses(), devnet_contracts()
    evm = EvmBridges(
        usdc=there.usdc,
        token_messenger=there.token_messenger,
        usdt0=there.usdt0,
        oft=there.oft,
        cctp_domain=DOMAIN,
        lz_eid=EID,
        has_deposit_factory=True,
    )
    stellar = StellarBridges(
        network=PASSPHRASE,
        usdc=address(USDC_ISSUER),
        messenger=here.token_messenger_minter,
        usdt0=address(USDT0_ISSUER),
        oft=here.oft,
    )
    return Bridges({EVM: evm}, here.cctp_forwarder, stellar)
