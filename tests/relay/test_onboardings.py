"""Sponsored trustlines: signed after their owners, within budgets."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, func, insert, select, update
from sqlalchemy.exc import OperationalError
from stellar_sdk import Asset, Keypair, TransactionEnvelope
from stellar_sdk.operation import ChangeTrust, CreateAccount, Payment, SetOptions
from stellar_sdk.utils import from_xdr_amount

from devnet.stellar.accounts import ROOT, USDC, keypair
from indexer.actions.onboarding import (
    BASE_RESERVE,
    FEE_BID,
    MAX_COST,
    OnboardingTerms,
    onboarding_tx,
)
from indexer.chains.stellar.account_state import StellarAccountNodes
from relay.account import TurnReport
from relay.failures import current_halt
from relay.jobs.onboardings import HOLD_SECONDS, SponsorBounds, SponsorRelay, SponsorSender
from relay.keys import LocalStellarKey
from relay.leases import account_session, lock_sponsoring
from relay.limits import SpendLimits
from relay.nonces import AccountId
from relay.senders.stellar import RESEND_SECONDS
from relay.settings import SPONSOR_BOUNDS
from relay.slots import spent_today as spent_on_slots
from tests.factories.intake import ask
from tests.factories.stage_history import make_terms
from tests.relay.bomb import Bomb, Killed, stellar_nodes
from tests.relay.ledger import LIMITS, STELLAR, LedgerStand
from warehouse_schema import intake, locks
from warehouse_schema.identifiers import (
    Address,
    BaseUnits,
    ChainId,
    StellarAddress,
    Stroops,
    UnixSeconds,
)
from warehouse_schema.projections import transfer_states
from warehouse_schema.relay import health, slots, sponsors

ASSET = STELLAR.usdc
PAYER = Address("0x" + "5e" * 20)


@dataclass
class Deposit:
    """A paid deposit of an owner without a trustline."""

    stand: LedgerStand
    owner: Keypair
    transfer: str

    def sign(self, by: SponsorRelay, number: int | None = None, **changes: Any) -> str:
        """Sign the next transaction as the api issues and accepts it; returns its hash."""
        chain, sponsor = self.stand.chain, StellarAddress(by.account.address)
        made = OnboardingTerms(
            sponsor=sponsor,
            sequence=next_number(self.stand, by) if number is None else number,
            creates_account=chain.account(self.owner.public_key) is None,
            first=UnixSeconds(chain.now - 60),
            last=UnixSeconds(chain.now + 300),
        )
        made = replace(made, **changes)
        owner = StellarAddress(self.owner.public_key)
        issued = onboarding_tx(STELLAR.passphrase, owner, ASSET, made)
        envelope = TransactionEnvelope.from_xdr(issued.envelope, STELLAR.passphrase)
        envelope.sign(self.owner)
        self.consent(envelope, made)
        return issued.tx

    def consent(self, envelope: TransactionEnvelope, made: OnboardingTerms) -> None:
        row = {
            "tx_hash": envelope.hash_hex(),
            "transfer": self.transfer,
            "sponsor": made.sponsor,
            "number": made.sequence,
            "signed": envelope.to_xdr_object().to_xdr_bytes(),
        }
        with self.stand.engine.begin() as conn:
            conn.execute(insert(intake.consents).values(row))

    def outcomes(self) -> list[str | None]:
        query = select(slots.c.outcome).where(slots.c.subject == self.transfer)
        with self.stand.engine.connect() as conn:
            return list(conn.scalars(query.order_by(slots.c.number)))

    @property
    def line(self) -> Any:
        return self.stand.chain.trustline(self.owner.public_key, USDC)


def next_number(stand: LedgerStand, by: SponsorRelay) -> int:
    account = stand.chain.account(by.account.address)
    assert account is not None
    return account.sequence + 1


@pytest.fixture
def stand(ledger_stand: LedgerStand) -> LedgerStand:
    return ledger_stand


def deposit(
    stand: LedgerStand,
    *,
    has_account: bool = False,
    stage: str = "AWAITING_TRUSTLINE",
    owner: Keypair | None = None,
    **changes: Any,
) -> Deposit:
    """Of 5 USDC, by an address of its own unless `source_address` says so."""
    number = next(stand.numbers)
    if owner is None:
        owner = stand.chain.open(f"newcomer {number}") if has_account else Keypair.random()
    terms = replace(
        make_terms(),
        id=f"{number % 2**64:032x}",
        owner=StellarAddress(owner.public_key),
        dest_chain=STELLAR.id,
        dest_address=Address(owner.public_key),
        source_chain=ChainId("eip155:31337"),
        source_address=Address(f"0x{number:040x}"),
        deposit_address=None,
    )
    terms = replace(terms, **changes)
    with stand.engine.begin() as conn:
        ask(conn, terms)
        quote = intake.quotes.c.id == f"quote of {terms.id}"
        conn.execute(update(intake.quotes).where(quote).values(dest_asset=ASSET))
        row = {"transfer": terms.id, "stage": stage, "source_chain": terms.source_chain}
        some = {"timeline": [], "extras": [], "keys": [], "inputs": 0}
        conn.execute(insert(transfer_states).values(row | some))
    return Deposit(stand, owner, terms.id)


def relay(
    stand: LedgerStand,
    name: str = "sponsor",
    nodes: type[StellarAccountNodes] = StellarAccountNodes,
    limits: SpendLimits = LIMITS,
    bounds: SponsorBounds = SPONSOR_BOUNDS,
    is_draining: bool = False,
) -> SponsorRelay:
    """A sponsor for one test."""
    stand.opened.append(nodes(STELLAR, [stand.url], timeout=30.0))
    key = Keypair.from_raw_ed25519_seed(f"{name} {stand.began}".encode().ljust(32)[:32])
    if stand.chain.account(key.public_key) is None:
        stand.chain.run(keypair(ROOT), CreateAccount(key.public_key, "100"))
    sender = SponsorSender(STELLAR, stand.opened[-1], LocalStellarKey(key))
    return SponsorRelay(sender, limits, bounds, time.monotonic, is_draining=is_draining)


def spoiled_by(acts: list[Callable[[], Any]]) -> type[StellarAccountNodes]:
    """Nodes that run an action on the ledger before each broadcast."""

    class Spoiled(StellarAccountNodes):
        def send(self, raw: bytes) -> str:
            if acts:
                acts.pop(0)()
            return super().send(raw)

    return Spoiled


def finish(stand: LedgerStand, by: SponsorRelay) -> TurnReport:
    """Close a ledger and run the next turn."""
    stand.close()
    return stand.turns(by)


def spent_today(stand: LedgerStand, account: AccountId) -> int:
    with stand.relay_engine.begin() as conn:
        return spent_on_slots(conn, chain=account.chain, account=account.address)


@pytest.mark.parametrize("has_account", [False, True])
def test_signed_onboarding_opens_the_trustline(stand: LedgerStand, has_account: bool):
    waiting, by = deposit(stand, has_account=has_account), relay(stand)
    assert stand.turns(by) == TurnReport(), "nothing is signed before the owner has"
    waiting.sign(by)
    assert stand.turns(by) == TurnReport(opened=1, sent=1)
    assert finish(stand, by) == TurnReport(confirmed=1)
    assert waiting.line.sponsor == by.account.address
    reserved = BASE_RESERVE * (1 if has_account else 3)
    assert reserved < spent_today(stand, by.account) <= reserved + 40_000


def test_owner_and_asset_are_sponsored_once(stand: LedgerStand):
    first, by = deposit(stand, has_account=True), relay(stand)
    first.sign(by)
    stand.turns(by)
    finish(stand, by)
    stand.chain.run(first.owner, ChangeTrust(USDC, "0"))
    again = deposit(stand, owner=first.owner)
    again.sign(by)
    turn = stand.turns(by)
    assert (turn.opened, again.line) == (0, None)


@pytest.mark.parametrize("stage", ["AWAITING_FUNDS", "AWAITING_SIGNATURE", "CONFIRMING"])
def test_unfinalized_deposit_is_not_sponsored(stand: LedgerStand, stage: str):
    by, waiting = relay(stand), deposit(stand, stage=stage)
    waiting.sign(by)
    assert stand.turns(by) == TurnReport()


def test_deposit_of_another_recipient_is_not_sponsored(stand: LedgerStand):
    by = relay(stand)
    waiting = deposit(stand, dest_address=Address(Keypair.random().public_key))
    waiting.sign(by)
    assert stand.turns(by) == TurnReport()


def test_small_deposit_is_not_sponsored(stand: LedgerStand):
    by = relay(stand)
    waiting = deposit(stand, amount_in=BaseUnits(4_999_999))
    waiting.sign(by)
    [refused] = stand.turns(by).refused
    assert "deposit_too_small" in refused


def test_payer_budget_limits_cost_of_one_address(stand: LedgerStand):
    by = relay(stand, bounds=SponsorBounds(BaseUnits(1), Stroops(MAX_COST + BASE_RESERVE)))
    first, second = (deposit(stand, source_address=PAYER) for _ in range(2))
    for each in (first, second):
        each.sign(by)
        stand.turns(by)
        finish(stand, by)
    assert (bool(first.line), second.line) == (True, None)
    other = deposit(stand)
    other.sign(by)
    assert stand.turns(by).opened == 1


def test_two_sponsors_share_one_payer_budget(stand: LedgerStand):
    bounds = SponsorBounds(BaseUnits(1), payer_budget=MAX_COST)
    by, other = relay(stand, bounds=bounds), relay(stand, "other", bounds=bounds)
    deposit(stand, source_address=PAYER).sign(by)
    deposit(stand, source_address=PAYER).sign(other)
    assert (stand.turns(by).opened, stand.turns(other).opened) == (1, 0)


def test_api_role_cannot_block_sponsoring(stand: LedgerStand, api_engine: Engine):
    by, waiting = relay(stand), deposit(stand)
    waiting.sign(by)
    with api_engine.begin() as holding, stand.relay_engine.connect() as conn:
        # Any role may take any advisory lock.
        holding.execute(select(func.pg_advisory_xact_lock(locks.SPONSORING, 0)))
        conn.exec_driver_sql("SET lock_timeout = '1s'")
        conn.commit()
        assert by.turn(conn).opened == 1


def test_sponsors_decide_one_after_the_other(stand: LedgerStand):
    with stand.relay_engine.connect() as first, stand.relay_engine.connect() as second:
        lock_sponsoring(first)
        second.exec_driver_sql("SET lock_timeout = '100ms'")
        with pytest.raises(OperationalError, match="lock timeout"):
            lock_sponsoring(second)


def test_sponsor_without_budget_for_dearest_is_unhealthy(stand: LedgerStand):
    by = relay(stand, limits=SpendLimits(Stroops(MAX_COST + BASE_RESERVE), floor=Stroops(0)))
    waiting = deposit(stand)
    stand.turns(by)
    query = select(health.c.duty, health.c.well, sponsors.c.budget_left, sponsors.c.next_number)
    query = query.join_from(health, sponsors, health.c.account == sponsors.c.account)
    number = next_number(stand, by)
    with stand.engine.connect() as conn:
        assert conn.execute(query).all() == [("sponsor", True, MAX_COST + BASE_RESERVE, number)]
    waiting.sign(by)
    stand.turns(by)
    finish(stand, by)
    with stand.engine.connect() as conn:
        [row] = conn.execute(query).all()
    assert (row.well, row.next_number) == (False, number + 1)
    assert row.budget_left < MAX_COST
    late = deposit(stand)
    late.sign(by)
    assert "over the day's budget" in stand.turns(by).refused[0]


def test_sponsor_without_balance_for_dearest_is_unhealthy(stand: LedgerStand):
    by = relay(stand, limits=SpendLimits(budget=Stroops(10**12), floor=Stroops(0)))
    account = stand.chain.account(by.account.address)
    assert account is not None
    key = Keypair.from_raw_ed25519_seed(f"sponsor {stand.began}".encode().ljust(32)[:32])
    left = from_xdr_amount(account.balance - 2 * BASE_RESERVE - MAX_COST)
    stand.chain.run(key, Payment(keypair(ROOT).public_key, Asset.native(), left))
    stand.turns(by)
    with stand.engine.connect() as conn:
        assert conn.execute(select(health.c.well)).scalar_one() is False


def test_first_of_two_consents_for_one_number_is_sent(stand: LedgerStand):
    by, first, second = relay(stand), deposit(stand), deposit(stand)
    first.sign(by)
    second.sign(by)
    assert stand.turns(by) == TurnReport(opened=1, sent=1)
    assert finish(stand, by) == TurnReport(confirmed=1)
    assert stand.turns(by) == TurnReport(), "the other one has a number that is used"
    second.sign(by)
    assert stand.turns(by).opened == 1
    finish(stand, by)
    assert (bool(first.line), bool(second.line)) == (True, True)


def test_next_number_waits_for_the_open_slot(stand: LedgerStand):
    by, first, second = relay(stand), deposit(stand), deposit(stand)
    first.sign(by)
    stand.turns(by)
    second.sign(by, next_number(stand, by) + 1)
    assert stand.turns(by) == TurnReport()
    assert finish(stand, by) == TurnReport(opened=1, confirmed=1, sent=1)
    finish(stand, by)
    assert bool(second.line)


RUBBISH: dict[str, dict[str, Any]] = {
    "a number that is not next": {"sequence": 2**40},
    "an account that is there": {"creates_account": False},
    "a long time": {"last": UnixSeconds(2**40)},
    "no time left": {"first": UnixSeconds(0), "last": UnixSeconds(1)},
}


@pytest.mark.parametrize("case", RUBBISH)
def test_other_transaction_is_not_signed(stand: LedgerStand, case: str):
    by, waiting, honest = relay(stand), deposit(stand), deposit(stand)
    waiting.sign(by, **RUBBISH[case])
    honest.sign(by)
    turn = stand.turns(by)
    assert (turn.opened, waiting.outcomes(), honest.outcomes()) == (1, [], [None])


def test_unreadable_consent_is_not_signed(stand: LedgerStand):
    by, waiting = relay(stand), deposit(stand)
    waiting.sign(by)
    with stand.engine.begin() as conn:
        conn.execute(update(intake.consents).values(signed=b"\x00\x01"))
    [refused] = stand.turns(by).refused
    assert "cannot be read" in refused


def test_consent_of_removed_signer_is_not_signed(stand: LedgerStand):
    by, waiting = relay(stand), deposit(stand, has_account=True)
    waiting.sign(by)
    stand.chain.run(waiting.owner, SetOptions(master_weight=0))
    [refused] = stand.turns(by).refused
    assert "one signature is of no signer" in refused


def test_transaction_no_ledger_takes_frees_its_number(stand: LedgerStand):
    waiting = deposit(stand, has_account=True)
    disable = partial(stand.chain.run, waiting.owner, SetOptions(master_weight=0))
    by = relay(stand, nodes=spoiled_by([disable]))
    waiting.sign(by)
    assert stand.turns(by) == TurnReport(opened=1, sent=1)
    stand.close()
    assert stand.turns(by).confirmed == 0
    stand.age_attempts(int(HOLD_SECONDS) + 1)
    assert stand.turns(by) == TurnReport(replaced=1, sent=1)
    finish(stand, by)
    assert waiting.outcomes() == ["replaced"]
    assert spent_today(stand, by.account) <= 10 * FEE_BID
    honest = deposit(stand)
    honest.sign(by)
    assert stand.turns(by).opened == 1
    finish(stand, by)
    assert bool(honest.line)


def spoil_by_creating(stand: LedgerStand, waiting: Deposit) -> Callable[[], Any]:
    create = CreateAccount(waiting.owner.public_key, "5")
    return partial(stand.chain.run, keypair(ROOT), create)


def test_failed_onboardings_do_not_halt_sponsor(stand: LedgerStand):
    acts: list[Callable[[], Any]] = []
    by = relay(stand, nodes=spoiled_by(acts))
    for _ in range(4):
        waiting = deposit(stand)
        acts.append(spoil_by_creating(stand, waiting))
        waiting.sign(by)
        stand.turns(by)
        assert finish(stand, by) == TurnReport(already_done=1)
    with stand.relay_engine.begin() as conn:
        assert current_halt(conn, by.account) is None


@pytest.mark.parametrize(
    ("outcome", "says"), [("already_done", "failed 3 times"), ("replaced", "failed_too_often")]
)
def test_failures_of_one_owner_are_limited(stand: LedgerStand, outcome: str, says: str):
    by, waiting = relay(stand), deposit(stand)
    place = {"chain": STELLAR.id, "account": "another sponsor", "purpose": "onboard"}
    what = {"key": f"{waiting.owner.public_key} {ASSET}", "subject": waiting.transfer}
    over = {"outcome": outcome, "spent": 100, "closed_at": func.now()}
    with stand.engine.begin() as conn:
        for number in (1, 2, 3):
            conn.execute(insert(slots).values(place | what | over | {"number": number}))
    waiting.sign(by)
    [refused] = stand.turns(by).refused
    assert says in refused


def test_free_onboardings_do_not_count_as_failures(stand: LedgerStand):
    by, waiting = relay(stand), deposit(stand)
    place = {"chain": STELLAR.id, "account": "another sponsor", "purpose": "onboard"}
    what = {"key": f"{waiting.owner.public_key} {ASSET}", "subject": waiting.transfer}
    over = {"outcome": "replaced", "spent": 0, "closed_at": func.now()}
    with stand.engine.begin() as conn:
        for number in (1, 2, 3):
            conn.execute(insert(slots).values(place | what | over | {"number": number}))
    waiting.sign(by)
    assert stand.turns(by).opened == 1


def test_kill_at_any_point_opens_one_trustline_for_one_fee(
    stand: LedgerStand, monkeypatch: pytest.MonkeyPatch
):
    # A busy machine must not make an attempt old enough to be replaced.
    monkeypatch.setattr("relay.jobs.onboardings.HOLD_SECONDS", 600.0)

    def live(waiting: Deposit, name: str, bomb: Bomb) -> None:
        by = relay(stand, name, stellar_nodes(bomb))
        with account_session(stand.relay_engine, by.account) as conn:
            bomb.watch(conn)
            by.turn(conn)
            by.turn(conn)
            stand.close()
            by.turn(conn)

    first = deposit(stand)
    first.sign(relay(stand, "straight"))
    straight = Bomb()
    live(first, "straight", straight)
    for at, point in enumerate(straight.passed):
        waiting, name = deposit(stand), f"{at}"
        waiting.sign(relay(stand, name))
        with pytest.raises(Killed, match=point):
            live(waiting, name, Bomb(at))
        stand.age_attempts(int(RESEND_SECONDS) + 1)
        live(waiting, name, Bomb())
        stand.close()
        live(waiting, name, Bomb())
        assert waiting.line is not None, f"killed {point}, point {at}"
        assert waiting.outcomes() == ["confirmed"], f"point {at}"
