"""Submissions are sent unchanged in fee bumps, once, and get an outcome."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import func, insert, select, update
from stellar_sdk import Asset, Keypair, TransactionEnvelope
from stellar_sdk.operation import ChangeTrust, Payment
from stellar_sdk.utils import from_xdr_amount, to_xdr_amount

from devnet.stellar.accounts import ROOT, USDC, USDC_ISSUER, keypair
from devnet.stellar.accounts import address as resident
from indexer.chains.stellar.account_state import AccountFunds, StellarAccountNodes
from indexer.errors import NodeUnavailable
from indexer.policy.paid_failures import MAX_PAID_FAILURES
from indexer.policy.relay_accounts import AccountProblem
from indexer.transfers.fold import fold_transfer
from indexer.transfers.inputs import TransferTerms
from indexer.transfers.load import load_transfers
from relay import status
from relay.account import TurnReport
from relay.jobs.submission_queue import oldest_waiting, waiting_submissions
from relay.jobs.submissions import MIN_COST, REPLACE_SECONDS, Submitter
from relay.keys import LocalStellarKey
from relay.leases import account_session
from relay.limits import SpendLimits
from relay.nonces import AccountId
from relay.status import AccountHealth, set_health
from tests.factories.intake import ask
from tests.factories.relay import signed as sign
from tests.factories.stage_history import make_terms
from tests.factories.transfers import NETWORK
from tests.relay.bomb import Bomb, Killed, stellar_nodes
from tests.relay.ledger import LIMITS, STELLAR, LedgerStand
from warehouse_schema import intake
from warehouse_schema.identifiers import StellarAddress, Stroops
from warehouse_schema.relay import attempts, slots

UNIT = 10**7
LONG = timedelta(days=50)
EVER = datetime.min.replace(tzinfo=UTC)


@dataclass
class Signed:
    """An accepted payment of one XLM."""

    transfer: str
    envelope: TransactionEnvelope
    owner: Keypair

    @property
    def tx(self) -> str:
        return self.envelope.hash_hex()


@pytest.fixture
def stand(ledger_stand: LedgerStand) -> LedgerStand:
    return ledger_stand


def accepted(
    stand: LedgerStand,
    seconds: int = 600,
    owner: Keypair | None = None,
    operation: Payment | None = None,
    **changes: Any,
) -> Signed:
    number = next(stand.numbers)
    owner = owner or stand.chain.open(f"owner {number}")
    bounds = (0, stand.chain.now + seconds)
    payment = Payment(resident("admin"), Asset.native(), "1")
    envelope = stand.chain.envelope(owner, [operation or payment], time_bounds=bounds)
    terms = stellar_terms(f"{number % 2**64:032x}", owner.public_key)
    found = Signed(terms.id, envelope, owner)
    issued = {"transfer": terms.id, "number": 1, "kind": "stellar_tx", "issued": {}}
    row = {"transfer": terms.id, "tx_hash": found.tx, "log": 0, "kind": "stellar_tx"}
    with stand.engine.begin() as conn:
        ask(conn, terms)
        conn.execute(insert(intake.actions).values(issued | {"tx_hash": found.tx} | changes))
        raw = envelope.to_xdr_object().to_xdr_bytes()
        conn.execute(insert(intake.submissions).values(row | {"signed": raw}))
    return found


def stellar_terms(transfer: str, owner: str) -> TransferTerms:
    return replace(
        make_terms(),
        id=transfer,
        owner=StellarAddress(owner),
        source_chain=STELLAR.id,
        mechanism="payment",
        deposit_address=None,
    )


def submitter(
    stand: LedgerStand,
    nodes: type[StellarAccountNodes] = StellarAccountNodes,
    limits: SpendLimits = LIMITS,
    clock: Callable[[], float] = time.monotonic,
) -> Submitter:
    stand.opened.append(nodes(STELLAR, [stand.url], timeout=30.0))
    payer = stand.chain.account(keypair("payer of owners").public_key)
    if payer is None:
        stand.chain.open("payer of owners")
    key = LocalStellarKey(keypair("payer of owners"))
    return Submitter(STELLAR, stand.opened[-1], key, limits, clock)


def turns(stand: LedgerStand, sender: Submitter) -> TurnReport:
    with account_session(stand.relay_engine, sender.account) as conn:
        return sender.turn(conn)


def spent(stand: LedgerStand, signed: Signed) -> int:
    """Balance and sequence number of the owner, who pays no fee."""
    account = stand.chain.account(signed.owner.public_key)
    assert account is not None
    return 1000 * UNIT - account.balance


def health_of(stand: LedgerStand, sender: Submitter) -> Any:
    with stand.engine.connect() as conn:
        return status.health_of(conn, sender.account)


def outcomes(stand: LedgerStand, signed: Signed) -> list[str | None]:
    with stand.engine.connect() as conn:
        return list(conn.scalars(select(slots.c.outcome).where(slots.c.key == signed.tx)))


def test_submission_is_sent_unchanged_in_fee_bump(stand: LedgerStand):
    signed, sender = accepted(stand), submitter(stand)
    assert turns(stand, sender) == TurnReport(opened=1, sent=1)
    assert turns(stand, sender) == TurnReport()
    stand.close()
    assert spent(stand, signed) == UNIT
    assert turns(stand, sender) == TurnReport(confirmed=1)
    assert outcomes(stand, signed) == ["confirmed"]
    assert turns(stand, sender) == TurnReport()
    with stand.engine.connect() as conn:
        [loaded] = load_transfers(conn, replace(NETWORK, stellar=STELLAR), [signed.transfer])
    assert loaded.inputs.dead == set(), "nobody is asked to pay again for what was paid"


def test_transaction_sent_by_owner_closes_without_cost(stand: LedgerStand):
    signed = accepted(stand)
    stand.chain.node.submit(signed.envelope.to_xdr_object())
    stand.close()
    sender = submitter(stand)
    assert turns(stand, sender).confirmed == 1
    with stand.engine.connect() as conn:
        assert conn.scalar(select(slots.c.spent).where(slots.c.key == signed.tx)) == 0


def test_number_used_otherwise_expires_with_bounds(stand: LedgerStand):
    signed, sender = accepted(stand), submitter(stand, Lost)
    turns(stand, sender)
    account = stand.chain.account(signed.owner.public_key)
    rest = Payment(resident(ROOT), Asset.native(), from_xdr_amount(account.spendable - 100))
    sequence = account.sequence
    drain = stand.chain.envelope(signed.owner, [rest], sequence=sequence + 1)
    assert drain.hash_hex() != signed.tx
    # It uses the same number, so the submission can never be taken.
    stand.chain.node.submit(drain.to_xdr_object())
    stand.close()
    assert turns(stand, sender) == TurnReport(), "its own bounds say when it is over"
    stand.age_attempts(int(REPLACE_SECONDS) + 1)
    assert turns(stand, sender).replaced == 0, "no bid has a ledger take it"
    stand.close(601)
    assert turns(stand, sender) == TurnReport(failed=1)
    assert outcomes(stand, signed) == ["expired"]


class Lost(StellarAccountNodes):
    """Nodes that lose transactions."""

    def send(self, raw: bytes) -> str:
        return "PENDING"


def test_payment_that_would_fail_is_not_paid_for(stand: LedgerStand):
    signed, sender = accepted(stand), submitter(stand, clock=lambda: 0.0)
    drain(stand, signed)
    turn = turns(stand, sender)
    assert (turn.opened, turn.refused) == (
        *(0, [f"submit {signed.tx}: the payer has too little XLM above its minimum balance"]),
    )
    assert stage_and_reason(stand, signed) == ("SUBMITTED", "would_fail")
    assert turns(stand, sender) == TurnReport(), "it is looked at again after a pause"
    stand.chain.run(keypair(ROOT), Payment(signed.owner.public_key, Asset.native(), "5"))
    sender = submitter(stand)
    assert turns(stand, sender).opened == 1
    assert stage_and_reason(stand, signed) == ("SUBMITTED", "not_included")
    stand.close()
    assert turns(stand, sender).confirmed == 1


@pytest.mark.parametrize(
    ("balance", "trusts", "problem"),
    [
        ("9", True, "the payer can spend 90000000 stroops of the asset, 100000000 are needed"),
        ("10", False, "the recipient has no trustline for the asset"),
        ("10", True, None),
    ],
    ids=["short", "no trustline", "enough"],
)
def test_asset_payment_is_checked_before_fee_is_paid(
    stand: LedgerStand, balance: str, trusts: bool, problem: str | None
):
    owner, recipient = (
        stand.chain.open(f"{who} {next(stand.numbers)}") for who in ("payer", "paid")
    )
    stand.chain.run(owner, ChangeTrust(USDC))
    stand.chain.pay(keypair(USDC_ISSUER), owner.public_key, to_xdr_amount(balance))
    if trusts:
        stand.chain.run(recipient, ChangeTrust(USDC))
    signed = accepted(stand, owner=owner, operation=Payment(recipient.public_key, USDC, "10"))
    refused = [] if problem is None else [f"submit {signed.tx}: {problem}"]
    assert turns(stand, submitter(stand)).refused == refused


def test_failed_transaction_is_in_timeline_and_reason(stand: LedgerStand):
    signed, sender = accepted(stand), submitter(stand, Lost)
    assert turns(stand, sender).opened == 1
    # Between the preflight and the ledger.
    drain(stand, signed)
    stand.age_attempts(15)
    assert turns(stand, submitter(stand)).sent == 1
    stand.close()
    assert turns(stand, submitter(stand)).failed == 1
    with stand.engine.connect() as conn:
        [loaded] = load_transfers(conn, replace(NETWORK, stellar=STELLAR), [signed.transfer])
    progress = fold_transfer(loaded.inputs)
    steps = [(step.stage, step.tx) for step in progress.timeline]
    assert steps == [
        ("AWAITING_SIGNATURE", None),
        ("SUBMITTED", signed.tx),
        ("AWAITING_SIGNATURE", signed.tx),
    ]
    assert progress.reason == "transaction_failed"
    assert progress.detail == f"transaction {signed.tx} was included and failed"


def test_owner_with_too_many_failures_waits_for_next_day(stand: LedgerStand):
    signed, sender = accepted(stand), submitter(stand)
    failed = {"outcome": "reverted", "spent": 100, "closed_at": func.now()}
    with stand.engine.begin() as conn:
        for number in range(MAX_PAID_FAILURES):
            tx = f"{number:064x}"
            sign(conn, STELLAR.id, "submit", signed.transfer, tx, key=tx, **failed)
    [refused] = turns(stand, sender).refused
    assert "10 transactions failed today" in refused
    assert stage_and_reason(stand, signed) == ("SUBMITTED", "would_fail")
    with stand.engine.begin() as conn:
        conn.execute(update(slots).values(closed_at=slots.c.closed_at - timedelta(days=1)))
    assert turns(stand, submitter(stand)).opened == 1


def drain(stand: LedgerStand, signed: Signed) -> None:
    """Spend the owner's balance without using its number."""
    account = stand.chain.account(signed.owner.public_key)
    assert account is not None
    rest = Payment(
        resident(ROOT), Asset.native(), from_xdr_amount(account.spendable), signed.owner.public_key
    )
    helper = stand.chain.open(f"helper {next(stand.numbers)}")
    envelope = stand.chain.envelope(helper, [rest])
    envelope.sign(signed.owner)
    stand.chain.node.submit(envelope.to_xdr_object())
    stand.close()


