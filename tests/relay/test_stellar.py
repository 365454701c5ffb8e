"""Attested messages are delivered on Stellar exactly once."""

from collections.abc import Callable

import pytest
from stellar_sdk import Keypair
from stellar_sdk.operation import BumpSequence

from devnet.stellar.accounts import RELAYER, keypair
from indexer.chains.stellar.account_state import StellarAccountNodes
from indexer.errors import PermanentChainError
from relay.account import TurnReport
from relay.failures import current_halt
from relay.leases import account_session
from relay.senders.stellar import VALID_SECONDS
from relay.status import all_health
from tests.devnet.stellar.cctp import forward
from tests.relay.bomb import Bomb, Killed, stellar_nodes
from tests.relay.ledger import AMOUNT
from tests.relay.ledger import LedgerStand as Stand


@pytest.fixture
def stand(ledger_stand: Stand) -> Stand:
    return ledger_stand


class Lost(StellarAccountNodes):
    """Nodes that lose transactions."""

    def send(self, raw: bytes) -> str:
        return "PENDING"


def test_message_is_minted_forwarded_and_closed(stand: Stand):
    message, relay = stand.add_message(), stand.relay()
    assert stand.turns(relay) == TurnReport(opened=1, sent=1)
    assert stand.turns(relay) == TurnReport()
    stand.close()
    assert stand.received(message) == AMOUNT * 10
    assert stand.turns(relay) == TurnReport(confirmed=1)
    assert stand.slots_of(message) == ["confirmed"]
    assert stand.turns(relay) == TurnReport()


def test_spent_equals_fee_charged_by_ledger(stand: Stand):
    relay, before = stand.relay(), stand.chain.account(keypair(RELAYER).public_key)
    stand.add_message()
    stand.turns(relay)
    stand.close()
    stand.turns(relay)
    after = stand.chain.account(keypair(RELAYER).public_key)
    with stand.engine.connect() as conn:
        [row] = all_health(conn)
    assert row.well
    assert row.spent_today >= before.balance - after.balance > 0


def test_recipient_without_trustline_costs_no_fee(stand: Stand):
    message = stand.add_message(has_trustline=False)
    turn = stand.turns(stand.relay())
    assert turn.opened == 0
    assert "13" in turn.refused[0]
    assert stand.slots_of(message) == []


def test_delivery_by_another_sender_costs_nothing(stand: Stand):
    message, before = stand.add_message(), stand.sequence()
    stranger = stand.chain.open("stranger of " + message.nonce)
    forward(stand.chain, stranger, message.message, message.attestation)
    assert stand.turns(stand.relay()) == TurnReport()
    assert stand.sequence() == before


def test_expired_attempt_is_replaced_with_same_number(stand: Stand):
    message, relay, before = stand.add_message(), stand.relay(), stand.sequence()

    assert stand.turns(stand.relay(nodes=Lost)).opened == 1
    stand.close(VALID_SECONDS)
    stand.age_attempts(15)
    assert stand.turns(stand.relay(nodes=Lost)) == TurnReport(sent=1), "the last ledger may take it"
    stand.close(1)
    assert stand.turns(relay) == TurnReport(replaced=1, sent=1)
    stand.close()
    assert stand.turns(relay) == TurnReport(confirmed=1)
    assert (stand.received(message), stand.sequence() - before) == (AMOUNT * 10, 1)
    assert (stand.signed_for(message), stand.slots_of(message)) == (2, ["confirmed"])


def test_fill_uses_up_number_of_finished_job(stand: Stand):
    message, before = stand.add_message(), stand.sequence()

    stand.turns(stand.relay(nodes=Lost))
    stranger = stand.chain.open("quick stranger of " + message.nonce)
    forward(stand.chain, stranger, message.message, message.attestation)
    stand.close(VALID_SECONDS + 1)
    relay = stand.relay()
    assert stand.turns(relay) == TurnReport(replaced=1, sent=1)
    stand.close()
    stand.turns(relay)
    assert stand.slots_of(message) == ["replaced"]
    assert (stand.received(message), stand.sequence() - before) == (AMOUNT * 10, 1)


def test_nonce_taken_by_another_signer_halts_account(stand: Stand):
    message = stand.add_message()
    stand.turns(stand.relay(nodes=Lost))
    stand.chain.run(keypair(RELAYER), BumpSequence(0))
    relay = stand.relay()
    stand.close()
    assert stand.turns(relay) == TurnReport(), "not while it may still be included"
    stand.close(VALID_SECONDS)
    assert stand.turns(relay).failed == 1
    assert stand.slots_of(message) == ["nonce_taken"]
    assert stand.turns(relay) == TurnReport()
    with stand.relay_engine.begin() as conn:
        assert "another process signs" in str(current_halt(conn, relay.account))


def test_channels_share_jobs_without_duplicates(stand: Stand):
    first, second = stand.add_message(), stand.add_message()
    relays = [stand.relay(stand.chain.open(f"channel {n} of {first.nonce}")) for n in range(2)]
    assert [stand.turns(each).opened for each in relays] == [1, 1]
    stand.close()
    assert [stand.turns(each).confirmed for each in relays] == [1, 1]
    assert [stand.received(each) for each in (first, second)] == [AMOUNT * 10] * 2


def test_missing_account_is_reported(stand: Stand):
    stand.add_message()
    with pytest.raises(PermanentChainError, match="fund it"):
        stand.turns(stand.relay(Keypair.random()))


def live(stand: Stand, bomb: Bomb) -> None:
    """One run of the relay: turns, with a ledger after each."""
    relay = stand.relay(nodes=stellar_nodes(bomb))
    with account_session(stand.relay_engine, relay.account) as conn:
        bomb.watch(conn)
        for _ in range(2):
            relay.turn(conn)
            stand.close()
        relay.turn(conn)


def points_of(life: Callable[[Bomb], None]) -> list[str]:
    bomb = Bomb()
    life(bomb)
    return bomb.passed


def test_kill_at_any_point_delivers_once_for_one_fee(stand: Stand):
    stand.add_message()
    points = points_of(lambda bomb: live(stand, bomb))
    assert {"before a commit", "after a commit", "before a sending", "after a sending"} == {*points}
    for at, name in enumerate(points):
        message, before = stand.add_message(), stand.sequence()
        with pytest.raises(Killed, match=name):
            live(stand, Bomb(at))
        stand.age_attempts(15)
        live(stand, Bomb())
        where = f"killed {name}, point {at}"
        assert stand.received(message) == AMOUNT * 10, where
        assert stand.sequence() - before == 1, where
        assert (stand.signed_for(message), stand.slots_of(message)) == (1, ["confirmed"]), where
