"""What is told of a transfer at each stage, when all goes well and when it does not."""

from dataclasses import replace

import pytest

from indexer.transfers.fold import TransferState, fold
from indexer.transfers.inputs import Obstacle, RewoundSource, TransferInputs
from tests.factories.stage_history import (
    AMOUNT,
    DIRECT,
    EXPIRY,
    LEAST,
    OFT_DEPOSIT,
    OTHER_TOKEN,
    SEND,
    START,
    SUBMITTED_TX,
    USDC,
    WITHDRAWAL,
    give_back,
    landed,
    make_carried,
    make_terms,
    pay,
    signs,
    submits,
)
from tests.factories.transfers import ETHEREUM, NONCE, PUBNET
from warehouse_schema.identifiers import BaseUnits, TxHash, UnixSeconds

NEW = TransferInputs(terms=make_terms())
SWEEP = TxHash(f"e{20:063x}")
LATE = 400
"""A block after `EXPIRY`."""


def cancelled(evidence: TransferInputs, at: int = START + 400) -> TransferInputs:
    return replace(evidence, cancelled_at=UnixSeconds(at))


def expired(evidence: TransferInputs) -> TransferInputs:
    return replace(evidence, expired_at=UnixSeconds(EXPIRY))


def carried(evidence: TransferInputs, **changes) -> TransferInputs:
    return replace(evidence, carried=(make_carried(evidence.terms, **changes),))


def delivered(evidence: TransferInputs) -> TransferInputs:
    done = landed(evidence.terms, 40)
    return carried(
        evidence, is_final=True, stage="COMPLETED", why=None, delivered=done, message_id=NONCE
    )


def told(progress: TransferState) -> list[str]:
    return [step.stage for step in progress.timeline]


def owed(evidence: TransferInputs, token: str = USDC) -> int:
    refund = fold(evidence).refund
    return next(line.owed for line in refund.lines if line.token == token)


# The ways things go.


def test_a_deposit_address_is_paid_swept_attested_and_delivered():
    swept = signs(pay(NEW, AMOUNT, 15), "sweep", SWEEP)
    done = fold(delivered(swept))
    assert told(done) == [
        *("AWAITING_FUNDS", "FUNDED", "SUBMITTED"),
        *("CONFIRMING", "COMPLETED"),
    ]
    assert (done.status, done.turn, done.reason) == ("completed", "nobody", None)
    paid = done.timeline[1]
    assert (paid.at, paid.chain, paid.tx) == (START + 12 * 15, ETHEREUM, f"e{15:063x}")
    assert done.completed_at == done.since == START + 12 * 40
    assert (done.external_tx, done.stellar_tx) == (f"e{20:063x}", f"d{40:063x}")


@pytest.mark.parametrize(
    ("evidence", "stage", "reason"),
    [
        (NEW, "AWAITING_FUNDS", None),
        (pay(NEW, AMOUNT, 15), "FUNDED", None),
        (signs(pay(NEW, AMOUNT, 15), "sweep", SWEEP), "SUBMITTED", "not_included"),
        (carried(pay(NEW, AMOUNT, 15)), "CONFIRMING", "not_final"),
        (carried(pay(NEW, AMOUNT, 15), is_final=True), "ATTESTING", "not_attested"),
        (carried(TransferInputs(terms=OFT_DEPOSIT), is_final=True), "IN_FLIGHT", "not_verified"),
        (carried(NEW, stage="DELIVERING"), "DELIVERING", "not_delivered"),
        (carried(NEW, stage="ON_HOLD"), "ON_HOLD", "held"),
        (cancelled(NEW), "CANCELLED", "cancelled"),
        (expired(NEW), "EXPIRED", "expired"),
        (cancelled(pay(NEW, AMOUNT, 15)), "REFUNDING", "cancelled"),
        (expired(pay(NEW, AMOUNT - 1, 15)), "REFUNDING", "expired"),
        (TransferInputs(terms=DIRECT), "AWAITING_SIGNATURE", None),
        (submits(TransferInputs(terms=DIRECT)), "SUBMITTED", "not_included"),
        (carried(TransferInputs(terms=SEND)), "COMPLETED", None),
    ],
)
def test_a_stage_says_why_it_waits(evidence: TransferInputs, stage: str, reason: str | None):
    progress = fold(evidence)
    assert (progress.stage, progress.reason) == (stage, reason)


