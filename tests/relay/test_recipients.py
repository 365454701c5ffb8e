"""Obstacles of recipients on Stellar are stored, folded and cleared."""

from contextlib import closing
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, func, select, update
from stellar_sdk.operation import ChangeTrust
from stellar_sdk.operation.operation import Operation

from devnet.stellar.accounts import USDC
from indexer.actions.mint_check import MintRefusal
from indexer.actions.stellar_tx import view_tx
from indexer.chain_state.stellar import StellarState
from indexer.chains.stellar.account_state import StellarAccountNodes
from indexer.chains.stellar.accounts import AccountReader
from indexer.chains.stellar.xdr.ledger_entries import Trustline
from indexer.config.networks import load_network
from indexer.errors import NodeUnavailable
from indexer.transfers.load import load_transfers
from indexer.transfers.store import is_behind
from relay.jobs import recipients
from relay.jobs.cctp_deliveries import StellarDeliveries
from relay.jobs.recipients import RECHECK_SECONDS, Recipients, check_trustline
from relay.leases import account_session
from tests.factories.sep10 import FixedAccounts
from tests.relay.ledger import STELLAR, LedgerStand, Message
from warehouse_schema.identifiers import AssetId, BaseUnits, StellarAddress
from warehouse_schema.intake import quotes, transfers
from warehouse_schema.projections import transfer_states
from warehouse_schema.relay import obstacles

NETWORK = load_network("devnet")
PAYER = "0x" + "0a" * 20
AMOUNT = 50_000_000
"""Stroops of a message."""


class RecipientChecks:
    """Checks of recipients with a clock of the test."""

    def __init__(self, stand: LedgerStand, accounts: Any = None) -> None:
        self.stand, self.time = stand, 0.0
        self.accounts = accounts or FixedAccounts()
        self.nodes = StellarAccountNodes(STELLAR, [stand.url], timeout=30.0)
        stand.opened.append(self.nodes)
        look = partial(check_trustline, STELLAR, self.accounts, self.view)
        self.recipients = Recipients(STELLAR.id, look, lambda: self.time)

    def view(self, question: Operation) -> bytes:
        return self.nodes.simulate(view_tx(STELLAR.passphrase, question).envelope).value

    def look(self, seconds: float = RECHECK_SECONDS) -> None:
        self.time += seconds
        with account_session(self.stand.relay_engine, self.recipients.account) as conn:
            self.recipients.turn(conn)

    def line(self, message: Message, *, authorized: bool = True, room: int = AMOUNT) -> None:
        account, asset = StellarAddress(message.recipient), STELLAR.usdc
        assert asset is not None
        held = Trustline(account, asset, authorized, BaseUnits(room), BaseUnits(0))
        self.accounts.lines[account, asset] = held


@pytest.fixture
def stand(ledger_stand: LedgerStand) -> LedgerStand:
    return ledger_stand


def awaited_message(stand: LedgerStand, **options: Any) -> Message:
    found = stand.add_message(**options)
    with stand.engine.begin() as conn:
        payer = {"source_address": PAYER, "source_token": PAYER}
        values = payer | {"dest_asset": STELLAR.usdc, "amount_out": AMOUNT}
        conn.execute(update(quotes).where(quotes.c.id == f"quote of {id_of(found)}").values(values))
    return found


def id_of(message: Message) -> str:
    """Of its transfer."""
    return message.nonce[2:34]


def obstacles_of(stand: LedgerStand, message: Message) -> list[tuple[str, str]]:
    """Obstacles among the inputs of its transfer."""
    with stand.engine.connect() as conn:
        [loaded] = load_transfers(conn, NETWORK, [id_of(message)])
    return [(each.kind, each.detail) for each in loaded.inputs.obstacles]


def is_deliverable(stand: LedgerStand, message: Message) -> bool:
    with stand.relay_engine.connect() as conn:
        return message.nonce in [each.key for each in StellarDeliveries(STELLAR).jobs(conn)]


def test_obstacle_is_stored_and_cleared(stand: LedgerStand):
    message, checks = awaited_message(stand), RecipientChecks(stand)
    checks.line(message)
    checks.look()
    assert (obstacles_of(stand, message), is_deliverable(stand, message)) == ([], True)
    for change, kind, phrase in (
        ({"room": AMOUNT - 1}, "no_trustline", "no room"),
        ({"authorized": False}, "frozen", "issuer"),
    ):
        checks.line(message, **change)
        checks.look()
        [(found, detail)] = obstacles_of(stand, message)
        assert (found, phrase in detail, is_deliverable(stand, message)) == (kind, True, False)
    checks.accounts.lines.clear()
    checks.look()
    assert obstacles_of(stand, message) == [
        ("no_trustline", f"{message.recipient} has no trustline for USDC")
    ]
    checks.line(message)
    checks.look()
    assert (obstacles_of(stand, message), is_deliverable(stand, message)) == ([], True)


