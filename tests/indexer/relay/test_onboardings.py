"""Trustlines that the service sponsors: one an owner, signed by both, at a bounded expense."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, insert, select, text, update
from stellar_sdk import Keypair, TransactionEnvelope, xdr
from stellar_sdk.operation import (
    BeginSponsoringFutureReserves,
    ChangeTrust,
    CreateAccount,
    EndSponsoringFutureReserves,
)

from indexer.chains.stellar_sender import StellarAccountNodes
from indexer.devnet.stellar.accounts import ROOT, USDC, keypair
from indexer.relay import store
from indexer.relay.account import Limits, Turn
from indexer.relay.keys import LocalStellarKey
from indexer.relay.onboardings import RESERVE, VALID_SECONDS
from indexer.relay.run import sponsor
from indexer.relay.settings import SponsorAccount
from tests.factories.intake import ask
from tests.factories.stage_history import make_terms
from tests.indexer.relay.bomb import Bomb, Killed, stellar_nodes
from tests.indexer.relay.ledger import LIMITS, STELLAR, LedgerStand
from warehouse_schema import intake
from warehouse_schema.identifiers import Address, ChainId, StellarAddress
from warehouse_schema.projections import transfer_stages
from warehouse_schema.relay import onboardings, slots

ASSET = STELLAR.usdc


@dataclass
class Wish:
    """A deposit whose owner has asked for a trustline."""

    stand: LedgerStand
    owner: Keypair
    transfer: str

    def ask_again(self) -> None:
        number = select(func.count() + 1).where(intake.onboardings.c.transfer == self.transfer)
        row = {"transfer": self.transfer, "number": number.scalar_subquery()}
        with self.stand.engine.begin() as conn:
            conn.execute(insert(intake.onboardings).values(row))

    def move_to(self, stage: str) -> None:
        at = transfer_stages.c.transfer == self.transfer
        with self.stand.engine.begin() as conn:
            conn.execute(update(transfer_stages).where(at).values(stage=stage))

    def shown(self) -> list[TransactionEnvelope]:
        """What the api may show, the oldest first."""
        query = select(onboardings.c.envelope).where(onboardings.c.transfer == self.transfer)
        with self.stand.engine.connect() as conn:
            return [read(raw) for raw in conn.scalars(query.order_by(onboardings.c.offered_at))]

    def consent(self, envelope: TransactionEnvelope, raw: bytes | None = None) -> None:
        """Sign, as it is accepted by the api; `raw` in its place."""
        tx = envelope.hash_hex()
        envelope.sign(self.owner)
        signed = raw or envelope.to_xdr_object().to_xdr_bytes()
        row = {"tx_hash": tx, "transfer": self.transfer, "signed": signed}
        with self.stand.engine.begin() as conn:
            conn.execute(insert(intake.consents).values(row))

    def outcomes(self) -> list[str | None]:
        query = select(slots.c.outcome).where(slots.c.subject == self.transfer)
        with self.stand.engine.connect() as conn:
            return list(conn.scalars(query.order_by(slots.c.number)))

    @property
    def line(self) -> Any:
        return self.stand.chain.trustline(self.owner.public_key, USDC)


def read(raw: bytes) -> TransactionEnvelope:
    whole = xdr.TransactionEnvelope.from_xdr_bytes(raw)
    return TransactionEnvelope.from_xdr(whole.to_xdr(), STELLAR.passphrase)


@pytest.fixture
def stand(ledger_stand: LedgerStand) -> LedgerStand:
    return ledger_stand


def wish(
    stand: LedgerStand, *, has_account: bool = False, stage: str = "AWAITING_TRUSTLINE"
) -> Wish:
    number = next(stand.numbers)
    owner = stand.chain.open(f"newcomer {number}") if has_account else Keypair.random()
    terms = replace(
        make_terms(),
        id=f"{number % 2**64:032x}",
        owner=StellarAddress(owner.public_key),
        dest_chain=STELLAR.id,
        dest_address=Address(owner.public_key),
        source_chain=ChainId("eip155:31337"),
        deposit_address=None,
    )
    with stand.engine.begin() as conn:
        ask(conn, terms)
        quote = intake.quotes.c.id == f"quote of {terms.id}"
        conn.execute(update(intake.quotes).where(quote).values(dest_asset=ASSET))
        row = {"transfer": terms.id, "stage": stage, "source_chain": terms.source_chain}
        some = {"timeline": [], "extras": [], "keys": [], "inputs": 0}
        conn.execute(insert(transfer_stages).values(row | some))
    found = Wish(stand, owner, terms.id)
    found.ask_again()
    return found


def relay(
    stand: LedgerStand,
    name: str = "sponsor",
    nodes: type[StellarAccountNodes] = StellarAccountNodes,
    limits: Limits = LIMITS,
):
    """A sponsor of this test's own."""
    stand.opened.append(nodes(STELLAR, [stand.url], timeout=30.0))
    key = Keypair.from_raw_ed25519_seed(f"{name} {id(stand)}".encode().ljust(32)[:32])
    if stand.chain.account(key.public_key) is None:
        stand.chain.run(keypair(ROOT), CreateAccount(key.public_key, "100"))
    account = SponsorAccount(STELLAR, LocalStellarKey(key), limits)
    return sponsor(account, stand.opened[-1])