def test_a_withdrawal_names_its_stellar_transaction_first():
    sent = fold(submits(TransferInputs(terms=WITHDRAWAL)))
    assert (sent.stellar_tx, sent.external_tx) == (SUBMITTED_TX, None)
    done = fold(delivered(submits(TransferInputs(terms=WITHDRAWAL))))
    assert (done.stellar_tx, done.external_tx) == (f"e{20:063x}", f"d{40:063x}")


def test_timeline_names_the_clock_of_each_time():
    done = delivered(TransferInputs(terms=WITHDRAWAL))
    landed = done.carried[0].delivered
    earlier = replace(landed, at=done.carried[0].source.at - 7)
    progress = fold(replace(done, carried=(replace(done.carried[0], delivered=earlier),)))
    source, dest = WITHDRAWAL.source_chain, WITHDRAWAL.dest_chain
    assert [(step.stage, step.clock) for step in progress.timeline] == [
        ("AWAITING_SIGNATURE", "service"),
        ("CONFIRMING", source),
        ("COMPLETED", dest),
    ]
    assert progress.timeline[-1].at < progress.timeline[-2].at


def test_a_send_is_one_transaction():
    done = fold(carried(submits(TransferInputs(terms=SEND))))
    assert told(done) == ["AWAITING_SIGNATURE", "COMPLETED"]
    assert (done.external_tx, done.stellar_tx) == (None, f"e{20:063x}")
    assert done.amount_delivered == AMOUNT


def test_once_it_is_attested_anybody_may_finish_it():
    assert fold(carried(NEW)).self_finish is None
    assert fold(carried(NEW, stage="DELIVERING", message_id=NONCE)).self_finish == NONCE
    assert fold(delivered(NEW)).self_finish is None


def test_a_verified_mint_alone_completes_it():
    alone = replace(delivered(NEW).carried[0], source=None)
    progress = fold(replace(NEW, carried=(alone,)))
    assert told(progress) == ["AWAITING_FUNDS", "COMPLETED"]


# What waits for the recipient, or for an operator.


def test_a_missing_trustline_is_asked_for_only_once_the_source_is_irreversible():
    missing = Obstacle(UnixSeconds(START + 300), "no_trustline", "open a trustline to USDC")
    without = replace(NEW, obstacles=(missing,))
    assert fold(without).stage == "AWAITING_FUNDS"
    assert fold(carried(without)).stage == "CONFIRMING"
    waiting = fold(carried(without, is_final=True))
    assert (waiting.stage, waiting.status, waiting.turn) == (
        *("AWAITING_TRUSTLINE", "pending_trust"),
        "user",
    )
    assert (waiting.reason, waiting.detail) == ("no_trustline", "open a trustline to USDC")
    assert fold(delivered(without)).stage == "COMPLETED"


def test_what_no_retry_mends_is_on_hold_with_its_reason_and_comes_off_it():
    frozen = Obstacle(UnixSeconds(START + 300), "frozen", "the token's issuer froze the address")
    paid = pay(NEW, AMOUNT, 15)
    held = fold(replace(paid, obstacles=(frozen,)))
    assert (held.stage, held.status, held.turn) == ("ON_HOLD", "on_hold", "operator")
    assert (held.reason, held.detail) == ("held", "the token's issuer froze the address")
    assert fold(paid).stage == "FUNDED"
    assert fold(replace(delivered(paid), obstacles=(frozen,))).stage == "COMPLETED"


# Deposits that are not what was agreed.


