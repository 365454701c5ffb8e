"""Recipients on Stellar who cannot be paid: found, told to who keeps transfers, and cleared."""

from contextlib import closing
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
from relay import store
from relay.jobs import recipients
from relay.jobs.cctp_deliveries import StellarDeliveries
from relay.jobs.recipients import RECHECK_SECONDS, Recipients, trustline_check
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


class Looks:
    """A process that looks, whose pauses a test decides about."""

    def __init__(self, stand: LedgerStand, accounts: Any = None) -> None:
        self.stand, self.time = stand, 0.0
        self.accounts = accounts or FixedAccounts()
        self.nodes = StellarAccountNodes(STELLAR, [stand.url], timeout=30.0)
        stand.opened.append(self.nodes)
        look = trustline_check(STELLAR, self.accounts, self.view)
        self.recipients = Recipients(STELLAR.id, look, lambda: self.time)

    def view(self, question: Operation) -> bytes:
        return self.nodes.simulate(view_tx(STELLAR.passphrase, question).envelope).value

    def look(self, seconds: float = RECHECK_SECONDS) -> None:
        self.time += seconds
        with store.account_session(self.stand.relay_engine, self.recipients.account) as conn:
            self.recipients.turn(conn)

    def line(self, message: Message, *, authorized: bool = True, room: int = AMOUNT) -> None:
        account, asset = StellarAddress(message.recipient), STELLAR.usdc
        assert asset is not None
        held = Trustline(account, asset, authorized, BaseUnits(room), BaseUnits(0))
        self.accounts.lines[account, asset] = held


@pytest.fixture
def stand(ledger_stand: LedgerStand) -> LedgerStand:
    return ledger_stand


def owed(stand: LedgerStand, **options: Any) -> Message:
    found = stand.owed(**options)
    with stand.engine.begin() as conn:
        payer = {"source_address": PAYER, "source_token": PAYER}
        values = payer | {"dest_asset": STELLAR.usdc, "amount_out": AMOUNT}
        conn.execute(update(quotes).where(quotes.c.id == f"quote of {id_of(found)}").values(values))
    return found


def id_of(message: Message) -> str:
    """Of its transfer."""
    return message.nonce[2:34]


def told(stand: LedgerStand, message: Message) -> list[tuple[str, str]]:
    """What the fold of its transfer rests on."""
    with stand.engine.connect() as conn:
        [loaded] = load_transfers(conn, NETWORK, [id_of(message)])
    return [(each.kind, each.detail) for each in loaded.inputs.obstacles]


def is_owed(stand: LedgerStand, message: Message) -> bool:
    with stand.relay_engine.connect() as conn:
        return message.nonce in [each.key for each in StellarDeliveries(STELLAR).owed(conn)]


def test_who_cannot_be_paid_is_told_and_who_can_again_is_too(stand: LedgerStand):
    message, looks = owed(stand), Looks(stand)
    looks.line(message)
    looks.look()
    assert (told(stand, message), is_owed(stand, message)) == ([], True)
    for change, kind, said in (
        ({"room": AMOUNT - 1}, "no_trustline", "no room"),
        ({"authorized": False}, "frozen", "issuer"),
    ):
        looks.line(message, **change)
        looks.look()
        [(found, detail)] = told(stand, message)
        assert (found, said in detail, is_owed(stand, message)) == (kind, True, False)
    looks.accounts.lines.clear()
    looks.look()
    assert told(stand, message) == [
        ("no_trustline", f"{message.recipient} has no trustline for USDC")
    ]
    looks.line(message)
    looks.look()
    assert (told(stand, message), is_owed(stand, message)) == ([], True)


def test_what_the_ledger_itself_says_is_what_is_found(stand: LedgerStand):
    message = owed(stand, has_trustline=False)
    reader = AccountReader(STELLAR, [stand.url], timeout=30.0)
    looks = Looks(stand, reader)
    looks.look()
    assert [kind for kind, _ in told(stand, message)] == ["no_trustline"]
    stand.chain.run(message.holder, ChangeTrust(USDC))
    looks.look()
    assert told(stand, message) == []
    reader.close()


