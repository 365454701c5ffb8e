"""Transfer state at each stage, in normal and failed runs."""

from dataclasses import replace

import pytest

from indexer.transfers.fold import TransferState, fold_transfer
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
    return replace(evidence, matched=(make_carried(evidence.terms, **changes),))


def delivered(evidence: TransferInputs) -> TransferInputs:
    done = landed(evidence.terms, 40)
    return carried(
        evidence, is_final=True, stage="COMPLETED", why=None, delivered=done, message_id=NONCE
    )


def stages_of(progress: TransferState) -> list[str]:
    return [step.stage for step in progress.timeline]


def owed(evidence: TransferInputs, token: str = USDC) -> int:
    refund = fold_transfer(evidence).refund
    return next(line.owed for line in refund.lines if line.token == token)


# The ways things go.


def test_deposit_address_is_funded_swept_and_delivered():
    swept = signs(pay(NEW, AMOUNT, 15), "sweep", SWEEP)
    done = fold_transfer(delivered(swept))
    assert stages_of(done) == [
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
def test_waiting_stage_has_a_reason(evidence: TransferInputs, stage: str, reason: str | None):
    progress = fold_transfer(evidence)
    assert (progress.stage, progress.reason) == (stage, reason)


def test_withdrawal_shows_its_stellar_transaction_first():
    sent = fold_transfer(submits(TransferInputs(terms=WITHDRAWAL)))
    assert (sent.stellar_tx, sent.external_tx) == (SUBMITTED_TX, None)
    done = fold_transfer(delivered(submits(TransferInputs(terms=WITHDRAWAL))))
    assert (done.stellar_tx, done.external_tx) == (f"e{20:063x}", f"d{40:063x}")


def test_timeline_names_the_clock_of_each_time():
    done = delivered(TransferInputs(terms=WITHDRAWAL))
    landed = done.matched[0].delivered
    earlier = replace(landed, at=done.matched[0].source.at - 7)
    progress = fold_transfer(replace(done, matched=(replace(done.matched[0], delivered=earlier),)))
    source, dest = WITHDRAWAL.source_chain, WITHDRAWAL.dest_chain
    assert [(step.stage, step.clock) for step in progress.timeline] == [
        ("AWAITING_SIGNATURE", "service"),
        ("CONFIRMING", source),
        ("COMPLETED", dest),
    ]
    assert progress.timeline[-1].at < progress.timeline[-2].at


def test_send_needs_one_transaction():
    done = fold_transfer(carried(submits(TransferInputs(terms=SEND))))
    assert stages_of(done) == ["AWAITING_SIGNATURE", "COMPLETED"]
    assert (done.external_tx, done.stellar_tx) == (None, f"e{20:063x}")
    assert done.amount_delivered == AMOUNT


def test_self_finish_is_offered_once_attested():
    assert fold_transfer(carried(NEW)).self_finish is None
    assert fold_transfer(carried(NEW, stage="DELIVERING", message_id=NONCE)).self_finish == NONCE
    assert fold_transfer(delivered(NEW)).self_finish is None


def test_verified_mint_alone_completes_the_transfer():
    alone = replace(delivered(NEW).matched[0], source=None)
    progress = fold_transfer(replace(NEW, matched=(alone,)))
    assert stages_of(progress) == ["AWAITING_FUNDS", "COMPLETED"]


# What waits for the recipient, or for an operator.


def test_missing_trustline_blocks_only_after_finality():
    missing = Obstacle(UnixSeconds(START + 300), "no_trustline", "open a trustline to USDC")
    without = replace(NEW, obstacles=(missing,))
    assert fold_transfer(without).stage == "AWAITING_FUNDS"
    assert fold_transfer(carried(without)).stage == "CONFIRMING"
    waiting = fold_transfer(carried(without, is_final=True))
    assert (waiting.stage, waiting.status, waiting.turn) == (
        *("AWAITING_TRUSTLINE", "pending_trust"),
        "user",
    )
    assert (waiting.reason, waiting.detail) == ("no_trustline", "open a trustline to USDC")
    assert fold_transfer(delivered(without)).stage == "COMPLETED"


def test_permanent_obstacle_holds_until_removed():
    frozen = Obstacle(UnixSeconds(START + 300), "frozen", "the token's issuer froze the address")
    paid = pay(NEW, AMOUNT, 15)
    held = fold_transfer(replace(paid, obstacles=(frozen,)))
    assert (held.stage, held.status, held.turn) == ("ON_HOLD", "on_hold", "operator")
    assert (held.reason, held.detail) == ("held", "the token's issuer froze the address")
    assert fold_transfer(paid).stage == "FUNDED"
    assert fold_transfer(replace(delivered(paid), obstacles=(frozen,))).stage == "COMPLETED"


# Deposits that are not what was agreed.


def test_short_deposit_waits_and_is_refunded_at_expiry():
    short = pay(NEW, AMOUNT - 1, 15)
    assert (fold_transfer(short).stage, fold_transfer(short).reason) == (
        "AWAITING_FUNDS",
        "short_payment",
    )
    assert owed(short) == 0
    assert stages_of(fold_transfer(expired(short))) == ["AWAITING_FUNDS", "REFUNDING"]
    assert owed(expired(short)) == AMOUNT - 1
    back = give_back(expired(short), AMOUNT - 1, LATE)
    assert (fold_transfer(back).stage, fold_transfer(back).refund.txs) == (
        "REFUNDED",
        (f"e{LATE:063x}",),
    )
    assert owed(back) == 0


def test_several_payments_add_up():
    paid = pay(pay(NEW, AMOUNT - 1, 15), 1, 16)
    assert fold_transfer(paid).stage == "FUNDED"
    assert fold_transfer(paid).timeline[1].tx == f"e{16:063x}"


def test_excess_is_refunded_and_quoted_amount_delivered():
    paid = pay(NEW, AMOUNT + LEAST, 15)
    assert (fold_transfer(paid).stage, owed(paid)) == ("FUNDED", LEAST)
    done = delivered(paid)
    assert (fold_transfer(done).stage, owed(done)) == ("COMPLETED", LEAST)
    back = give_back(done, LEAST, LATE)
    assert (fold_transfer(back).stage, owed(back)) == ("COMPLETED", 0)


@pytest.mark.parametrize(("close", "stage"), [(cancelled, "CANCELLED"), (expired, "EXPIRED")])
def test_late_deposit_is_refunded(close, stage: str):
    late = pay(close(NEW), AMOUNT, LATE)
    assert stages_of(fold_transfer(late)) == ["AWAITING_FUNDS", stage, "REFUNDING"]
    assert owed(late) == AMOUNT
    back = give_back(late, AMOUNT, LATE + 1)
    assert fold_transfer(back).stage == "REFUNDED"
    # And so does what is paid after that: it is over, and still owed.
    again = pay(back, AMOUNT, LATE + 2)
    assert (fold_transfer(again).stage, owed(again)) == ("REFUNDED", AMOUNT)


def test_dust_is_refunded_when_enough_or_on_command():
    dust = pay(expired(NEW), LEAST - 1, LATE)
    assert (fold_transfer(dust).stage, fold_transfer(dust).reason) == ("EXPIRED", "below_minimum")
    assert fold_transfer(dust).refund.pending_below_minimum == LEAST - 1
    assert fold_transfer(pay(dust, 1, LATE + 1)).stage == "REFUNDING"
    assert fold_transfer(signs(dust, "refund", TxHash("refund"))).stage == "REFUNDING"


def test_refunded_dust_ends_no_transfer():
    poked = give_back(pay(NEW, 1, 15), 1, 16)
    assert fold_transfer(poked).stage == "AWAITING_FUNDS"
    assert fold_transfer(pay(poked, AMOUNT, 17)).stage == "FUNDED"
    assert fold_transfer(give_back(pay(expired(NEW), 1, LATE), 1, LATE + 1)).stage == "EXPIRED"


def test_wrong_token_funds_nothing_and_is_refunded():
    wrong = pay(NEW, AMOUNT, 15, OTHER_TOKEN)
    assert (fold_transfer(wrong).stage, fold_transfer(wrong).reason) == (
        "AWAITING_FUNDS",
        "wrong_token",
    )
    assert owed(wrong, OTHER_TOKEN) == AMOUNT
    assert fold_transfer(expired(wrong)).stage == "REFUNDING"
    assert fold_transfer(pay(wrong, AMOUNT, 16)).stage == "FUNDED"


def test_payment_after_cancel_is_refunded_in_full():
    assert fold_transfer(pay(cancelled(NEW), AMOUNT, LATE)).stage == "REFUNDING"


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
def test_refund_leaves_funds_that_may_be_delivered(
    evidence: TransferInputs, tokens: tuple[str, ...]
):
    assert fold_transfer(evidence).goes_back == tokens


# What comes after the end, and what chains take back.


@pytest.mark.parametrize("close", [cancelled, expired])
def test_late_burn_is_delivered(close):
    over = close(TransferInputs(terms=DIRECT))
    late = fold_transfer(carried(over, height=LATE))
    assert stages_of(late)[-2:] == [fold_transfer(over).stage, "CONFIRMING"]
    assert fold_transfer(delivered(over)).stage == "COMPLETED"


def rewound(evidence: TransferInputs, tx: str, paid: int | None = None) -> TransferInputs:
    amount = None if paid is None else BaseUnits(paid)
    lost = RewoundSource(TxHash(tx), UnixSeconds(START + 900), amount)
    return replace(evidence, rewound=(*evidence.rewound, lost))


def test_reorged_burn_is_awaited_until_proven_dead():
    lost = rewound(TransferInputs(terms=DIRECT), "0xburn")
    assert (fold_transfer(lost).stage, fold_transfer(lost).reason) == (
        "SUBMITTED",
        "source_reorged",
    )
    assert fold_transfer(lost).external_tx == "0xburn"
    dead = replace(lost, dead=frozenset(["0xburn"]))
    assert fold_transfer(dead).stage == "AWAITING_SIGNATURE"
    assert fold_transfer(expired(lost)).stage == "SUBMITTED"
    assert fold_transfer(expired(dead)).stage == "EXPIRED"


def test_reorged_deposit_is_not_requested_again():
    payment = f"e{15:063x}"
    lost = rewound(NEW, payment, AMOUNT)
    assert (fold_transfer(lost).stage, fold_transfer(lost).reason) == (
        "SUBMITTED",
        "source_reorged",
    )
    assert fold_transfer(pay(lost, AMOUNT, 15)).stage == "FUNDED"
    assert fold_transfer(rewound(NEW, payment, 1)).stage == "AWAITING_FUNDS"


def test_failed_transaction_allows_another_attempt():
    sent = submits(TransferInputs(terms=WITHDRAWAL))
    assert (
        fold_transfer(replace(sent, dead=frozenset([SUBMITTED_TX]))).stage == "AWAITING_SIGNATURE"
    )
    swept = signs(pay(NEW, AMOUNT, 15), "sweep", SWEEP)
    assert fold_transfer(replace(swept, dead=frozenset([SWEEP]))).stage == "FUNDED"


def test_furthest_then_first_burn_is_the_movement():
    first = make_carried(DIRECT, 20)
    second = make_carried(DIRECT, 21)
    both = TransferInputs(terms=DIRECT, matched=(second, first))
    assert (fold_transfer(both).movement, fold_transfer(both).extras) == ("burn 20", ("burn 21",))
    further = replace(second, stage="DELIVERING")
    assert fold_transfer(replace(both, matched=(first, further))).movement == "burn 21"


def test_status_names_the_chain_awaited():
    assert fold_transfer(carried(TransferInputs(terms=DIRECT))).status == "pending_external"
    assert fold_transfer(carried(TransferInputs(terms=WITHDRAWAL))).status == "pending_stellar"
    assert fold_transfer(submits(TransferInputs(terms=SEND))).status == "pending_stellar"
    assert fold_transfer(submits(TransferInputs(terms=SEND))).timeline[-1].chain == PUBNET