def test_a_short_deposit_waits_and_goes_back_when_time_is_over():
    short = pay(NEW, AMOUNT - 1, 15)
    assert (fold(short).stage, fold(short).reason) == ("AWAITING_FUNDS", "short_payment")
    assert owed(short) == 0
    assert told(fold(expired(short))) == ["AWAITING_FUNDS", "REFUNDING"]
    assert owed(expired(short)) == AMOUNT - 1
    back = give_back(expired(short), AMOUNT - 1, LATE)
    assert (fold(back).stage, fold(back).refund.txs) == ("REFUNDED", (f"e{LATE:063x}",))
    assert owed(back) == 0


def test_several_payments_add_up():
    paid = pay(pay(NEW, AMOUNT - 1, 15), 1, 16)
    assert fold(paid).stage == "FUNDED"
    assert fold(paid).timeline[1].tx == f"e{16:063x}"


def test_an_excess_goes_back_and_the_quoted_amount_goes_on():
    paid = pay(NEW, AMOUNT + LEAST, 15)
    assert (fold(paid).stage, owed(paid)) == ("FUNDED", LEAST)
    done = delivered(paid)
    assert (fold(done).stage, owed(done)) == ("COMPLETED", LEAST)
    back = give_back(done, LEAST, LATE)
    assert (fold(back).stage, owed(back)) == ("COMPLETED", 0)


@pytest.mark.parametrize(("close", "stage"), [(cancelled, "CANCELLED"), (expired, "EXPIRED")])
def test_a_late_deposit_goes_back(close, stage: str):
    late = pay(close(NEW), AMOUNT, LATE)
    assert told(fold(late)) == ["AWAITING_FUNDS", stage, "REFUNDING"]
    assert owed(late) == AMOUNT
    back = give_back(late, AMOUNT, LATE + 1)
    assert fold(back).stage == "REFUNDED"
    # And so does what is paid after that: it is over, and still owed.
    again = pay(back, AMOUNT, LATE + 2)
    assert (fold(again).stage, owed(again)) == ("REFUNDED", AMOUNT)


def test_dust_is_shown_and_goes_back_when_there_is_more_of_it_or_on_command():
    dust = pay(expired(NEW), LEAST - 1, LATE)
    assert (fold(dust).stage, fold(dust).reason) == ("EXPIRED", "below_minimum")
    assert fold(dust).refund.pending_below_minimum == LEAST - 1
    assert fold(pay(dust, 1, LATE + 1)).stage == "REFUNDING"
    assert fold(signs(dust, "refund", TxHash("refund"))).stage == "REFUNDING"


def test_dust_that_somebody_has_sent_back_ends_nothing():
    poked = give_back(pay(NEW, 1, 15), 1, 16)
    assert fold(poked).stage == "AWAITING_FUNDS"
    assert fold(pay(poked, AMOUNT, 17)).stage == "FUNDED"
    assert fold(give_back(pay(expired(NEW), 1, LATE), 1, LATE + 1)).stage == "EXPIRED"


def test_another_token_funds_nothing_and_goes_back():
    wrong = pay(NEW, AMOUNT, 15, OTHER_TOKEN)
    assert (fold(wrong).stage, fold(wrong).reason) == ("AWAITING_FUNDS", "wrong_token")
    assert owed(wrong, OTHER_TOKEN) == AMOUNT
    assert fold(expired(wrong)).stage == "REFUNDING"
    assert fold(pay(wrong, AMOUNT, 16)).stage == "FUNDED"


def test_cancelled_then_paid_is_sent_back_even_if_it_is_enough():
    assert fold(pay(cancelled(NEW), AMOUNT, LATE)).stage == "REFUNDING"


PAID = pay(NEW, AMOUNT + LEAST, 15)
SWEPT = signs(PAID, "sweep", SWEEP)


