"""OFT messages whose credit failed are executed again."""

import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, func, insert, select, update
from stellar_sdk import Keypair, scval
from stellar_sdk.operation import ChangeTrust

from devnet.evm_messages import Packet
from devnet.stellar.accounts import RELAYER, USDT0, keypair
from devnet.stellar.contracts.oft import NATIVE_FEE, MessagingFee, SendParam
from devnet.stellar.values import struct
from indexer.chains.stellar.account_state import StellarAccountNodes
from indexer.config.networks import load_network
from indexer.errors import CallReverted
from indexer.facts.rows import EVENT_MAPPINGS, copy_into
from relay.account import AccountRelay, TurnReport
from relay.jobs.oft_deliveries import ABANDONED_SECONDS, EXECUTOR_SECONDS
from relay.keys import LocalStellarKey
from relay.run import stellar_jobs
from relay.senders.stellar import StellarSender
from relay.senders.stellar_signing import Bounds, Invocation, build_call
from tests.devnet.stellar.test_oft import deliver, packet_for, verify
from tests.factories.intake import ask
from tests.factories.stage_history import make_terms
from tests.factories.transfers import make_packet_sent, make_packet_verified
from tests.relay.ledger import LIMITS, STELLAR, LedgerStand
from warehouse_schema.identifiers import (
    Address,
    BaseUnits,
    Bytes32,
    ChainId,
    StellarAddress,
    Stroops,
    UnixSeconds,
)
from warehouse_schema.projections import movements, transfer_states
from warehouse_schema.relay import obstacles, slots

EVM = load_network("devnet").evm[0].id
SHARED = 1_000_000
NONCES = iter(range(1, 1_000))
"""Nonces of the one path that these tests share."""


@dataclass
class Waiting:
    """A verified, unexecuted message and its transfer."""

    stand: LedgerStand
    holder: Keypair
    packet: Packet
    transfer: str

    @property
    def held(self) -> int:
        return self.stand.chain.balance(self.holder.public_key, USDT0)

    def outcomes(self) -> list[str | None]:
        query = select(slots.c.outcome).where(slots.c.subject == self.transfer)
        with self.stand.engine.connect() as conn:
            return list(conn.scalars(query))

    def hinder(self, cleared_ago: float | None) -> None:
        """Insert an obstacle, cleared so many seconds ago unless None."""
        ago = None if cleared_ago is None else func.now() - timedelta(seconds=cleared_ago)
        row = {"kind": "no_trustline", "detail": "none", "cleared_at": ago}
        with self.stand.engine.begin() as conn:
            conn.execute(insert(obstacles).values(transfer=self.transfer, **row))


@pytest.fixture
def stand(ledger_stand: LedgerStand) -> LedgerStand:
    return ledger_stand


def waiting(stand: LedgerStand, *, has_trustline: bool = True, verified_ago: int = 0) -> Waiting:
    number = next(stand.numbers)
    holder = stand.chain.open(f"oft {number}", usdt0=0 if has_trustline else None)
    packet = packet_for(holder.raw_public_key(), SHARED, nonce=next(NONCES))
    assert verify(stand.chain, packet).succeeded
    found = Waiting(stand, holder, packet, f"{number % 2**64:032x}")
    with stand.engine.begin() as conn:
        _write(conn, found, verified_ago)
    return found


def _write(conn: Connection, found: Waiting, verified_ago: int) -> None:
    """Insert its facts."""
    guid, recipient = Bytes32(f"0x{found.packet.guid.hex()}"), found.holder.public_key
    terms = replace(
        make_terms(),
        id=found.transfer,
        mechanism="oft",
        owner=StellarAddress(recipient),
        source_chain=EVM,
        dest_chain=STELLAR.id,
        dest_address=Address(recipient),
        amount_in=BaseUnits(SHARED),
        deposit_address=None,
    )
    ask(conn, terms)
    movement = f"oft:{guid}"
    progress: dict[str, Any] = {
        "id": movement,
        "mechanism": "oft",
        "group_key": guid,
        "stage": "DELIVERING",
        "source_chain": EVM,
        "source_tx": guid[2:],
        "amount_in": SHARED,
        "dest_chain": STELLAR.id,
        "dest_address": recipient,
        "message_id": guid,
        "sent_at": 1_800_000_000,
    }
    conn.execute(insert(movements).values(progress))
    stage = {"stage": "DELIVERING", "timeline": [], "movement": movement, "keys": [guid]}
    row = stage | {"extras": [], "source_chain": EVM, "inputs": 0}
    conn.execute(insert(transfer_states).values(transfer=found.transfer, **row))
    sent, verified = make_packet_sent(), make_packet_verified()
    at = UnixSeconds(int(time.time()) - verified_ago)
    for event in (
        replace(
            sent,
            guid=guid,
            packet=found.packet.encode(),
            seen=replace(sent.seen, chain=ChainId(EVM), position=found.packet.nonce),
        ),
        replace(
            verified,
            guid=guid,
            seen=replace(
                verified.seen, chain=STELLAR.id, position=found.packet.nonce, block_time=at
            ),
        ),
    ):
        shelf = EVENT_MAPPINGS[type(event)]
        copy_into(conn, shelf.columns, [shelf.row(event)])


