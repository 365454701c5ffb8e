"""Payer whose budget an onboarding counts against."""

from sqlalchemy import Engine

from indexer.policy.sponsorship import payers_of
from tests.factories.intake import ask
from tests.factories.stage_facts import DIRECT, PAID_IN, bring_in, paid

SMALL, LARGE = "0x" + "51" * 20, "0x" + "1a" * 20


def test_payer_of_a_direct_deposit_is_its_source_address(engine: Engine):
    with engine.begin() as conn:
        ask(conn, DIRECT)
        assert payers_of(conn, [DIRECT.id]) == {DIRECT.id: DIRECT.source_address}


def test_payer_of_deposit_address_is_largest_sender(engine: Engine):
    address = str(PAID_IN.deposit_address)
    with engine.begin() as conn:
        ask(conn, PAID_IN)
        assert payers_of(conn, [PAID_IN.id]) == {PAID_IN.id: PAID_IN.source_address}
        bring_in(conn, paid(SMALL, address, 1, 100, "b"))
        bring_in(conn, paid(LARGE, address, 2_000_000, 101, "c"))
        bring_in(conn, paid(LARGE, address, 3_000_000, 102, "d"))
        bring_in(conn, paid(SMALL, address, 4_000_000, 103, "e"))
        bring_in(conn, paid(SMALL, address, 10**9, 104, "f", token="0x" + "07" * 20))
        assert payers_of(conn, [PAID_IN.id]) == {PAID_IN.id: LARGE}