@pytest.mark.parametrize(
    ("evidence", "tokens"),
    [
        (NEW, ()),
        (pay(NEW, AMOUNT - 1, 15), ()),
        # A refund would take the deposit with it.
        (PAID, ()),
        (SWEPT, ()),
        (carried(SWEPT), ()),
        (delivered(SWEPT), (USDC,)),
        (give_back(delivered(SWEPT), LEAST, LATE), ()),
        (cancelled(PAID), (USDC,)),
        (cancelled(SWEPT), ()),
        (cancelled(replace(SWEPT, dead=frozenset([SWEEP]))), (USDC,)),
        (expired(pay(NEW, AMOUNT - 1, 15)), (USDC,)),
        (expired(pay(NEW, LEAST - 1, 15)), ()),
        (pay(NEW, LEAST, 15, OTHER_TOKEN), (OTHER_TOKEN,)),
        (pay(PAID, LEAST, 15, OTHER_TOKEN), (OTHER_TOKEN,)),
        (pay(pay(expired(NEW), AMOUNT, LATE), LEAST, LATE, OTHER_TOKEN), (USDC, OTHER_TOKEN)),
    ],
)
def test_what_goes_back_takes_nothing_with_it_that_may_yet_be_carried_on(
    evidence: TransferInputs, tokens: tuple[str, ...]
):
    assert fold(evidence).goes_back == tokens


# What comes after the end, and what chains take back.


@pytest.mark.parametrize("close", [cancelled, expired])
def test_a_burn_that_comes_late_is_delivered(close):
    over = close(TransferInputs(terms=DIRECT))
    late = fold(carried(over, height=LATE))
    assert told(late)[-2:] == [fold(over).stage, "CONFIRMING"]
    assert fold(delivered(over)).stage == "COMPLETED"


def taken_back(evidence: TransferInputs, tx: str, paid: int | None = None) -> TransferInputs:
    amount = None if paid is None else BaseUnits(paid)
    lost = RewoundSource(TxHash(tx), UnixSeconds(START + 900), amount)
    return replace(evidence, taken_back=(*evidence.taken_back, lost))


def test_a_burn_that_was_taken_back_is_waited_for_until_it_is_proven_dead():
    lost = taken_back(TransferInputs(terms=DIRECT), "0xburn")
    assert (fold(lost).stage, fold(lost).reason) == ("SUBMITTED", "source_reorged")
    assert fold(lost).external_tx == "0xburn"
    dead = replace(lost, dead=frozenset(["0xburn"]))
    assert fold(dead).stage == "AWAITING_SIGNATURE"
    assert fold(expired(lost)).stage == "SUBMITTED"
    assert fold(expired(dead)).stage == "EXPIRED"


def test_a_deposit_that_was_taken_back_is_not_asked_for_again():
    payment = f"e{15:063x}"
    lost = taken_back(NEW, payment, AMOUNT)
    assert (fold(lost).stage, fold(lost).reason) == ("SUBMITTED", "source_reorged")
    assert fold(pay(lost, AMOUNT, 15)).stage == "FUNDED"
    assert fold(taken_back(NEW, payment, 1)).stage == "AWAITING_FUNDS"


def test_a_transaction_that_failed_gives_way_to_another_try():
    sent = submits(TransferInputs(terms=WITHDRAWAL))
    assert fold(replace(sent, dead=frozenset([SUBMITTED_TX]))).stage == "AWAITING_SIGNATURE"
    swept = signs(pay(NEW, AMOUNT, 15), "sweep", SWEEP)
    assert fold(replace(swept, dead=frozenset([SWEEP]))).stage == "FUNDED"


def test_the_first_burn_carries_it_and_others_are_further_deliveries():
    first = make_carried(DIRECT, 20)
    second = make_carried(DIRECT, 21)
    both = TransferInputs(terms=DIRECT, carried=(second, first))
    assert (fold(both).movement, fold(both).extras) == ("burn 20", ("burn 21",))
    further = replace(second, stage="DELIVERING")
    assert fold(replace(both, carried=(first, further))).movement == "burn 21"


def test_the_chain_it_waits_for_is_the_one_the_status_names():
    assert fold(carried(TransferInputs(terms=DIRECT))).status == "pending_external"
    assert fold(carried(TransferInputs(terms=WITHDRAWAL))).status == "pending_stellar"
    assert fold(submits(TransferInputs(terms=SEND))).status == "pending_stellar"
    assert fold(submits(TransferInputs(terms=SEND))).timeline[-1].chain == PUBNET