def test_obstacles_follow_the_real_ledger(stand: LedgerStand):
    message = awaited_message(stand, has_trustline=False)
    reader = AccountReader(STELLAR, [stand.url], timeout=30.0)
    checks = RecipientChecks(stand, reader)
    checks.look()
    assert [kind for kind, _ in obstacles_of(stand, message)] == ["no_trustline"]
    stand.chain.run(message.holder, ChangeTrust(USDC))
    checks.look()
    assert obstacles_of(stand, message) == []
    reader.close()


@pytest.mark.parametrize("name", ["cctp_token_messenger", "cctp_message_transmitter"])
def test_pause_on_stellar_is_obstacle_while_it_lasts(stand: LedgerStand, name: str):
    message, checks = awaited_message(stand), RecipientChecks(stand)
    contract, relay = getattr(STELLAR, name), stand.relay()
    checks.line(message)
    with closing(StellarState(STELLAR, [stand.url])) as state:
        stand.chain.invoke(message.holder, contract, "pause")
        checks.look()
        paused = MintRefusal("paused", f"CCTP is paused on {STELLAR.id}")
        assert state.cctp_pause() == paused
        assert obstacles_of(stand, message) == [(paused.kind, paused.detail)]
        assert is_deliverable(stand, message) is False
        assert stand.turns(relay).opened == 0
        stand.chain.invoke(message.holder, contract, "unpause")
        checks.look()
        assert state.cctp_pause() is None
    assert (obstacles_of(stand, message), is_deliverable(stand, message)) == ([], True)
    assert stand.turns(relay).opened == 1


def test_recipient_is_rechecked_without_duplicate_rows(stand: LedgerStand):
    message, checks = awaited_message(stand), RecipientChecks(stand)
    checks.look()
    checks.look(RECHECK_SECONDS / 2)
    assert len(checks.accounts.requests) == 1
    checks.look()
    assert len(checks.accounts.requests) == 2
    with stand.engine.connect() as conn:
        assert conn.scalar(select(func.count()).select_from(obstacles)) == 1
    assert len(obstacles_of(stand, message)) == 1


def test_many_recipients_are_checked_in_turns(stand: LedgerStand, monkeypatch):
    monkeypatch.setattr(recipients, "MAX_PER_TURN", 2)
    messages, checks = [awaited_message(stand) for _ in range(3)], RecipientChecks(stand)
    for seconds in (RECHECK_SECONDS, 0, RECHECK_SECONDS):
        checks.look(seconds)
    counts = [checks.accounts.requests.count(each.recipient) for each in messages]
    assert sorted(counts) == [1, 2, 2]


def test_recipient_that_nodes_cannot_read_delays_no_other(stand: LedgerStand):
    first, second = sorted((awaited_message(stand), awaited_message(stand)), key=id_of)

    class Partly(FixedAccounts):
        def trustline(self, account: StellarAddress, asset: AssetId) -> Trustline | None:
            if account == first.recipient:
                raise NodeUnavailable("an entry that cannot be read")
            return super().trustline(account, asset)

    checks = RecipientChecks(stand, Partly())
    for _ in range(2):
        with pytest.raises(NodeUnavailable):
            checks.look()
    assert obstacles_of(stand, second)


def test_obstacle_of_finished_transfer_is_cleared(stand: LedgerStand):
    message, checks = awaited_message(stand), RecipientChecks(stand)
    checks.look()
    with stand.engine.begin() as conn:
        row = transfer_states.c.transfer == id_of(message)
        over = {"stage": "COMPLETED", "completed_at": 1}
        conn.execute(update(transfer_states).where(row).values(over))
    checks.look()
    assert obstacles_of(stand, message) == []
    checks.look()
    assert len(checks.accounts.requests) == 1


def test_fold_catches_up_on_missed_obstacles(stand: LedgerStand, engine: Engine):
    message, checks = awaited_message(stand), RecipientChecks(stand)

    def behind() -> bool:
        with engine.begin() as conn:
            same = transfers.c.id == transfer_states.c.transfer
            query = select(is_behind()).join_from(transfers, transfer_states, same)
            found = bool(conn.scalar(query.where(transfers.c.id == id_of(message))))
            [loaded] = load_transfers(conn, NETWORK, [id_of(message)])
            row = transfer_states.c.transfer == id_of(message)
            conn.execute(update(transfer_states).where(row).values(inputs=loaded.input_rows))
            return found

    assert not behind()
    checks.look()
    assert (behind(), behind()) == (True, False)
    checks.line(message)
    checks.look()
    assert (behind(), behind()) == (True, False)
