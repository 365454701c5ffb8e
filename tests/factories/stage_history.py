"""Lives of transfers, row by row: whatever a client, the relay, a chain or the clock may add next.

Who writes a row looks first, as the real writers do: nobody cancels what may not be cancelled. What
chains do asks nobody.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from indexer.movements.fold import MovementStage as MovementStage
from indexer.transfers import state_machine
from indexer.transfers.fold import fold_transfer
from indexer.transfers.inputs import (
    NO_TRUSTLINE,
    ChainPosition,
    DeliveryReceipt,
    MatchedMovement,
    Obstacle,
    Payment,
    Purpose,
    RewoundSource,
    SentTransaction,
    TransferInputs,
    TransferTerms,
)
from tests.factories.transfers import ACCOUNT, ETHEREUM, NONCE, PUBNET, USER
from warehouse_schema.identifiers import (
    Address,
    BaseUnits,
    EvmAddress,
    StellarAddress,
    TxHash,
    UnixSeconds,
)

START = 1_700_000_000
EXPIRY = START + 1_800
AMOUNT = 5_000_000
LEAST = 100_000
USDC = Address("0x" + "05" * 20)
OTHER_TOKEN = Address("0x" + "07" * 20)
DEPOSIT = EvmAddress("0x" + "dd" * 20)
SUBMITTED_TX = TxHash("0x" + "51" * 32)


def make_terms(**changes: Any) -> TransferTerms:
    """A USDC deposit from Ethereum through a deposit address, unless told otherwise."""
    terms = TransferTerms(
        id="a1" * 16,
        owner=StellarAddress(ACCOUNT),
        mechanism="cctp",
        source_chain=ETHEREUM,
        source_address=Address(USER),
        source_token=USDC,
        dest_chain=PUBNET,
        dest_address=Address(ACCOUNT),
        amount_in=BaseUnits(AMOUNT),
        min_refund=BaseUnits(LEAST),
        deposit_address=DEPOSIT,
        started_at=UnixSeconds(START),
        expires_at=UnixSeconds(EXPIRY),
    )
    return replace(terms, **changes)


DIRECT = make_terms(deposit_address=None)
OFT_DEPOSIT = make_terms(mechanism="oft")
WITHDRAWAL = make_terms(
    source_chain=PUBNET,
    source_address=ACCOUNT,
    dest_chain=ETHEREUM,
    dest_address=USER,
    deposit_address=None,
)
OFT_WITHDRAWAL = replace(WITHDRAWAL, mechanism="oft")
SEND = make_terms(
    mechanism="payment",
    source_chain=PUBNET,
    source_address=ACCOUNT,
    dest_address=ACCOUNT,
    deposit_address=None,
)
KINDS = {
    "deposit address": make_terms(),
    "direct deposit": DIRECT,
    "OFT deposit address": OFT_DEPOSIT,
    "withdrawal": WITHDRAWAL,
    "OFT withdrawal": OFT_WITHDRAWAL,
    "send": SEND,
}


def place(terms: TransferTerms, height: int) -> ChainPosition:
    """In that block of the source chain; its transaction is named by the height."""
    at = UnixSeconds(START + 12 * height)
    return ChainPosition(height, 0, terms.source_chain, TxHash(f"e{height:063x}"), at)


def landed(terms: TransferTerms, height: int) -> DeliveryReceipt:
    """Delivered in that block of the destination chain."""
    return DeliveryReceipt(
        terms.dest_chain, TxHash(f"d{height:063x}"), UnixSeconds(START + 12 * height)
    )


def pay(
    evidence: TransferInputs, amount: int, height: int, token: Address = USDC
) -> TransferInputs:
    """The deposit address is paid in a block."""
    payment = Payment(place(evidence.terms, height), token, BaseUnits(amount))
    return replace(evidence, paid=(*evidence.paid, payment))


def give_back(
    evidence: TransferInputs, amount: int, height: int, token: Address = USDC
) -> TransferInputs:
    """The deposit address pays back in a block."""
    payment = Payment(place(evidence.terms, height), token, BaseUnits(amount))
    return replace(evidence, returned=(*evidence.returned, payment))


def signs(evidence: TransferInputs, purpose: Purpose, tx: TxHash) -> TransferInputs:
    """The relay signs a transaction."""
    at = UnixSeconds(START + 60 * len(evidence.attempts))
    return replace(evidence, attempts=(*evidence.attempts, SentTransaction(at, tx, purpose)))


def submits(evidence: TransferInputs, tx: TxHash = SUBMITTED_TX) -> TransferInputs:
    """A submission is accepted."""
    sent = SentTransaction(UnixSeconds(START + 30), tx, "submit")
    return replace(evidence, submissions=(*evidence.submissions, sent))


def make_carried(terms: TransferTerms, height: int = 20, **changes: Any) -> MatchedMovement:
    """A burn or send just seen, or a payment."""
    source = place(terms, height)
    if terms.mechanism == "payment":
        there = DeliveryReceipt(source.chain, source.tx, source.at)
        return MatchedMovement(
            source.tx, source, True, "COMPLETED", None, None, there, terms.amount_in, None
        )
    waits: MovementStage = "ATTESTING" if terms.mechanism == "cctp" else "IN_FLIGHT"
    burn = MatchedMovement(
        f"burn {height}", source, False, waits, "it waits", None, None, None, None
    )
    return replace(burn, **changes)


def further(terms: TransferTerms, carried: MatchedMovement) -> Iterator[MatchedMovement]:
    """What may become of a movement next."""
    if carried.stage in ("ATTESTING", "IN_FLIGHT"):
        ready_at = UnixSeconds(START + 500)
        yield replace(carried, stage="DELIVERING", ready_at=ready_at, message_id=NONCE)
    if not carried.is_final and carried.source is not None:
        yield replace(carried, is_final=True)
    if carried.stage != "COMPLETED":
        done = landed(terms, 40)
        yield replace(carried, stage="COMPLETED", delivered=done, amount_out=BaseUnits(49_990_000))
    if carried.stage == "DELIVERING":
        yield replace(carried, stage="ON_HOLD", why="minted and not paid on")


def ever(terms: TransferTerms, height: int = 20) -> Iterator[MatchedMovement]:
    """Every state in which a movement may be when it is first seen."""
    found = [make_carried(terms, height)]
    for each in found:
        found += [more for more in further(terms, each) if more not in found]
    yield from found
    if terms.mechanism != "payment":
        delivered = next(each for each in found if each.stage == "COMPLETED")
        yield replace(delivered, source=None, is_final=False)
        yield replace(delivered, source=None, is_final=False, stage="ON_HOLD", delivered=None)


def awaited(evidence: TransferInputs) -> set[TxHash]:
    """Transactions that may be proven dead: sent or taken back, and not seen."""
    seen = {each.place.tx for each in (*evidence.paid, *evidence.returned)}
    seen |= {each.source.tx for each in evidence.matched if each.source}
    sent = {each.tx for each in (*evidence.submissions, *evidence.attempts)}
    return (sent | {each.tx for each in evidence.rewound}) - seen - evidence.dead


def held(evidence: TransferInputs, token: Address = USDC) -> int:
    """What the deposit address holds of a token."""
    paid = sum(each.amount for each in evidence.paid if each.token == token)
    gone = sum(each.amount for each in evidence.returned if each.token == token)
    return paid - gone - (AMOUNT * len(evidence.matched) if token == USDC else 0)


def top(evidence: TransferInputs) -> int:
    """The highest block of the source chain that holds something of the transfer."""
    places = [each.place.height for each in (*evidence.paid, *evidence.returned)]
    places += [each.source.height for each in evidence.matched if each.source]
    return max(places, default=10)


@dataclass(frozen=True)
class Options:
    """What may be paid, and how often."""

    payments: int = 2
    amounts: Sequence[int] = (LEAST - 1, AMOUNT - 1, AMOUNT, AMOUNT + LEAST)
    tokens: Sequence[Address] = (USDC,)
    movements: int = 1


Move = Callable[[TransferInputs, state_machine.Stage, Options], Iterator[TransferInputs]]


def _client(
    evidence: TransferInputs, stage: state_machine.Stage, _: Options
) -> Iterator[TransferInputs]:
    if state_machine.may_cancel(stage):
        yield replace(evidence, cancelled_at=UnixSeconds(START + 400))
    may_submit = state_machine.TABLE[stage].leads_to.get("user", ())
    if "SUBMITTED" in may_submit and not evidence.submissions:
        yield submits(evidence)


def _clock(
    evidence: TransferInputs, stage: state_machine.Stage, _: Options
) -> Iterator[TransferInputs]:
    if state_machine.may_expire(stage):
        yield replace(evidence, expired_at=UnixSeconds(EXPIRY))


def _relay(
    evidence: TransferInputs, stage: state_machine.Stage, _: Options
) -> Iterator[TransferInputs]:
    purposes = [each.purpose for each in evidence.attempts]
    if stage == "FUNDED" and "sweep" not in purposes:
        yield signs(evidence, "sweep", TxHash("sweep"))
    is_ordered = stage in ("CANCELLED", "EXPIRED") and held(evidence) > 0
    if (stage == "REFUNDING" or is_ordered) and "refund" not in purposes:
        yield signs(evidence, "refund", TxHash("refund"))
    for tx in sorted(awaited(evidence)):
        yield replace(evidence, dead=evidence.dead | {tx})


def _obstacles(
    evidence: TransferInputs, _: state_machine.Stage, __: Options
) -> Iterator[TransferInputs]:
    for kind in (NO_TRUSTLINE, "frozen"):
        standing = [each for each in evidence.obstacles if each.kind == kind]
        if standing:
            left = tuple(each for each in evidence.obstacles if each.kind != kind)
            yield replace(evidence, obstacles=left)
        else:
            found = Obstacle(UnixSeconds(START + 300), kind, "somebody says so")
            yield replace(evidence, obstacles=(*evidence.obstacles, found))


def _payments(
    evidence: TransferInputs, _: state_machine.Stage, options: Options
) -> Iterator[TransferInputs]:
    if evidence.terms.deposit_address is None:
        return
    if len(evidence.paid) < options.payments:
        # Blocks go on after the transfer was closed.
        height = top(evidence) + (1 if evidence.closed_at is None else 200)
        for token in options.tokens:
            for amount in options.amounts:
                yield pay(evidence, amount, height, token)
    for token in options.tokens:
        if held(evidence, token) > 0:
            yield give_back(evidence, held(evidence, token), top(evidence) + 1, token)


def _movements(
    evidence: TransferInputs, _: state_machine.Stage, options: Options
) -> Iterator[TransferInputs]:
    terms, carried = evidence.terms, evidence.matched
    # Also where no payment was seen: its chain may not have been read so far.
    if len(carried) < options.movements:
        for each in ever(terms, top(evidence) + 1):
            yield replace(evidence, matched=(*carried, each))
    for number, each in enumerate(carried):
        for more in further(terms, each):
            yield replace(evidence, matched=(*carried[:number], more, *carried[number + 1 :]))


MOVES: tuple[Move, ...] = (_client, _clock, _relay, _obstacles, _payments, _movements)


def additions(evidence: TransferInputs, options: Options) -> Iterator[TransferInputs]:
    """Everything that may be known next: one row more each."""
    stage = fold_transfer(evidence).stage
    for move in MOVES:
        yield from move(evidence, stage, options)


def _paid(payment: Payment) -> BaseUnits:
    return payment.amount if payment.token == USDC else BaseUnits(0)


def reorganisations(evidence: TransferInputs) -> Iterator[TransferInputs]:
    """The source chain takes back its last block that is not final and holds something of it."""
    last = top(evidence)
    finals = [each.source.height for each in evidence.matched if each.source and each.is_final]
    if any(height >= last for height in finals):
        return
    paid = tuple(each for each in evidence.paid if each.place.height < last)
    lost: list[RewoundSource] = [
        RewoundSource(each.place.tx, UnixSeconds(START + 900), _paid(each))
        for each in evidence.paid
        if each.place.height >= last
    ]
    carried = tuple(
        each for each in evidence.matched if each.source is None or each.source.height < last
    )
    lost += [
        RewoundSource(each.source.tx, UnixSeconds(START + 900), None)
        for each in evidence.matched
        if each not in carried
    ]
    returned = tuple(each for each in evidence.returned if each.place.height < last)
    if lost or returned != evidence.returned:
        yield replace(
            evidence,
            paid=paid,
            returned=returned,
            matched=carried,
            rewound=(*evidence.rewound, *lost),
        )
