"""SEP-10 as a test sees it: a server's key, wallets, and challenges that were made otherwise."""

import base64
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from flask import Flask
from sqlalchemy import Engine
from stellar_sdk import Account, Keypair, TransactionBuilder, TransactionEnvelope
from stellar_sdk.operation import ManageData, Operation

from api.app import create_app
from api.auth.sep10 import Sep10
from api.auth.tokens import Tokens
from api.deps import Deps
from api.ports import Accounts
from indexer.chains.stellar.xdr.ledger_entries import Signer, SigningRules, Trustline
from indexer.config.networks import Network, load_network
from tests.documented import CheckedClient
from tests.factories.tokens import URL, make_tokens
from warehouse_schema.identifiers import AssetId, StellarAddress, UnixSeconds

NETWORK = load_network("testnet")
PASSPHRASE = NETWORK.stellar.passphrase
HOME = "isthmus.test"
DOMAIN = "api.isthmus.test"


def key(name: str) -> Keypair:
    """The key that a name stands for."""
    return Keypair.from_raw_ed25519_seed(sha256(f"sep-10 tests: {name}".encode()).digest())


SERVER, WALLET = key("server"), key("wallet")


def make_sep10(**changes: Any) -> Sep10:
    usual: dict[str, Any] = {
        "key": SERVER,
        "home_domain": HOME,
        "web_auth_domain": DOMAIN,
        "passphrase": PASSPHRASE,
        "endpoint": f"{URL}/auth",
    }
    return Sep10(**(usual | changes))


class FixedAccounts:
    """A ledger with these accounts and no other."""

    def __init__(self, *rules: SigningRules) -> None:
        self.rules = {each.account: each for each in rules}
        self.lines: dict[tuple[str, str], Trustline] = {}
        self.failure: Exception | None = None
        self.requests: list[str] = []

    def signing_rules(self, account: StellarAddress) -> SigningRules | None:
        self.requests.append(account)
        if self.failure is not None:
            raise self.failure
        return self.rules.get(account)

    def trustline(self, account: StellarAddress, asset: AssetId) -> Trustline | None:
        self.requests.append(account)
        if self.failure is not None:
            raise self.failure
        return self.lines.get((account, asset))


def make_rules(
    account: Keypair = WALLET, *, medium: int = 0, master: int = 1, **others: int
) -> SigningRules:
    """Rules of an account; `others` are named keys and their weights."""
    named = [(account, master), *((key(name), weight) for name, weight in others.items())]
    signers = tuple(Signer(StellarAddress(each.public_key), weight) for each, weight in named)
    return SigningRules(StellarAddress(account.public_key), medium, signers)


def make_sign_in_app(
    engine: Engine,
    accounts: Accounts,
    *,
    network: Network = NETWORK,
    sep10: Sep10 | None = None,
    tokens: Tokens | None = None,
    statement: Mapping[str, Any] | None = None,
) -> Flask:
    """An app that signs people in, on this machine's clock as the library is."""
    app = create_app(
        Deps(
            engine,
            network,
            lambda: UnixSeconds(int(time.time())),
            tokens=tokens or make_tokens(now=int(time.time())),
            sep10=sep10 or make_sep10(),
            accounts=accounts,
            statement=statement or {},
        )
    )
    app.test_client_class = CheckedClient
    return app


def sign(challenge: str, *keys: Keypair, passphrase: str = PASSPHRASE) -> str:
    """The challenge with these signatures added."""
    envelope = TransactionEnvelope.from_xdr(challenge, passphrase)
    for each in keys or (WALLET,):
        # Not `sign`, which refuses to sign twice.
        envelope.signatures.append(each.sign_decorated(envelope.hash()))
    return envelope.to_xdr()


def nonce() -> bytes:
    return base64.b64encode(b"\x5e" * 48)


def first(account: str = WALLET.public_key, home: str = HOME) -> ManageData:
    return ManageData(f"{home} auth", nonce(), source=account)


def second(domain: str = DOMAIN, source: str | None = SERVER.public_key) -> ManageData:
    return ManageData("web_auth_domain", domain.encode(), source=source)


def forge(
    *operations: Operation,
    signer: Keypair = SERVER,
    source: str | None = None,
    sequence: int = 0,
    times: tuple[int, int] | None = (-10, 600),
    passphrase: str = PASSPHRASE,
    change: Any = None,
    keys: Sequence[Keypair] = (WALLET,),
) -> str:
    """A challenge as `signer` could make and sign it; `times` are seconds from now."""
    account = Account(source or signer.public_key, sequence - 1)
    builder = TransactionBuilder(account, passphrase, 100)
    if times is None:
        builder.set_timeout(0)
    else:
        now = int(time.time())
        builder.add_time_bounds(now + times[0], now + times[1])
    for operation in operations or (first(), second()):
        builder.append_operation(operation)
    if change is not None:
        change(builder)
    envelope = builder.build()
    for each in (signer, *keys):
        envelope.sign(each)
    return envelope.to_xdr()
