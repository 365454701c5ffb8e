"""The client verifies actions of a server that may be compromised."""

import re
import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from flask.testing import FlaskClient

from isthmus_client import MAINNET as KNOWN
from isthmus_client import (
    ActionNotTrusted,
    Conflict,
    Deposit,
    EvmCalls,
    Invalid,
    Isthmus,
    NotFound,
    Outgoing,
    Quote,
    QuoteFee,
    StellarTx,
)
from tests.api.actions.test_signed import ME, drafted, signed
from tests.factories.acting import deposit, order_for, stellar_payment
from tests.factories.actions import ETHEREUM, MAINNET, OWNER, PAYER, TX
from tests.factories.quotes import asking
from tests.factories.sep10 import make_rules
from tests.factories.started import NOBODY

Alter = Callable[[dict[str, Any]], Any]


class Hostile(httpx.BaseTransport):
    """The app, with one thing in its answers another."""

    def __init__(self, client: FlaskClient, alter: Alter) -> None:
        self._app = httpx.WSGITransport(client.application)
        self._alter = alter

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._app.handle_request(request)
        answer.read()
        body = answer.json()
        self._alter(body["action"])
        return httpx.Response(answer.status_code, json=body)


def owner(actor: FlaskClient, alter: Alter | None = None, account: str = OWNER) -> Isthmus:
    token = asking(account)["Authorization"].removeprefix("Bearer ")
    app = httpx.WSGITransport(actor.application)
    transport = app if alter is None else Hostile(actor, alter)
    return Isthmus("https://api.isthmus.test", token=lambda: token, transport=transport)


def meant(transfer: str, route: Any = "usdc-deposit") -> Deposit:
    return Deposit(transfer, route, ETHEREUM, PAYER, OWNER, 20_000_000, 199_900_000, 1_100)


@pytest.mark.parametrize(
    ("mechanism", "route"), [("cctp", "usdc-deposit"), ("oft", "usdt0-deposit")]
)
def test_action_is_verified_sent_and_submitted(kept, actor, evm, mechanism, route):
    transfer = deposit(kept, mechanism)
    with owner(actor) as isthmus:
        shown = isthmus.action(meant(transfer, route), KNOWN)
        assert isinstance(shown.action, EvmCalls)
        assert (shown.action.chain_id, shown.reason) == (1, None)
        with pytest.raises(Invalid) as early:
            isthmus.submit_evm(transfer, TX)
        evm.mine(order_for(transfer, mechanism))
        assert isthmus.submit_evm(transfer, TX).stage == "SUBMITTED"
        with pytest.raises(Conflict) as again:
            isthmus.submit_evm(transfer, TX)
        after = isthmus.action(meant(transfer, route), KNOWN)
        with pytest.raises(NotFound):
            isthmus.submit_evm("../quotes", TX)
    assert (early.value.code, again.value.code) == ("NOT_MINED", "DUPLICATE_SUBMISSION")
    assert (after.action, after.reason) == (None, "waiting")


def test_unintended_action_is_not_returned(kept, actor):
    transfer = deposit(kept)
    with owner(actor) as isthmus:
        for changes in (
            {"amount": 20_000_001},
            {"payer": "0x" + "0c" * 20, "route": "usdt0-deposit"},
            {"chain": "eip155:10"},
            {"least": 199_900_010},
        ):
            with pytest.raises(ActionNotTrusted):
                isthmus.action(replace(meant(transfer), **changes), KNOWN)


def last(key: str, value: str) -> Alter:
    return lambda action: action["calls"][-1].update({key: value})


