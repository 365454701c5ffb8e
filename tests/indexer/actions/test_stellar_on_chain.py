"""Owners' Stellar transactions: simulated, signed, checked and applied by a ledger."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from stellar_sdk import Asset, Keypair, TransactionBuilder, TransactionEnvelope, xdr

from devnet.stellar.accounts import PASSPHRASE, USDC, USDT0
from devnet.stellar.contracts.oft import NATIVE_FEE
from indexer.actions.onboarding import OnboardingTerms, onboarding_tx, parse_onboarding
from indexer.actions.stellar_check import SignedTx, check_signed
from indexer.actions.stellar_orders import (
    Approve,
    BurnOnStellar,
    SendOnStellar,
    stellar_order,
)
from indexer.actions.stellar_tx import IssuedTransaction, SpentSequence, next_sequence, parse_issue
from indexer.chain_state.stellar import StellarState
from indexer.config.networks import load_network
from indexer.errors import CallReverted
from tests.devnet.stellar.chain import UNIT, Chain, codes, events, serving, value, why
from tests.factories.actions import make_withdrawal
from warehouse_schema.identifiers import Height, StellarAddress, UnixSeconds

NETWORK = load_network("devnet")


@dataclass(frozen=True)
class Stand:
    """A ledger, and the service's way to it."""

    chain: Chain
    state: StellarState

    def issue(self, agreed: Any) -> IssuedTransaction:
        """What the owner is shown next."""
        owner = agreed.owner
        account = self.state.account(owner)
        sequence = next_sequence(
            SpentSequence(account.sequence, account.sequence_ledger), account.ledger, []
        )
        assert sequence is not None
        step = self.state.step(stellar_order(NETWORK, agreed), owner, account.ledger)
        return self.state.issue(step, owner, sequence, agreed.expires_at)

    def submit(self, issued: IssuedTransaction, signer: Keypair, agreed: Any) -> Any:
        """What the owner sends back, checked and sent on with a fee bump."""
        envelope = read(issued.envelope)
        envelope.sign(signer)
        rules = self.state.account(agreed.owner).rules
        now = self.chain.now
        verdict = check_signed(PASSPHRASE, [issued], rules, envelope.to_xdr(), now)
        assert isinstance(verdict, SignedTx), verdict
        return self.relay(verdict.envelope)

    def relay(self, signed: bytes) -> Any:
        inner = read(xdr.TransactionEnvelope.from_xdr_bytes(signed).to_xdr())
        payer = self.chain.open("payer")
        bump = TransactionBuilder.build_fee_bump_transaction(payer, 200, inner, PASSPHRASE)
        bump.sign(payer)
        submission = self.chain.node.submit(bump.to_xdr_object())
        assert submission.status == "PENDING", submission
        self.chain.node.close_ledger()
        row = self.chain.node.transaction(submission.hash)
        assert row.inner_hash == inner.hash_hex()
        return row


def read(text: str) -> TransactionEnvelope:
    envelope = TransactionBuilder.from_xdr(text, PASSPHRASE)
    assert isinstance(envelope, TransactionEnvelope)
    return envelope


@pytest.fixture
def stand() -> Iterator[Stand]:
    chain = Chain()
    with serving(chain) as url:
        state = StellarState(NETWORK.stellar, [url])
        yield Stand(chain, state)
        state.close()


@pytest.fixture
def alice(stand: Stand) -> Keypair:
    return stand.chain.open("alice", usdc=30 * UNIT, usdt0=30 * UNIT)


def agreed_of(stand: Stand, owner: Keypair, **changes: Any) -> Any:
    expires = {"expires_at": stand.chain.now + 1_800}
    return make_withdrawal(NETWORK, owner=owner.public_key, **(expires | changes))


def test_withdrawal_is_approved_then_burned_with_its_id(stand, alice):
    agreed = agreed_of(stand, alice)
    order = stellar_order(NETWORK, agreed)
    assert isinstance(order, BurnOnStellar)
    head = stand.state.account(alice.public_key)
    assert isinstance(stand.state.step(order, alice.public_key, head.ledger), Approve)
    approved = stand.submit(stand.issue(agreed), alice, agreed)
    assert approved.succeeded, why(approved)
    assert stand.state.step(order, alice.public_key, head.ledger) == order
    burned = stand.submit(stand.issue(agreed), alice, agreed)
    assert burned.succeeded, why(burned)
    assert stand.chain.balance(alice.public_key) == 10 * UNIT
    [(_, topics, burn_event)] = [
        each for each in events(burned) if each[1][0] == "deposit_for_burn"
    ]
    assert topics[2] == alice.public_key
    assert burn_event["amount"] == 20_000_000
    assert burn_event["hook_data"].hex() == agreed.id
    assert burn_event["destination_caller"] == bytes(32)
    assert burn_event["mint_recipient"].hex() == agreed.dest_address[2:].rjust(64, "0")
    assert burn_event["max_fee"] == 10_000