def stage_and_reason(stand: LedgerStand, signed: Signed) -> tuple[str, str | None]:
    """Stage and reason of its transfer."""
    with stand.engine.connect() as conn:
        [loaded] = load_transfers(conn, replace(NETWORK, stellar=STELLAR), [signed.transfer])
    progress = fold_transfer(loaded.inputs)
    return progress.stage, progress.reason


def test_submissions_report_their_own_budget(stand: LedgerStand):
    sender = submitter(stand)
    turns(stand, sender)
    row = health_of(stand, sender)
    assert (row.duty, row.well, row.spent_today, row.open) == ("submit", True, 0, 0)
    accepted(stand)
    turns(stand, sender)
    reserved = health_of(stand, sender)
    assert (reserved.spent_today, reserved.open) == (MIN_COST, 1)
    stand.close()
    turns(stand, sender)
    charged = health_of(stand, sender)
    assert 0 < charged.spent_today < reserved.spent_today
    assert (charged.well, charged.open) == (True, 0)


def test_submissions_without_budget_are_unhealthy(stand: LedgerStand):
    budget = Stroops(2 * MIN_COST - 1)
    sender = submitter(stand, limits=replace(LIMITS, budget=budget))
    for _ in range(2):
        accepted(stand)
    turn = turns(stand, sender)
    assert (turn.opened, turn.unaffordable) == (1, 1)
    row = health_of(stand, sender)
    reason = f"the day's budget of {budget} stroops for submissions is used up"
    assert (row.problem, row.reason) == ("budget", reason)