def relay(stand: LedgerStand, signer: str = RELAYER) -> AccountRelay[Any]:
    stand.opened.append(StellarAccountNodes(STELLAR, [stand.url], timeout=30.0))
    key = keypair(signer)
    sender = StellarSender(STELLAR, stand.opened[-1], LocalStellarKey(key))
    return AccountRelay(sender, stellar_jobs(STELLAR, key.public_key), LIMITS, time.monotonic)


def test_message_is_executed_once_recipient_can_be_paid(stand: LedgerStand):
    found, by = waiting(stand, has_trustline=False), relay(stand)
    found.hinder(None)
    assert stand.turns(by) == TurnReport(), "nothing is tried in vain"
    stand.chain.run(found.holder, ChangeTrust(USDT0))
    with stand.engine.begin() as conn:
        conn.execute(update(obstacles).values(cleared_at=func.now()))
    assert stand.turns(by) == TurnReport(), "the executor goes first"
    with stand.engine.begin() as conn:
        ago = func.now() - timedelta(seconds=EXECUTOR_SECONDS + 1)
        conn.execute(update(obstacles).values(cleared_at=ago))
    assert stand.turns(by) == TurnReport(opened=1, sent=1)
    stand.close()
    assert stand.turns(by) == TurnReport(confirmed=1)
    assert (found.held, found.outcomes()) == (SHARED * 10, ["confirmed"])


def test_executors_delivery_costs_nothing(stand: LedgerStand):
    found, by = waiting(stand), relay(stand)
    found.hinder(EXECUTOR_SECONDS + 1)
    stand.chain.open(f"executor of {found.transfer}")
    assert deliver(stand.chain, keypair(f"executor of {found.transfer}"), found.packet).succeeded
    assert stand.turns(by) == TurnReport()
    assert (found.held, found.outcomes()) == (SHARED * 10, [])


@pytest.mark.parametrize(
    ("ago", "opened"),
    [(ABANDONED_SECONDS + extra, opened) for extra, opened in ((-60, 0), (60, 1))],
)
def test_abandoned_message_is_delivered(stand: LedgerStand, ago, opened):
    found = waiting(stand, verified_ago=ago)
    assert stand.turns(relay(stand)).opened == opened
    assert len(found.outcomes()) == opened
    stand.close()
    stand.turns(relay(stand))


def test_call_that_needs_more_consent_is_not_signed(stand: LedgerStand):
    holder = stand.chain.open(f"sender {next(stand.numbers)}", usdt0=SHARED * 10)
    nodes = StellarAccountNodes(STELLAR, [stand.url], timeout=30.0)
    stand.opened.append(nodes)
    param = SendParam(
        amount_ld=SHARED * 10,
        compose_msg=b"",
        dst_eid=30101,
        extra_options=b"",
        min_amount_ld=0,
        oft_cmd=b"",
        to=bytes(32),
    )
    who, fee = scval.to_address(holder.public_key), MessagingFee(NATIVE_FEE, 0)
    arguments = (who, struct(SendParam).encode(param), struct(MessagingFee).encode(fee), who)
    call = Invocation(StellarAddress(str(STELLAR.oft)), "send", arguments)
    address, number = StellarAddress(holder.public_key), 1
    bounds = Bounds(UnixSeconds(0), UnixSeconds(0))
    envelope = build_call(address, STELLAR.passphrase, number, call, Stroops(100), bounds)
    with pytest.raises(CallReverted, match="more than the consent"):
        nodes.simulate(envelope.to_xdr())
