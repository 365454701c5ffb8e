"""Issued Stellar transactions parsed back: number, hash and step."""

import pytest

from indexer.actions.stellar_orders import Approve, operation_of, stellar_order
from indexer.actions.stellar_tx import draft, parse_issue, step_id
from tests.factories.actions import MAINNET, OWNER, make_withdrawal
from warehouse_schema.identifiers import BaseUnits, Height

PASSPHRASE = MAINNET.stellar.passphrase
BURN = stellar_order(MAINNET, make_withdrawal())
SEND = stellar_order(MAINNET, make_withdrawal(mechanism="oft"))
PAY = stellar_order(MAINNET, make_withdrawal(mechanism="payment", dest_address=OWNER))
APPROVE = Approve(BURN.token, BURN.messenger, BURN.amount, Height(100))


@pytest.mark.parametrize("step", [BURN, SEND, PAY, APPROVE], ids=lambda each: type(each).__name__)
def test_parsed_issue_has_number_hash_and_step(step):
    drafted = draft(PASSPHRASE, OWNER, 7, 1_800_000_000, [operation_of(step, OWNER)])
    issue = parse_issue(PASSPHRASE, drafted.envelope)
    assert issue.issued == drafted
    assert issue.sequence == 7
    assert issue.step_id == step_id(step, OWNER)


def test_step_ids_differ_but_ignore_approval_expiry():
    longer = Approve(BURN.token, BURN.messenger, BaseUnits(BURN.amount), Height(200))
    assert step_id(longer, OWNER) == step_id(APPROVE, OWNER)
    assert len({step_id(step, OWNER) for step in (BURN, SEND, PAY, APPROVE)}) == 4