@pytest.mark.parametrize("problem", ["balance", "halted", "unrecorded", "node", "budget"])
def test_submissions_report_what_their_payer_cannot(stand: LedgerStand, problem: AccountProblem):
    """Its budget alone is of other transactions."""
    sender = submitter(stand)
    payer = AccountId(STELLAR.id, keypair("payer of owners").public_key)
    with stand.engine.begin() as conn:
        set_health(
            conn,
            payer,
            AccountHealth(
                duty="deliver",
                reason=f"{problem} of the payer",
                balance=Stroops(7),
                spent_today=Stroops(0),
                open=0,
                budget=LIMITS.budget,
                floor=LIMITS.floor,
                problem=problem,
            ),
        )
    turns(stand, sender)
    row = health_of(stand, sender)
    assert row.balance == 7
    expected = (None, None) if problem == "budget" else (problem, f"{problem} of the payer")
    assert (row.problem, row.reason) == expected


def test_submissions_without_a_node_are_unhealthy(stand: LedgerStand):
    sender = submitter(stand)
    with account_session(stand.relay_engine, sender.account) as conn:
        sender.report_unhealthy(conn, NodeUnavailable("no answer"))
    row = health_of(stand, sender)
    assert (row.problem, row.reason) == ("node", "no answer")


def test_submission_past_bounds_expires(stand: LedgerStand):
    sender = submitter(stand, Lost)
    signed = accepted(stand, seconds=60)
    turns(stand, sender)
    stand.close(60)
    assert turns(stand, sender) == TurnReport(), "the last ledger may take it"
    stand.close(1)
    assert turns(stand, sender) == TurnReport(failed=1)
    assert outcomes(stand, signed) == ["expired"]
    with stand.engine.connect() as conn:
        [loaded] = load_transfers(conn, replace(NETWORK, stellar=STELLAR), [signed.transfer])
        bumps = set(conn.scalars(select(attempts.c.tx_hash)))
    assert loaded.inputs.dead == {signed.tx} | bumps