def spent_today(stand: LedgerStand, account: store.Account) -> int:
    with stand.relay_engine.begin() as conn:
        return store.spent_today(conn, account)


def kinds(envelope: TransactionEnvelope) -> Sequence[type]:
    return [type(each) for each in envelope.transaction.operations]


@pytest.mark.parametrize("has_account", [False, True])
def test_an_owner_gets_what_he_lacks_once_he_has_signed(stand: LedgerStand, has_account):
    waiting, by = wish(stand, has_account=has_account), relay(stand)
    assert stand.turns(by, 2) == Turn(), "nothing is sent that one side alone has signed"
    [shown] = waiting.shown()
    made = () if has_account else (CreateAccount,)
    sponsored = (ChangeTrust, EndSponsoringFutureReserves)
    assert kinds(shown) == [BeginSponsoringFutureReserves, *made, *sponsored]
    waiting.consent(shown)
    assert stand.turns(by) == Turn(sent=1)
    stand.close()
    assert stand.turns(by) == Turn(done=1)
    assert waiting.line.sponsor == by.account.address
    reserves = RESERVE * (1 if has_account else 3)
    assert reserves < spent_today(stand, by.account) < reserves + 10_000
    waiting.ask_again()
    assert stand.turns(by) == Turn(), "one an owner and an asset"


def test_what_nobody_signs_is_spent_and_the_next_one_has_his_turn(stand: LedgerStand):
    by, first = relay(stand), wish(stand)
    assert stand.turns(by).opened == 1
    second = wish(stand)
    assert stand.turns(by) == Turn(), "the number may be used until its time is over"
    stand.close(VALID_SECONDS + 1)
    assert stand.turns(by) == Turn(replaced=1, sent=1)
    stand.close()
    turn = stand.turns(by)
    assert (turn.opened, first.outcomes(), second.outcomes()) == (1, ["filled"], [None])
    late, [shown] = first.shown()[0], second.shown()
    first.consent(late)
    second.consent(shown)
    assert stand.turns(by).sent == 1
    stand.close()
    assert stand.turns(by).done == 1
    assert (first.line, bool(second.line)) == (None, True)


def test_who_never_signs_has_three_in_a_day(stand: LedgerStand):
    by, waiting = relay(stand), wish(stand)
    for _ in range(4):
        waiting.ask_again()
        stand.turns(by)
        stand.close(VALID_SECONDS + 1)
        stand.turns(by)
        stand.close()
    assert stand.turns(by) == Turn()
    assert waiting.outcomes() == ["filled"] * 3