ALTERED: dict[str, Alter] = {
    "another kind": lambda action: action.update(kind="sign_anything"),
    "another chain": lambda action: action.update(chainId=10),
    "no calls": lambda action: action.update(calls=[]),
    "no list of calls": lambda action: action.update(calls="0x"),
    "one more call": lambda action: action["calls"].append(dict(action["calls"][0])),
    "one call less": lambda action: action["calls"].pop(),
    "another contract": last("to", "0x" + "0c" * 20),
    "other data": last("data", "0x095ea7b3"),
    "no data": last("data", ""),
    "more value": last("value", "1"),
    "a negative value": last("value", "-1"),
    "an approval of everything": lambda action: action["calls"][0].update(
        data=action["calls"][0]["data"][:-64] + "f" * 64
    ),
    "an approval for another": lambda action: action["calls"][0].update(
        data=action["calls"][0]["data"][:34] + "0c" * 20 + action["calls"][0]["data"][74:]
    ),
    "an approval of another token": lambda action: action["calls"][0].update(to="0x" + "0c" * 20),
    "an approval with value": lambda action: action["calls"][0].update(value="1"),
}


@pytest.mark.parametrize("case", ALTERED)
def test_altered_action_is_detected(kept, actor, case):
    transfer = deposit(kept)
    with owner(actor, ALTERED[case]) as isthmus, pytest.raises(ActionNotTrusted):
        isthmus.action(meant(transfer), KNOWN)


def test_unaltered_action_is_accepted(kept, actor):
    with owner(actor, lambda action: None) as isthmus:
        assert isthmus.action(meant(deposit(kept)), KNOWN).action is not None


def test_example_of_client_page_runs(kept, actor, evm, monkeypatch, capsys):
    page = (Path(__file__).resolve().parents[3] / "docs" / "client.md").read_text()
    [example] = [
        each
        for each in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        if "submit_evm" in each
    ]
    transfer = deposit(kept)
    with owner(actor) as isthmus:
        shown = isthmus.transfer(transfer)
    monkeypatch.setattr("isthmus_client.Isthmus", lambda url, token: owner(actor))
    quote = Quote.model_construct(
        sell_amount=shown.amount_in,
        buy_amount=shown.amount_out,
        fee=QuoteFee.model_construct(native_details=()),
    )
    world = {
        "url": "https://api.isthmus.test",
        "get_token": None,
        "transfer": shown,
        "quote": quote,
        "payer": PAYER,
        "account": OWNER,
        "send": lambda calls: evm.mine(order_for(transfer)),
    }
    exec(example, world)
    exec(example, world)
    assert capsys.readouterr().out.splitlines() == ["SUBMITTED", "nothing to do: waiting"]


def test_payment_is_verified_signed_and_submitted(kept, actor, accounts, stellar):
    accounts.rules[ME] = make_rules()
    accounts.lines[ME, MAINNET.stellar.usdc] = accounts.lines[OWNER, MAINNET.stellar.usdc]
    stellar.made = drafted(until=int(time.time()) + 1_700)
    transfer = stellar_payment(kept, owner=ME, source_address=ME)
    wanted = Outgoing(
        transfer, "usdc-send", ME, "stellar:pubnet", NOBODY, 100_000_000, least=100_000_000
    )
    with owner(actor, account=ME) as isthmus:
        shown = isthmus.action(wanted, KNOWN)
        assert isinstance(shown.action, StellarTx)
        with pytest.raises(ActionNotTrusted):
            isthmus.action(replace(wanted, amount=100_000_001, least=100_000_001), KNOWN)
        sent = isthmus.submit_stellar(transfer, signed(stellar.made))
        with pytest.raises(Conflict):
            isthmus.submit_stellar(transfer, signed(stellar.made))
    assert (sent.stage, sent.stellar_transaction_id) == ("SUBMITTED", stellar.made.tx)


def test_quote_of_another_amount_is_refused():
    quote = Quote.model_construct(sell_amount=1)
    with pytest.raises(ActionNotTrusted, match="the quote is for 1"):
        Deposit.quoted(
            "5e" * 16,
            quote,
            route="usdc-deposit",
            chain=ETHEREUM,
            payer=PAYER,
            recipient=OWNER,
            amount=Decimal(2),
        )