def test_oft_send_is_signed_once_and_arrives_in_full(stand, alice):
    agreed = agreed_of(stand, alice, mechanism="oft")
    order = stellar_order(NETWORK, agreed)
    assert isinstance(order, SendOnStellar)
    oft = stand.state.quote_oft(order.oft, order.eid, order.to, order.amount)
    assert (oft.min_amount, oft.sent, oft.received) == (0, order.amount, order.amount)
    assert stand.state.quote_send(order) == NATIVE_FEE
    sent = stand.submit(stand.issue(agreed), alice, agreed)
    assert sent.succeeded, why(sent)
    receipt, moved = value(sent)
    assert moved == {"amount_received_ld": 20 * UNIT, "amount_sent_ld": 20 * UNIT}
    assert receipt["nonce"] == 1
    assert stand.chain.balance(alice.public_key, USDT0) == 10 * UNIT


def test_payment_moves_the_whole_amount(stand, alice):
    bob = stand.chain.open("bob", usdc=0)
    agreed = agreed_of(stand, alice, mechanism="payment", dest_address=bob.public_key)
    row = stand.submit(stand.issue(agreed), alice, agreed)
    assert codes(row)[2:] == ("PAYMENT_SUCCESS",)
    assert stand.chain.balance(bob.public_key) == 20 * UNIT


def test_reverted_call_is_not_issued(stand):
    poor = stand.chain.open("poor", usdt0=UNIT)
    agreed = agreed_of(stand, poor, mechanism="oft")
    with pytest.raises(CallReverted, match="Contract, #10"):
        stand.issue(agreed)


def following(
    stand: Stand, agreed: Any, *shown: IssuedTransaction, ingested: int | None = None
) -> Any:
    """What the owner of these issues is shown next."""
    owner, expires = agreed.owner, agreed.expires_at
    height = Height(stand.chain.node.latest.sequence if ingested is None else ingested)
    issues = [parse_issue(PASSPHRASE, each.envelope) for each in shown]
    return stand.state.following(stellar_order(NETWORK, agreed), owner, expires, height, issues)


def test_issued_transaction_is_reused_until_number_is_used(stand, alice):
    agreed = agreed_of(stand, alice)
    approval = following(stand, agreed)
    stand.chain.node.close_ledger()
    # A later ledger would make it another transaction.
    assert following(stand, agreed, approval) == approval != following(stand, agreed)
    assert stand.submit(approval, alice, agreed).succeeded
    # Nobody knows yet what its number was spent for.
    assert following(stand, agreed, approval, ingested=1) is None
    burn = following(stand, agreed, approval)
    [first, second] = [parse_issue(PASSPHRASE, each.envelope) for each in (approval, burn)]
    assert second.sequence == first.sequence + 1
    assert first.step_id != second.step_id
    assert following(stand, agreed, approval, burn) == burn
    assert stand.submit(burn, alice, agreed).succeeded


def test_burn_follows_approval_while_node_is_ahead(stand, alice):
    """The node closes ledgers and pays the owner faster than anything is ingested."""
    agreed = agreed_of(stand, alice)
    approval = following(stand, agreed)
    assert stand.submit(approval, alice, agreed).succeeded
    spent_at, payer = stand.chain.node.latest.sequence, stand.chain.open("another payer")
    for _ in range(3):
        stand.chain.pay(payer, alice.public_key, UNIT, Asset.native())
        assert following(stand, agreed, approval, ingested=spent_at - 1) is None
        burn = following(stand, agreed, approval, ingested=spent_at)
        assert burn.tx != approval.tx
    assert stand.chain.node.latest.sequence > spent_at + 2


def test_missing_account_raises(stand):
    agreed = agreed_of(stand, Keypair.random())
    with pytest.raises(CallReverted, match="no account"):
        following(stand, agreed)


def test_sponsored_owner_gets_account_and_trustline(stand):
    sponsor, new = stand.chain.open("sponsor"), Keypair.random()
    owner, by = StellarAddress(new.public_key), StellarAddress(sponsor.public_key)
    sequence = stand.state.account(by).sequence + 1
    first, last = UnixSeconds(stand.chain.now), UnixSeconds(stand.chain.now + 600)
    made = OnboardingTerms(by, sequence, True, first, last)
    issued = onboarding_tx(PASSPHRASE, owner, NETWORK.stellar.usdc, made)
    assert parse_onboarding(PASSPHRASE, issued) == made
    envelope = read(issued.envelope)
    envelope.sign(new)
    envelope.sign(sponsor)
    submission = stand.chain.node.submit(envelope.to_xdr_object())
    stand.chain.node.close_ledger()
    assert stand.chain.node.transaction(submission.hash).succeeded
    assert stand.chain.account(owner).balance == 0
    assert stand.chain.trustline(owner, USDC).sponsor == sponsor.public_key
    assert stand.state.account(owner).rules.account == owner
