"""`GET …/actions`: actions shown, stored issues, and reasons for no action."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, func, insert, select, update

from api.actions.sources import LimitedEvmSource, LimitedStellarSource
from indexer.actions.evm_calls import evm_calls
from indexer.actions.mint_check import MintRefusal
from indexer.actions.stellar_orders import BurnOnStellar, Pay, operation_of
from indexer.actions.stellar_tx import draft
from indexer.chains.http.operators import SourcesDisagree
from indexer.errors import CallReverted, ConfigurationError, NodeUnavailable
from tests.factories.acting import (
    BURN_QUOTE,
    ask_action,
    deposit,
    order_for,
    stellar_payment,
    stellar_withdrawal,
    submit,
)
from tests.factories.actions import MAINNET, OWNER, PAYER, make_agreed
from tests.factories.projections import LEDGER
from tests.factories.quotes import OTHER
from tests.factories.stage_facts import keep, make_unproven, paid
from tests.factories.started import NOBODY, cancel, make_transfer_app
from warehouse_schema.intake import actions, transfers

USDC = MAINNET.stellar.usdc


def stored(kept: Connection, transfer: str) -> list:
    query = select(actions).where(actions.c.transfer == transfer).order_by(actions.c.number)
    return list(kept.execute(query))


def calls_of(transfer: str, mechanism: str, allowance: Any) -> list[dict[str, str]]:
    agreed = make_agreed(mechanism=mechanism, id=transfer)
    return [
        {"to": call.to, "data": f"0x{call.data.hex()}", "value": str(call.value)}
        for call in evm_calls(MAINNET, agreed, allowance)
    ]


@pytest.mark.parametrize("mechanism", ["cctp", "oft"])
@pytest.mark.parametrize("allowance", [0, 7, None])
def test_deposit_shows_calls_of_payer(kept, actor, evm, mechanism, allowance):
    evm.allowed = allowance
    transfer = deposit(kept, mechanism)
    answer = ask_action(actor, transfer)
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    calls = calls_of(transfer, mechanism, allowance)
    action = {"kind": "evm_calls", "chainId": 1, "calls": calls}
    assert answer.json == {"action": action, "reason": None, "needs_trustline": None}
    [row] = stored(kept, transfer)
    assert (row.number, row.kind, row.tx_hash, row.issued) == (1, "evm_calls", None, action)
    [requests] = evm.requests
    assert requests[0] == "allowance"
    assert requests[-2:] == (order_token(mechanism), PAYER)


def order_token(mechanism: str) -> str:
    return str(make_agreed(mechanism=mechanism).source_token)


def test_shown_action_is_stored_once(kept, actor, evm):
    transfer = deposit(kept)
    first = ask_action(actor, transfer).json
    assert ask_action(actor, transfer).json == first
    evm.allowed = 20_000_000
    second = ask_action(actor, transfer).json
    assert len(second["action"]["calls"]) == 1
    evm.allowed = 0
    assert ask_action(actor, transfer).json == first
    assert [row.issued for row in stored(kept, transfer)] == [first["action"], second["action"]]


@pytest.mark.parametrize("has_trustline", [True, False])
def test_deposit_address_shows_amount_to_pay(kept, actor, evm, accounts, has_trustline):
    if not has_trustline:
        accounts.lines.pop((OWNER, USDC))
    transfer = deposit(kept, funding_mode="deposit_address")
    at = {"deposit_address": "0x" + "dd" * 20, "deposit_operator": PAYER}
    kept.execute(update(transfers).where(transfers.c.id == transfer).values(at))
    assert ask_action(actor, transfer).json["action"] == {
        "kind": "send_to_address",
        "chain": "eip155:1",
        "asset": BURN_QUOTE["source_asset"],
        "address": "0x" + "dd" * 20,
        "amount": "20000000",
    }
    assert evm.requests == []


def test_deposit_in_unproven_block_shows_no_action(kept, actor):
    address = "0x" + "dd" * 20
    transfer = deposit(kept, funding_mode="deposit_address")
    at = {"deposit_address": address, "deposit_operator": PAYER}
    kept.execute(update(transfers).where(transfers.c.id == transfer).values(at))
    payment = paid(PAYER, address, 20_000_000, 100)
    make_unproven(kept, payment.seen)
    keep(kept, payment)
    assert nothing(ask_action(actor, transfer)) == "waiting"


def nothing(answer) -> str:
    assert answer.status_code == 200
    assert answer.json["action"] is None
    return answer.json["reason"]


def test_deposit_without_trustline_shows_calls(kept, actor, accounts):
    transfer = deposit(kept)
    accounts.lines.pop((OWNER, USDC))
    assert ask_action(actor, transfer).json["action"]["kind"] == "evm_calls"


def test_deposit_to_unusable_trustline_shows_no_calls(kept, actor, accounts, evm):
    transfer = deposit(kept)
    line = accounts.lines[OWNER, USDC]
    for there, reason in (
        (replace(line, is_authorized=False), "not_authorized"),
        (replace(line, room=199_999_999), "no_room"),
    ):
        accounts.lines[OWNER, USDC] = there
        assert nothing(ask_action(actor, transfer)) == reason
    accounts.lines[OWNER, USDC] = replace(line, room=200_000_000)
    assert ask_action(actor, transfer).json["action"] is not None
    assert len(stored(kept, transfer)) == len(evm.requests) == 1


def test_expired_transfer_shows_no_action(kept, actor):
    transfer = deposit(kept)
    kept.execute(update(transfers).where(transfers.c.id == transfer).values(expires_at=func.now()))
    assert nothing(ask_action(actor, transfer)) == "expired"


def test_finished_transfer_shows_no_action(kept, actor, evm):
    over, sent = deposit(kept), deposit(kept)
    assert cancel(actor, over, OWNER).status_code == 200
    assert nothing(ask_action(actor, over)) == "over"
    ask_action(actor, sent)
    assert submit(actor, sent, evm.mine(order_for(sent))).status_code == 200
    assert nothing(ask_action(actor, sent)) == "waiting"


def drafted(sequence=7):
    """A payment of 10 USDC, unsigned."""
    order = Pay(MAINNET.stellar.usdc, NOBODY, 100_000_000)
    operations = [operation_of(order, OWNER)]
    return draft(MAINNET.stellar.passphrase, OWNER, sequence, 1_800_001_800, operations)


def test_payment_shows_transaction_of_owner(kept, actor, stellar):
    transfer, stellar.made = stellar_payment(kept), drafted()
    action = {
        "kind": "stellar_tx",
        "xdr": stellar.made.envelope,
        "network_passphrase": "Public Global Stellar Network ; September 2015",
    }
    assert ask_action(actor, transfer).json == {
        "action": action,
        "reason": None,
        "needs_trustline": None,
    }
    [row] = stored(kept, transfer)
    assert (row.kind, row.tx_hash, row.issued) == ("stellar_tx", stellar.made.tx, action)
    [(order, owner, expires_at, ingested, issued)] = stellar.requests
    assert order == Pay(MAINNET.stellar.usdc, NOBODY, 100_000_000)
    expiry = select(transfers.c.expires_at).where(transfers.c.id == transfer)
    assert (owner, expires_at) == (OWNER, int(kept.scalar(expiry).timestamp()))
    assert (ingested, issued) == (LEDGER, ())


def test_issued_stellar_txs_decide_the_next(kept, actor, stellar):
    transfer, stellar.made = stellar_payment(kept), drafted()
    first = ask_action(actor, transfer).json
    assert ask_action(actor, transfer).json == first
    stellar.made = drafted(8)
    assert ask_action(actor, transfer).json != first
    ask_action(actor, transfer)
    assert [[each.sequence for each in requests[-1]] for requests in stellar.requests] == [
        [],
        [7],
        [7],
        [7, 8],
    ]
    assert [row.number for row in stored(kept, transfer)] == [1, 2]


def test_equal_transfers_share_no_transaction(kept, actor, stellar):
    first, second, stellar.made = stellar_payment(kept), stellar_payment(kept), drafted()
    assert ask_action(actor, first).json["action"] is not None
    assert nothing(ask_action(actor, second)) == "waiting"
    assert stored(kept, second) == []
    stellar.made = drafted(8)
    assert ask_action(actor, second).json["action"] is not None


def test_withdrawal_shows_burn_with_transfer_id(kept, actor, stellar, accounts):
    own = (OWNER, MAINNET.stellar.usdc)
    accounts.lines = {own: accounts.lines[own]}
    transfer, stellar.made = stellar_withdrawal(kept), drafted()
    assert ask_action(actor, transfer).json["action"]["kind"] == "stellar_tx"
    [(order, *_)] = stellar.requests
    assert isinstance(order, BurnOnStellar)
    assert (order.hook_data.hex(), order.amount, order.max_fee) == (transfer, 200_000_000, 100_000)


def test_unpayable_recipient_shows_no_action(kept, actor, stellar, accounts):
    transfer, stellar.made = stellar_payment(kept), drafted()
    line = accounts.lines.pop((NOBODY, USDC))
    assert nothing(ask_action(actor, transfer)) == "no_trustline"
    accounts.lines[NOBODY, USDC] = replace(line, room=99_999_999)
    assert nothing(ask_action(actor, transfer)) == "no_room"
    assert stellar.requests == stored(kept, transfer) == []


@pytest.mark.parametrize("make", [stellar_payment, stellar_withdrawal])
def test_payer_without_funds_shows_no_action(kept, actor, accounts, stellar, make):
    transfer, key = make(kept), (OWNER, MAINNET.stellar.usdc)
    amount = 100_000_000 if make is stellar_payment else 200_000_000
    stellar.made, line = drafted(), accounts.lines[key]
    for changes in ({"spendable": amount - 1}, {"is_authorized": False}):
        accounts.lines[key] = replace(line, **changes)
        assert nothing(ask_action(actor, transfer)) == "would_fail"
    accounts.lines[key] = replace(line, spendable=amount)
    assert ask_action(actor, transfer).json["action"] is not None


@pytest.mark.parametrize(
    ("kind", "reason"), [("frozen", "recipient_refused"), ("paused", "paused")]
)
def test_refused_mint_shows_no_action(kept, actor, evm, stellar, kind, reason):
    transfer, stellar.made = stellar_withdrawal(kept), drafted()
    evm.refusals[PAYER] = MintRefusal(kind, "not now")
    assert nothing(ask_action(actor, transfer)) == reason
    evm.refusals.clear()
    assert ask_action(actor, transfer).json["action"]["kind"] == "stellar_tx"


def test_deposit_is_not_shown_while_cctp_is_paused_on_stellar(kept, actor, stellar):
    transfer = deposit(kept)
    stellar.pause = MintRefusal("paused", "not now")
    assert nothing(ask_action(actor, transfer)) == "paused"
    stellar.pause = None
    assert ask_action(actor, transfer).json["action"]["kind"] == "evm_calls"


def test_failing_or_sent_transaction_is_not_shown(kept, actor, stellar):
    transfer = stellar_payment(kept)
    assert nothing(ask_action(actor, transfer)) == "waiting"
    stellar.made = CallReverted("Error(Contract, #10)")
    assert nothing(ask_action(actor, transfer)) == "would_fail"
    assert stored(kept, transfer) == []


def test_unavailable_ledger_returns_503(kept, reader: Engine, stellar, accounts):
    transfer, stellar.made = stellar_payment(kept), NodeUnavailable("slow")

    def code(**others) -> str:
        app = make_transfer_app(reader, network=MAINNET, accounts=accounts, **others)
        answer = ask_action(app.test_client(), transfer)
        assert answer.status_code == 503
        return answer.json["code"]

    assert code(stellar=LimitedStellarSource(stellar)) == "LEDGER_UNAVAILABLE"
    assert code(stellar=LimitedStellarSource(stellar, max_waiting=0)) == "LEDGER_UNAVAILABLE"
    assert code() == "LEDGER_UNAVAILABLE"
    stellar.made = drafted()
    app = make_transfer_app(
        reader, network=MAINNET, accounts=accounts, stellar=LimitedStellarSource(stellar)
    )
    assert ask_action(app.test_client(), transfer).json["action"] is not None


def test_cancel_during_chain_read_shows_no_action(kept, actor, evm):
    transfer = deposit(kept)
    evm.meanwhile = lambda: cancel(actor, transfer, OWNER)
    assert nothing(ask_action(actor, transfer)) == "over"
    assert stored(kept, transfer) == []


@pytest.mark.parametrize("of", ["another's", "nobody's", "no id"])
def test_action_of_another_owner_returns_404(kept, actor, of):
    transfer = {"another's": deposit(kept), "nobody's": "5e" * 16, "no id": "x"}[of]
    account = OTHER if of == "another's" else OWNER
    for answer in (
        ask_action(actor, transfer, account),
        submit(actor, transfer, account=account),
    ):
        assert (answer.status_code, answer.json["code"]) == (404, "TRANSFER_NOT_FOUND")


FAILURES = [NodeUnavailable("slow"), SourcesDisagree("two"), ConfigurationError("too few")]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda each: type(each).__name__)
def test_unreadable_chain_returns_503(kept, reader, evm, accounts, failure):
    app = make_transfer_app(reader, network=MAINNET, evm=LimitedEvmSource(evm), accounts=accounts)
    transfer, client = deposit(kept), app.test_client()
    ask_action(client, transfer)
    evm.failure = failure
    for answer in (ask_action(client, transfer), submit(client, transfer)):
        assert (answer.status_code, answer.json["code"]) == (503, "CHAIN_UNAVAILABLE")
        assert str(failure) not in answer.json["message"]


def test_waiting_threads_per_chain_are_limited(kept, reader: Engine, evm, accounts):
    none = LimitedEvmSource(evm, max_waiting=0)
    client = make_transfer_app(reader, network=MAINNET, evm=none, accounts=accounts).test_client()
    answer = ask_action(client, deposit(kept))
    assert (answer.status_code, answer.json["code"]) == (503, "CHAIN_UNAVAILABLE")
    assert evm.requests == []


def test_process_without_chains_returns_503(kept, reader: Engine, accounts):
    transfer = deposit(kept)
    blind = make_transfer_app(reader, network=MAINNET).test_client()
    assert ask_action(blind, transfer).json["code"] == "LEDGER_UNAVAILABLE"
    half = make_transfer_app(reader, network=MAINNET, accounts=accounts).test_client()
    assert ask_action(half, transfer).json["code"] == "CHAIN_UNAVAILABLE"


def test_action_of_unknown_transfer_returns_404(kept):
    row = {"transfer": "5e" * 16, "number": 1, "kind": "evm_calls", "issued": {}}
    with pytest.raises(Exception, match="fk_actions_transfer"):
        kept.execute(insert(actions).values(row))