def test_waiting_submission_is_replaced_and_taken_once(stand: LedgerStand):
    signed = accepted(stand)
    turns(stand, submitter(stand, Lost))
    stand.age_attempts(61)
    sender = submitter(stand)
    assert turns(stand, sender) == TurnReport(replaced=1, sent=1)
    stand.close()
    assert turns(stand, sender) == TurnReport(confirmed=1)
    assert spent(stand, signed) == UNIT


def test_transaction_not_issued_by_service_is_not_sent(stand: LedgerStand):
    signed = accepted(stand, tx_hash="f" * 64)
    assert turns(stand, submitter(stand)) == TurnReport()
    assert outcomes(stand, signed) == []


def test_expired_submission_gets_an_outcome(stand: LedgerStand):
    sender = submitter(stand, limits=replace(LIMITS, budget=Stroops(1)))
    signed = accepted(stand, seconds=60)
    assert "over the day's budget" in turns(stand, sender).refused[0]
    stand.close(61)
    assert turns(stand, sender) == TurnReport(opened=1, failed=1)
    assert outcomes(stand, signed) == ["expired"]


def test_many_submissions_delay_only_their_owner(stand: LedgerStand):
    owner = stand.chain.open("who submits much")
    # Different time bounds give different hashes; all have one number.
    own = [accepted(stand, 600 + number, owner).tx for number in range(60)]
    other = accepted(stand).tx
    with stand.engine.connect() as conn:
        waiting = [each.tx for each in waiting_submissions(conn, STELLAR.id, EVER)]
    assert waiting == [own[0], other, *own[1:3]]


def test_refused_submissions_do_not_block_later_ones(stand: LedgerStand):
    first = accepted(stand)
    submit_of_many_owners(stand, first, 60)
    later = accepted(stand)
    open_slot(stand, first.transfer, first.tx)
    seen: set[str] = set()
    with stand.engine.connect() as conn:
        for _ in range(100):
            waiting = {each.tx for each in waiting_submissions(conn, STELLAR.id, EVER)}
            assert (len(waiting), first.tx in waiting) == (51, True)
            seen |= waiting
    assert later.tx in seen


def submit_of_many_owners(stand: LedgerStand, like: Signed, number: int) -> dict[str, str]:
    """Submissions of one owner each; transfers by hash."""
    made: dict[str, str] = {}
    raw = like.envelope.to_xdr_object().to_xdr_bytes()
    with stand.engine.begin() as conn:
        for each in range(number):
            terms = stellar_terms(f"{2**120 + each:032x}", Keypair.random().public_key)
            tx = f"{each:064x}"
            issued = {"transfer": terms.id, "number": 1, "kind": "stellar_tx", "issued": {}}
            ask(conn, terms)
            conn.execute(insert(intake.actions).values(issued | {"tx_hash": tx}))
            kept = {"transfer": terms.id, "tx_hash": tx, "signed": raw}
            conn.execute(insert(intake.submissions).values(kept | {"kind": "stellar_tx", "log": 0}))
            made[tx] = terms.id
    return made