@pytest.mark.parametrize("name", ["cctp_token_messenger", "cctp_message_transmitter"])
def test_pause_on_stellar_is_obstacle_while_it_lasts(stand: LedgerStand, name: str):
    message, looks = owed(stand), Looks(stand)
    contract, relay = getattr(STELLAR, name), stand.relay()
    looks.line(message)
    with closing(StellarState(STELLAR, [stand.url])) as state:
        stand.chain.invoke(message.holder, contract, "pause")
        looks.look()
        paused = MintRefusal("paused", f"CCTP is paused on {STELLAR.id}")
        assert state.cctp_pause() == paused
        assert told(stand, message) == [(paused.kind, paused.detail)]
        assert is_owed(stand, message) is False
        assert stand.turns(relay).opened == 0
        stand.chain.invoke(message.holder, contract, "unpause")
        looks.look()
        assert state.cctp_pause() is None
    assert (told(stand, message), is_owed(stand, message)) == ([], True)
    assert stand.turns(relay).opened == 1


def test_each_is_looked_at_every_few_seconds_and_no_row_is_written_twice(stand: LedgerStand):
    message, looks = owed(stand), Looks(stand)
    looks.look()
    looks.look(RECHECK_SECONDS / 2)
    assert len(looks.accounts.asked) == 1
    looks.look()
    assert len(looks.accounts.asked) == 2
    with stand.engine.connect() as conn:
        assert conn.scalar(select(func.count()).select_from(obstacles)) == 1
    assert len(told(stand, message)) == 1


def test_many_have_their_turns_one_after_the_other(stand: LedgerStand, monkeypatch):
    monkeypatch.setattr(recipients, "MOST_AT_ONCE", 2)
    messages, looks = [owed(stand) for _ in range(3)], Looks(stand)
    for seconds in (RECHECK_SECONDS, 0, RECHECK_SECONDS):
        looks.look(seconds)
    counts = [looks.accounts.asked.count(each.recipient) for each in messages]
    assert sorted(counts) == [1, 2, 2]


def test_of_whom_no_node_will_speak_keeps_no_other_from_being_looked_at(stand: LedgerStand):
    first, second = sorted((owed(stand), owed(stand)), key=id_of)

    class Partly(FixedAccounts):
        def trustline(self, account: StellarAddress, asset: AssetId) -> Trustline | None:
            if account == first.recipient:
                raise NodeUnavailable("an entry that cannot be read")
            return super().trustline(account, asset)

    looks = Looks(stand, Partly())
    for _ in range(2):
        with pytest.raises(NodeUnavailable):
            looks.look()
    assert told(stand, second)


def test_what_is_over_hinders_nobody_any_more(stand: LedgerStand):
    message, looks = owed(stand), Looks(stand)
    looks.look()
    with stand.engine.begin() as conn:
        row = transfer_states.c.transfer == id_of(message)
        over = {"stage": "COMPLETED", "completed_at": 1}
        conn.execute(update(transfer_states).where(row).values(over))
    looks.look()
    assert told(stand, message) == []
    looks.look()
    assert len(looks.accounts.asked) == 1


def test_who_keeps_transfers_finds_what_it_missed(stand: LedgerStand, engine: Engine):
    message, looks = owed(stand), Looks(stand)

    def behind() -> bool:
        with engine.begin() as conn:
            same = transfers.c.id == transfer_states.c.transfer
            query = select(is_behind()).join_from(transfers, transfer_states, same)
            found = bool(conn.scalar(query.where(transfers.c.id == id_of(message))))
            [loaded] = load_transfers(conn, NETWORK, [id_of(message)])
            row = transfer_states.c.transfer == id_of(message)
            conn.execute(update(transfer_states).where(row).values(inputs=loaded.inputs))
            return found

    assert not behind()
    looks.look()
    assert (behind(), behind()) == (True, False)
    looks.line(message)
    looks.look()
    assert (behind(), behind()) == (True, False)
