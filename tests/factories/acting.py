"""Owners who ask what to do and say what they did, and chains that say what a test wants."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flask.testing import FlaskClient
from sqlalchemy import Connection
from werkzeug.test import TestResponse

from indexer.actions.evm_calls import EvmOrder, evm_order
from indexer.actions.evm_check import MinedTx
from tests.factories.actions import ETHEREUM, MAINNET, OWNER, PAYER, TX, make_agreed, make_mined
from tests.factories.quotes import asking
from tests.factories.started import PATH, insert_transfer, payment

_AT: Any = MAINNET.chain(ETHEREUM)
BURN_QUOTE: dict[str, Any] = {
    "owner": OWNER,
    "source_chain": ETHEREUM,
    "source_asset": f"{ETHEREUM}/erc20:{_AT.usdc}",
    "source_token": _AT.usdc,
    "source_address": PAYER,
    "dest_chain": MAINNET.stellar.id,
    "dest_asset": MAINNET.stellar.usdc,
    "dest_address": OWNER,
    "amount_in": 20_000_000,
    "amount_out": 199_900_000,
}
SEND_QUOTE: dict[str, Any] = BURN_QUOTE | {
    "route": "usdt0-deposit",
    "mechanism": "oft",
    "source_asset": f"{ETHEREUM}/erc20:{_AT.usdt0}",
    "source_token": _AT.usdt0,
    "dest_asset": MAINNET.stellar.usdt0,
    "finality_threshold": None,
    "native_fee": 1_100,
}
QUOTES = {"cctp": BURN_QUOTE, "oft": SEND_QUOTE}


@dataclass
class FixedEvm:
    """Chains on which bridges may take `allowed`, and these transactions are mined."""

    allowed: int | None = 0
    transactions: dict[str, MinedTx] = field(default_factory=dict)
    refusals: dict[str, Any] = field(default_factory=dict)
    """Recipients to whom nothing is minted, and why."""
    failure: Exception | None = None
    meanwhile: Callable[[], None] = lambda: None
    """What happens while the chain is being read."""
    requests: list[tuple[Any, ...]] = field(default_factory=list)

    def allowance(self, *about: Any) -> Any:
        """Of whatever."""
        return self._answer(self.allowed, "allowance", *about)

    def mint_refusal(self, chain: Any, recipient: Any) -> Any:
        """Those of `refusals`."""
        return self._answer(self.refusals.get(recipient), "mint_refusal", chain, recipient)

    def mined(self, chain: Any, tx: Any) -> Any:
        """Those of that chain."""
        found = self.transactions.get(tx)
        is_there = found is not None and found.chain == chain
        return self._answer(found if is_there else None, "mined", chain, tx)

    def mine(self, order: EvmOrder, *others: Any, **changes: Any) -> str:
        """Have the transaction that carries an order out; its hash."""
        mined = make_mined(order, *others, **changes)
        self.transactions[mined.tx] = mined
        return mined.tx

    def _answer(self, value: Any, *request: Any) -> Any:
        self.requests.append(request)
        self.meanwhile()
        if self.failure is not None:
            raise self.failure
        return value


@dataclass
class FixedStellar:
    """A ledger that has `following` signed next, or raises it."""

    made: Any = None
    pause: Any = None
    """Why CCTP mints nothing."""
    requests: list[tuple[Any, ...]] = field(default_factory=list)

    def cctp_pause(self) -> Any:
        """As set."""
        return self.pause

    def following(self, *about: Any) -> Any:
        """Of whatever."""
        self.requests.append(about)
        if isinstance(self.made, Exception):
            raise self.made
        return self.made


def deposit(conn: Connection, mechanism: str = "cctp", **changes: Any) -> str:
    """A direct deposit of 20 USDC, or USDT0, on mainnet; its id."""
    return insert_transfer(conn, **(QUOTES[mechanism] | changes))


def stellar_payment(conn: Connection, **changes: Any) -> str:
    """A payment of 10 USDC on mainnet's Stellar; its id."""
    stellar = MAINNET.stellar
    at = {
        "source_chain": stellar.id,
        "source_asset": stellar.usdc,
        "source_token": stellar.usdc_contract,
        "dest_chain": stellar.id,
        "dest_asset": stellar.usdc,
    }
    whose = {"owner": OWNER, "source_address": OWNER}
    return insert_transfer(conn, **payment(**(whose | at | changes)))


def stellar_withdrawal(conn: Connection) -> str:
    """A withdrawal of 20 USDC to Ethereum; its id."""
    stellar = MAINNET.stellar
    ends = {
        "source_chain": stellar.id,
        "source_asset": stellar.usdc,
        "source_token": stellar.usdc_contract,
        "source_address": OWNER,
        "dest_chain": ETHEREUM,
        "dest_asset": BURN_QUOTE["source_asset"],
        "dest_address": PAYER,
        "finality_threshold": 2000,
    }
    amounts = {"amount_in": 200_000_000, "amount_out": 19_990_000}
    route: dict[str, Any] = {"route": "usdc-withdraw", "mechanism": "cctp", "funding_mode": None}
    return insert_transfer(conn, owner=OWNER, **route, **ends, **amounts)


def order_for(transfer: str, mechanism: str = "cctp") -> Any:
    """What its payer has to sign."""
    return evm_order(MAINNET, make_agreed(mechanism=mechanism, id=transfer))


def ask_action(client: FlaskClient, transfer: str, account: str = OWNER) -> TestResponse:
    """A request for what can be done."""
    return client.get(f"{PATH}/{transfer}/actions", headers=asking(account))


def submit(
    client: FlaskClient, transfer: str, tx: Any = TX, account: str = OWNER, **others: Any
) -> TestResponse:
    """A submission of an EVM transaction; None takes a member away."""
    body = {"kind": "evm_tx", "hash": tx, **others}
    given = {name: value for name, value in body.items() if value is not None}
    return client.post(f"{PATH}/{transfer}/submissions", json=given, headers=asking(account))