def open_slot(stand: LedgerStand, transfer: str, tx: str) -> None:
    slot = {"purpose": "submit", "key": tx, "subject": transfer}
    place = {"chain": STELLAR.id, "account": tx, "number": 1}
    with stand.engine.begin() as conn:
        conn.execute(insert(slots).values(place | slot))


def test_open_submissions_of_many_owners_leave_room_for_others(stand: LedgerStand):
    """Submissions whose numbers are used, open until their time bounds end."""
    first = accepted(stand)
    stuck = submit_of_many_owners(stand, first, 60)
    for tx, transfer in stuck.items():
        open_slot(stand, transfer, tx)
    with stand.engine.connect() as conn:
        waiting = {each.tx for each in waiting_submissions(conn, STELLAR.id, EVER)}
    assert waiting == {first.tx, *stuck}


def test_closed_submissions_are_skipped_and_open_ones_never(stand: LedgerStand):
    done, sender = accepted(stand), submitter(stand)
    turns(stand, sender)
    stand.close()
    assert turns(stand, sender).confirmed == 1
    waits = accepted(stand)
    # Both are old: one is closed and one is open.
    with stand.engine.begin() as conn:
        columns = intake.submissions.c
        conn.execute(update(intake.submissions).values(submitted_at=columns.submitted_at - LONG))
    with stand.relay_engine.connect() as conn:
        since = oldest_waiting(conn, STELLAR.id, None)
        assert [each.tx for each in waiting_submissions(conn, STELLAR.id, since)] == [waits.tx]
        assert oldest_waiting(conn, STELLAR.id, since) == since, "it stays where that waits"
    turns(stand, sender := submitter(stand))
    stand.close()
    assert turns(stand, sender).confirmed == 1
    with stand.relay_engine.connect() as conn:
        assert oldest_waiting(conn, STELLAR.id, since) > since + LONG - timedelta(hours=2)
    assert outcomes(stand, done) == outcomes(stand, waits) == ["confirmed"]


def test_submission_after_closed_ones_is_sent_by_same_process(stand: LedgerStand):
    sender = submitter(stand)
    for _ in range(3):
        signed = accepted(stand)
        turns(stand, sender)
        stand.close()
        assert turns(stand, sender).confirmed == 1
        assert outcomes(stand, signed) == ["confirmed"]


class Choosy(StellarAccountNodes):
    """Nodes that reject one transaction with an unknown error."""

    unwanted = b""

    def send(self, raw: bytes) -> str:
        if self.unwanted and self.unwanted in raw:
            raise NodeUnavailable("invalid parameters")
        return super().send(raw)


def test_submission_that_nodes_reject_delays_no_other(stand: LedgerStand):
    first, second = accepted(stand), accepted(stand)

    class Refusing(Choosy):
        unwanted = first.owner.raw_public_key()

    sender = submitter(stand, Refusing)
    with pytest.raises(NodeUnavailable):
        turns(stand, sender)
    turns(stand, sender)
    stand.close()
    assert (spent(stand, first), spent(stand, second)) == (0, UNIT)


def test_failed_simulation_of_one_submission_delays_no_other(stand: LedgerStand):
    # The first one is open already, and closes in this turn.
    over = accepted(stand)
    turns(stand, submitter(stand))
    stand.close()
    untried, second = accepted(stand), accepted(stand)

    class Unreadable(StellarAccountNodes):
        def funds(self, account: StellarAddress) -> AccountFunds | None:
            if account == untried.owner.public_key:
                raise NodeUnavailable("no such entry")
            return super().funds(account)

    with pytest.raises(NodeUnavailable, match="no such entry"):
        turns(stand, submitter(stand, Unreadable))
    stand.close()
    assert outcomes(stand, over) == ["confirmed"]
    assert (spent(stand, untried), spent(stand, second)) == (0, UNIT)


def test_kill_at_any_point_submits_once(stand: LedgerStand):
    def live(bomb: Bomb) -> None:
        sender = submitter(stand, stellar_nodes(bomb))
        with account_session(stand.relay_engine, sender.account) as conn:
            bomb.watch(conn)
            sender.turn(conn)
            stand.close()
            sender.turn(conn)

    accepted(stand)
    straight = Bomb()
    live(straight)
    assert {"before a commit", "after a sending"} <= {*straight.passed}
    for at, name in enumerate(straight.passed):
        signed = accepted(stand)
        with pytest.raises(Killed, match=name):
            live(Bomb(at))
        stand.age_attempts(15)
        live(Bomb())
        assert (spent(stand, signed), outcomes(stand, signed)) == (UNIT, ["confirmed"]), (
            f"{at}: {name}"
        )
