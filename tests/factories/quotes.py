"""Requests for quotes with good defaults, and fees that stand where they are."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Engine
from werkzeug.test import TestResponse

from indexer.chain_state.fees import BurnTerms, SendTerms
from tests.factories.app import make_app
from tests.factories.projections import STELLAR, address
from tests.factories.tokens import ACCOUNT, make_tokens
from warehouse_schema.identifiers import BaseUnits, Wei

PATH = "/v1/quotes"
SEPOLIA, ARBITRUM = "eip155:11155111", "eip155:421614"
EVM = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
OTHER = address(9)


@dataclass
class FixedFees:
    """Says these terms, or raises `failure`."""

    burn_terms: BurnTerms = field(default_factory=lambda: BurnTerms(1000, Decimal("1.3")))
    send_terms: SendTerms | None = None
    failure: Exception | None = None
    requests: list[tuple[Any, ...]] = field(default_factory=list)

    def burn(self, *path: Any) -> BurnTerms:
        """Of any path."""
        return self._answer(self.burn_terms, "burn", *path)

    def send(self, source: Any, dest: Any, to: Any, amount: Any) -> SendTerms:
        """Of any amount: what was set, or all of it for 1000 wei."""
        usual = SendTerms(BaseUnits(0), BaseUnits(10**18), amount, Wei(1000))
        return self._answer(self.send_terms or usual, "send", source, dest, to, amount)

    def gas_price(self, chain: Any) -> int:
        """A gwei."""
        return self._answer(10**9, "gas", chain)

    def _answer(self, value: Any, *requests: Any) -> Any:
        self.requests.append(requests)
        if self.failure is not None:
            raise self.failure
        return value


def make_quote_app(engine: Engine, fees: Any, **others: Any) -> Flask:
    """An app that knows our tokens and these fees."""
    return make_app(engine, tokens=make_tokens(), fees=fees, **others)


def make_body(**changes: Any) -> dict[str, Any]:
    """A deposit of 10 USDC from Sepolia, with changes; None takes a member away."""
    good = {
        "route": "usdc-deposit",
        "amount_in": "10000000",
        "source_chain": SEPOLIA,
        "source_address": EVM,
        "dest_address": ACCOUNT,
    }
    return {name: value for name, value in (good | changes).items() if value is not None}


def withdrawal(**changes: Any) -> dict[str, Any]:
    """The changes that make a withdrawal of 10 USDC of it."""
    return {
        "route": "usdc-withdraw",
        "amount_in": "100000000",
        "source_chain": STELLAR,
        "source_address": ACCOUNT,
        "dest_chain": SEPOLIA,
        "dest_address": EVM,
        **changes,
    }


def sending(**changes: Any) -> dict[str, Any]:
    """And a payment of 10 USDC."""
    payment = {"route": "usdc-send", "dest_address": OTHER, "dest_chain": None}
    return withdrawal(**payment) | changes


def asking(account: str = ACCOUNT) -> dict[str, str]:
    """The header of an owner."""
    return {"Authorization": f"Bearer {make_tokens().issue(account, jti='5e' * 32)}"}


def ask(client: FlaskClient, body: Any, account: str = ACCOUNT) -> TestResponse:
    """A request for a quote."""
    return client.post(PATH, json=body, headers=asking(account))


REFUSED: dict[str, dict[str, Any]] = {
    "BAD_BODY": {"amount_in": None},
    "BAD_ROUTE": {"route": "usdc-borrow"},
    "BAD_CHAIN": {"source_chain": "eip155:1"},
    "BAD_AMOUNT": {"amount_in": "10.5"},
    "AMOUNT_OUT_OF_LIMITS": {"amount_in": "20000001"},
    "BAD_SOURCE_ADDRESS": {"source_address": "0x1234"},
    "BAD_DEST_ADDRESS": {"dest_address": "GABC"},
    "BAD_FUNDING_MODE": {"funding_mode": "deposit_address"},
    "NOT_THE_OWNER": {"dest_address": OTHER},
}
"""Code → what about the deposit is refused with it."""