def test_the_days_budget_counts_what_is_reserved(stand: LedgerStand):
    by = relay(stand, limits=Limits(budget=RESERVE * 3 + 50_000, floor=0))
    first, second = wish(stand), wish(stand)
    stand.turns(by)
    first.consent(first.shown()[0])
    stand.turns(by)
    stand.close()
    turn = stand.turns(by)
    assert (turn.done, turn.opened) == (1, 0)
    assert "over the day's budget" in turn.refused[0]
    assert second.shown() == []


@pytest.mark.parametrize("stage", ["AWAITING_FUNDS", "AWAITING_SIGNATURE", "CONFIRMING"])
def test_payment_not_final_is_not_sponsored(stand: LedgerStand, stage):
    wish(stand, stage=stage)
    assert stand.turns(relay(stand)) == Turn()


@pytest.mark.parametrize("how", ["asked long ago", "for somebody else"])
def test_what_nobody_waits_for_is_not_signed(stand: LedgerStand, how):
    past = func.now() - timedelta(minutes=5)
    wish(stand)
    with stand.engine.begin() as conn:
        if how == "asked long ago":
            conn.execute(update(intake.onboardings).values(asked_at=past))
        elif how == "for somebody else":
            conn.execute(update(intake.quotes).values(dest_address=Keypair.random().public_key))
    assert stand.turns(relay(stand)) == Turn()


def test_what_the_owner_spoils_stops_nobody(stand: LedgerStand):
    by = relay(stand)
    for _ in range(4):
        waiting = wish(stand)
        stand.turns(by)
        waiting.consent(waiting.shown()[0])
        stand.chain.run(keypair(ROOT), CreateAccount(waiting.owner.public_key, "5"))
        waiting.move_to("DELIVERING")
        stand.turns(by)
        stand.close()
        assert stand.turns(by) == Turn(late=1)
    with stand.relay_engine.begin() as conn:
        assert store.standing_break(conn, by.account) is None


def test_only_what_it_signed_itself_is_sent_as_an_owner_handed_it_in(stand: LedgerStand):
    by, waiting = relay(stand), wish(stand)
    stand.turns(by)
    [shown] = waiting.shown()
    stranger = Keypair.random()
    other = stand.chain.envelope(
        stand.chain.open("somebody"), [CreateAccount(stranger.public_key, "5")]
    )
    waiting.consent(shown, raw=other.to_xdr_object().to_xdr_bytes())
    stand.turns(by)
    stand.close()
    assert stand.chain.account(stranger.public_key) is None


def test_whatever_is_killed_there_is_one_trustline_and_one_fee(stand: LedgerStand):
    def live(waiting: Wish, name: str, bomb: Bomb) -> None:
        by = relay(stand, name, stellar_nodes(bomb))
        with store.writer(stand.relay_engine, by.account) as conn:
            bomb.watch(conn)
            by.turn(conn)
            with stand.engine.connect() as looking:
                is_signed = looking.scalar(
                    select(func.count())
                    .select_from(intake.consents)
                    .where(intake.consents.c.transfer == waiting.transfer)
                )
            if not is_signed and waiting.shown():
                waiting.consent(waiting.shown()[0])
            by.turn(conn)
            stand.close()
            by.turn(conn)

    straight = Bomb()
    live(wish(stand), "straight", straight)
    for at, point in enumerate(straight.passed):
        waiting, name = wish(stand), f"{at}"
        with pytest.raises(Killed, match=point):
            live(waiting, name, Bomb(at))
        stand.grow_older(15)
        live(waiting, name, Bomb())
        stand.close()
        live(waiting, name, Bomb())
        assert waiting.line is not None, f"killed {point}, point {at}"
        assert (len(waiting.shown()), waiting.outcomes()) == (1, ["done"]), f"point {at}"


def test_the_warehouse_keeps_a_sponsors_duty(stand: LedgerStand):
    by = relay(stand)
    stand.turns(by)
    with stand.engine.connect() as conn:
        assert conn.execute(text("SELECT duty, well FROM relay.health")).all() == [
            ("sponsor", True)
        ]
