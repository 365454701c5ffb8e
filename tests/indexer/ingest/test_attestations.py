"""Attestation polling: schedule, signature checks, and reasons while a message waits."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, delete, select

from devnet.evm_messages import Attesters, BurnMessage, address_word, message_nonce
from indexer.addresses import contract_as_bytes32, evm_as_bytes32
from indexer.bridges.cctp.events import (
    DepositForBurn,
    MessageReceived,
    MessageSent,
    MintAndForward,
    MintAndWithdraw,
)
from indexer.bridges.cctp.message import burn_key, parse_message, source_bytes
from indexer.chains.events import Event, Provenance
from indexer.chains.services.circle import Iris
from indexer.chains.services.layerzero_scan import LzScan
from indexer.chains.services.messages import Attestation
from indexer.config.networks import Network, load_network
from indexer.errors import FollowerConflict
from indexer.facts.alarms import open_alarms
from indexer.facts.cursors import Cursor, move_cursor, read_cursor
from indexer.facts.messages import verified_attestations
from indexer.facts.rows import EVENT_MAPPINGS, copy_into
from indexer.facts.sessions import lease_session
from indexer.ingest.attestations import PollProgress, poll, poll_attestations, poll_once
from indexer.ingest.attestations.pacing import MIN_SECONDS, next_poll
from indexer.ingest.attestations.record import REFUSED, UNVERIFIED
from indexer.ingest.rebuild import differences, rebuild
from indexer.movements.mechanisms import affected_movements
from indexer.movements.polls import MAX_POLL_SECONDS
from indexer.movements.store import refold_movements
from tests.factories.iris import FakeIris, FakeService, make_complete, make_pending, serving
from tests.factories.transfers import (
    GUID,
    make_hook,
    make_oft_received,
    make_oft_sent,
    make_packet_sent,
)
from warehouse_schema import locks
from warehouse_schema.events import cctp_burns, cctp_messages_sent
from warehouse_schema.facts import cctp_attestations, message_polls, message_status
from warehouse_schema.identifiers import (
    Address,
    BaseUnits,
    BlockHash,
    Bytes32,
    ChainId,
    EvmAddress,
    Height,
    TxHash,
    UnixSeconds,
    bytes32,
)
from warehouse_schema.projections import movements

GOLDEN = Path(__file__).parents[2] / "golden" / "cctp"
NETWORK = load_network("devnet")
TESTNET = load_network("testnet")
EVM = ChainId("eip155:31337")
STELLAR = NETWORK.stellar.id
USER = EvmAddress("0x" + "5e" * 20)
ATTESTERS = Attesters()
BURNED_AT = 1_700_000_000
FINAL_SECONDS = 65
"""Of the devnet's EVM chain: 64 confirmations of a second, and the block itself."""

assert NETWORK.stellar.cctp_forwarder is not None
FORWARDER = NETWORK.stellar.cctp_forwarder


@pytest.fixture
def service() -> Iterator[FakeIris]:
    service = FakeIris()
    with serving(service):
        yield service


@pytest.fixture
def iris(service: FakeIris, monkeypatch: pytest.MonkeyPatch) -> Iterator[Iris]:
    # The stand-in shuts nobody out for haste.
    monkeypatch.setattr("indexer.chains.services.circle.REQUESTS_PER_SECOND", 1000.0)
    client = Iris(service.url, timeout=20.0)
    yield client
    client.close()


@dataclass(frozen=True)
class MadeBurn:
    """A burn from the devnet's EVM chain to Stellar, and what attesters make of it."""

    tx: TxHash
    source: bytes
    events: tuple[Event, ...]

    @property
    def key(self) -> Bytes32:
        """Its burn key."""
        (message,) = (event for event in self.events if isinstance(event, MessageSent))
        assert message.burn_key is not None
        return message.burn_key

    def nonce(self, counter: int = 0) -> Bytes32:
        """The nonce that the service would choose; `counter` tells identical burns apart."""
        return bytes32(message_nonce(self.source, counter))

    def attested(self, *, counter: int = 0, **values: int) -> tuple[bytes, bytes]:
        """Message and attestation."""
        nonce = bytes.fromhex(self.nonce(counter)[2:])
        return ATTESTERS.attest(self.source, nonce=nonce, **{"finality_executed": 2000, **values})


def seen(chain: ChainId, tx: TxHash, height: int, position: int) -> Provenance:
    return Provenance(
        chain=chain,
        height=Height(height),
        block_hash=BlockHash(f"{height:064x}"),
        tx_hash=tx,
        position=position,
        block_time=UnixSeconds(BURNED_AT + height - 100),
    )


def evm_tx(letter: str) -> TxHash:
    return TxHash("0x" + letter * 64)


def make_burn(
    tx: str = "a",
    *,
    amount: int = 5_000_000,
    height: int = 100,
    position: int | None = None,
    min_finality: int = 2000,
    destination_domain: int = 27,
) -> MadeBurn:
    position = 10 * ord(tx) if position is None else position
    forwarder = bytes.fromhex(contract_as_bytes32(FORWARDER)[2:])
    message = BurnMessage(
        source_domain=0,
        destination_domain=destination_domain,
        sender=address_word(USER),
        recipient=forwarder,
        burn_token=address_word(USER),
        mint_recipient=forwarder,
        amount=amount,
        message_sender=address_word(USER),
        destination_caller=forwarder,
        min_finality=min_finality,
        hook_data=make_hook(),
    )
    source = message.encode()
    key = burn_key(0, destination_domain, bytes32(message.sender), source[148:])
    return MadeBurn(
        evm_tx(tx),
        source,
        (
            MessageSent(
                seen=seen(EVM, evm_tx(tx), height, position),
                message=source,
                source_domain=0,
                destination_domain=destination_domain,
                sender=evm_as_bytes32(USER),
                recipient=bytes32(forwarder),
                burn_key=key,
            ),
            DepositForBurn(
                seen=seen(EVM, evm_tx(tx), height, position + 1),
                burn_token=Address(USER),
                amount=BaseUnits(amount),
                depositor=Address(USER),
                mint_recipient=bytes32(forwarder),
                destination_domain=destination_domain,
                destination_token_messenger=bytes32(forwarder),
                destination_caller=bytes32(forwarder),
                max_fee=BaseUnits(0),
                min_finality_threshold=min_finality,
                hook_data=make_hook(),
            ),
        ),
    )


def make_mint(burn: MadeBurn, *, counter: int = 0, amount: int = 5_000_000) -> list[Event]:
    """The mint of a burn's message on Stellar, paid on."""
    message, _ = burn.attested(counter=counter)
    parsed = parse_message(message)
    tx = TxHash(f"{counter:064x}")
    return [
        MintAndWithdraw(
            seen=seen(STELLAR, tx, 900, 0),
            mint_recipient=Address(FORWARDER),
            amount=BaseUnits(amount),
            mint_token=Address(NETWORK.stellar.usdc_contract),
            fee_collected=BaseUnits(0),
        ),
        MessageReceived(
            seen=seen(STELLAR, tx, 900, 1),
            caller=Address(FORWARDER),
            source_domain=0,
            nonce=parsed.nonce,
            sender=parsed.sender,
            finality_threshold_executed=2000,
            message_body=parsed.raw_body,
            burn_key=burn.key,
        ),
        MintAndForward(
            seen=seen(STELLAR, tx, 900, 2),
            amount=BaseUnits(amount * 10),
            forward_recipient=FORWARDER,
            token=NETWORK.stellar.usdc_contract,
        ),
    ]


def ingest(engine: Engine, events: Sequence[Event], network: Network = NETWORK) -> None:
    """Events as a follower would have written them, movements refolded."""
    with engine.begin() as conn:
        for event in events:
            shelf = EVENT_MAPPINGS[type(event)]
            copy_into(conn, shelf.columns, [shelf.row(event)])
        refold_movements(conn, network, affected_movements(events))


def ingest_burns(engine: Engine, *burns: MadeBurn) -> None:
    ingest(engine, [event for burn in burns for event in burn.events])


def reach(engine: Engine, height: int) -> None:
    """Stellar read up to a ledger."""
    with engine.begin() as conn:
        cursor = Cursor(
            STELLAR,
            Height(height),
            BlockHash(f"{height:064x}"),
            UnixSeconds(BURNED_AT + height),
            Height(height + 1000),
            UnixSeconds(BURNED_AT + height + 1000),
        )
        move_cursor(conn, read_cursor(conn, STELLAR), cursor)


def movement_rows(engine: Engine) -> list[Any]:
    """Rows of `movements`, in order of their sources."""
    columns = movements.c
    with engine.connect() as conn:
        return list(conn.execute(select(movements).order_by(columns.sent_at, columns.id)))


def movement(engine: Engine) -> Any:
    (row,) = movement_rows(engine)
    return row


def stored(engine: Engine) -> list[Any]:
    with engine.connect() as conn:
        return list(conn.execute(select(cctp_attestations).order_by(cctp_attestations.c.id)))


def alarms(engine: Engine) -> list[tuple[str, str]]:
    with engine.connect() as conn:
        return [(alarm.kind, alarm.subject) for alarm in open_alarms(conn)]


def due_at(engine: Engine) -> list[int]:
    with engine.connect() as conn:
        return list(conn.scalars(select(message_polls.c.due_at)))


def attestations_of(engine: Engine, burn: MadeBurn) -> list[Attestation]:
    with engine.connect() as conn:
        found = verified_attestations(conn, [burn.nonce()])
    return [each for each in found.values() if each.source_tx == burn.tx]


# From burn to attestation.


def test_waiting_burn_has_status(indexer_engine: Engine, service: FakeIris, iris: Iris) -> None:
    burn = make_burn()
    ingest_burns(indexer_engine, burn)
    now = BURNED_AT

    def poll() -> Any:
        nonlocal now
        poll_once(indexer_engine, NETWORK, iris, now=now)
        now += MAX_POLL_SECONDS
        assert differences(indexer_engine, NETWORK) == []
        return movement(indexer_engine)

    waiting = "waiting for the attestation and its mint; the attestation service says: "
    assert poll().stage_reason == waiting + "not seen yet"
    service.publish(0, burn.tx)
    assert poll().stage_reason == waiting + "seen, not processed yet"
    service.publish(0, burn.tx, make_pending())
    assert poll().stage_reason == waiting + "pending_confirmations"
    service.publish(0, burn.tx, make_pending(delayReason="insufficient_fee"))
    assert poll().stage_reason == waiting + "pending_confirmations, insufficient_fee"
    service.publish(0, burn.tx, make_pending(burn.nonce(), status="complete"))
    row = poll()
    assert row.stage_reason == waiting + "complete, without a message and attestation to use"
    assert row.stage == "ATTESTING"

    message, attestation = burn.attested()
    service.publish(0, burn.tx, make_complete(message, attestation))
    row = poll()
    assert (row.stage, row.message_id) == ("DELIVERING", burn.nonce())
    assert row.stage_reason == "attested; waiting for its mint"
    (kept,) = attestations_of(indexer_engine, burn)
    assert (kept.message, kept.attestation) == (message, attestation)
    assert kept.attesters == ATTESTERS.addresses

    requests = len(service.calls)
    poll()
    assert (len(service.calls), due_at(indexer_engine), alarms(indexer_engine)) == (
        requests,
        [],
        [],
    )


def test_recorded_fast_message_verifies(
    indexer_engine: Engine, service: FakeIris, iris: Iris
) -> None:
    recorded = json.loads((GOLDEN / "attested-messages.json").read_text())["messages"][2]
    message = bytes.fromhex(recorded["message"][2:])
    attestation = bytes.fromhex(recorded["attestation"][2:])
    parsed = parse_message(message)
    assert parsed.body is not None
    base, tx = ChainId("eip155:84532"), TxHash(recorded["sourceTx"])
    sent = MessageSent(
        seen=seen(base, tx, 100, 0),
        message=source_bytes(message),
        source_domain=6,
        destination_domain=27,
        sender=parsed.sender,
        recipient=parsed.recipient,
        burn_key=burn_key(6, 27, parsed.sender, parsed.raw_body),
    )
    deposit = DepositForBurn(
        seen=seen(base, tx, 100, 1),
        burn_token=Address("0x" + parsed.body.burn_token[26:]),
        amount=parsed.body.amount,
        depositor=Address("0x" + parsed.body.message_sender[26:]),
        mint_recipient=parsed.body.mint_recipient,
        destination_domain=27,
        destination_token_messenger=parsed.recipient,
        destination_caller=parsed.destination_caller,
        max_fee=parsed.body.max_fee,
        min_finality_threshold=parsed.min_finality_threshold,
        hook_data=parsed.body.hook_data,
    )
    ingest(indexer_engine, [sent, deposit], TESTNET)
    service.publish(6, tx, make_complete(message, attestation))
    progress = poll_once(indexer_engine, TESTNET, iris, now=BURNED_AT)
    assert progress == PollProgress(polled=1, attested=1)
    row = movement(indexer_engine)
    assert (row.stage, row.message_id) == ("DELIVERING", parsed.nonce)
    (kept,) = stored(indexer_engine)
    assert tuple(kept.attesters) == TESTNET.attesters
    assert (kept.finality_threshold_executed, kept.fee_executed) == (1000, 260)
    assert kept.expiration_block == 0x48E5F1
    assert differences(indexer_engine, TESTNET) == []


def test_rebuild_gives_equal_rows(indexer_engine: Engine, service: FakeIris, iris: Iris) -> None:
    attested, waiting = make_burn("a"), make_burn("b", amount=7)
    ingest_burns(indexer_engine, attested, waiting)
    service.publish(0, attested.tx, make_complete(*attested.attested()))
    poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT)
    before = movement_rows(indexer_engine)
    rebuild(indexer_engine, NETWORK)
    assert movement_rows(indexer_engine) == before
    assert {row.stage for row in before} == {"ATTESTING", "DELIVERING"}


def test_each_burn_gets_its_attestation(
    indexer_engine: Engine, service: FakeIris, iris: Iris
) -> None:
    first, second = make_burn("a", amount=1, position=0), make_burn("a", amount=2, position=2)
    ingest_burns(indexer_engine, first, second)
    service.publish(
        0, first.tx, make_complete(*first.attested()), make_pending(delayReason="amount_above_max")
    )
    poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT)
    by_amount = {row.amount_in: row for row in movement_rows(indexer_engine)}
    assert by_amount[1].stage == "DELIVERING"
    assert by_amount[2].stage_reason.endswith("pending_confirmations, amount_above_max")
    assert len(due_at(indexer_engine)) == 1


def test_nonce_separates_identical_burns(
    indexer_engine: Engine, service: FakeIris, iris: Iris
) -> None:
    first, second = make_burn("a", height=100), make_burn("b", height=101)
    assert first.source == second.source
    ingest_burns(indexer_engine, first, second)
    ingest(indexer_engine, make_mint(second, counter=2))
    assert [row.stage for row in movement_rows(indexer_engine)] == ["COMPLETED", "ATTESTING"]
    service.publish(0, first.tx, make_complete(*first.attested(counter=1)))
    service.publish(0, second.tx, make_complete(*second.attested(counter=2)))
    poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT)
    rows = movement_rows(indexer_engine)
    assert [(row.source_tx, row.stage) for row in rows] == [
        (first.tx, "ATTESTING"),
        (second.tx, "COMPLETED"),
    ]
    poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT)
    rows = movement_rows(indexer_engine)
    assert [(row.stage, row.message_id) for row in rows] == [
        ("DELIVERING", first.nonce(1)),
        ("COMPLETED", second.nonce(2)),
    ]
    assert differences(indexer_engine, NETWORK) == []


def test_mint_ends_polling(indexer_engine: Engine, service: FakeIris, iris: Iris) -> None:
    burn = make_burn()
    ingest_burns(indexer_engine, burn)
    ingest(indexer_engine, make_mint(burn))
    assert poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT) == PollProgress()
    assert service.calls == []


@pytest.mark.parametrize("domain", [0, 6], ids=["between EVM chains", "to a chain not of ours"])
def test_burn_between_evm_chains_is_not_polled(
    indexer_engine: Engine, service: FakeIris, iris: Iris, domain: int
) -> None:
    ingest_burns(indexer_engine, make_burn(destination_domain=domain))
    assert poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT) == PollProgress()
    assert service.calls == []


# What is not believed.


def foreign(burn: MadeBurn) -> tuple[bytes, bytes]:
    """An attested message, well signed, of another burn."""
    return make_burn("a", amount=999).attested()


def other_signature(burn: MadeBurn) -> tuple[bytes, bytes]:
    message, _ = burn.attested()
    return message, ATTESTERS.sign(message + b"!")


def wrong_order(burn: MadeBurn) -> tuple[bytes, bytes]:
    message, attestation = burn.attested()
    return message, attestation[65:] + attestation[:65]


def one_signature(burn: MadeBurn) -> tuple[bytes, bytes]:
    message, attestation = burn.attested()
    return message, attestation[:65]


def changed_amount(burn: MadeBurn) -> tuple[bytes, bytes]:
    message, _ = burn.attested()
    changed = message[:216] + (10**18).to_bytes(32, "big") + message[248:]
    return changed, ATTESTERS.sign(changed)


def no_message(burn: MadeBurn) -> tuple[bytes, bytes]:
    return b"no message", ATTESTERS.sign(b"no message")


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        (foreign, "none that the transaction emitted"),
        (changed_amount, "none that the transaction emitted"),
        (no_message, "none that the transaction emitted"),
        (other_signature, "network file does not name|not strictly ascending"),
        (wrong_order, "not strictly ascending"),
        (one_signature, "1 attesters signed; it takes 2"),
    ],
)
def test_unverified_attestation_is_alarmed(
    indexer_engine: Engine,
    service: FakeIris,
    iris: Iris,
    forge: Callable[[MadeBurn], tuple[bytes, bytes]],
    reason: str,
) -> None:
    burn = make_burn()
    ingest_burns(indexer_engine, burn)
    nonce = {"eventNonce": burn.nonce()}
    service.publish(0, burn.tx, make_complete(*forge(burn), **nonce))
    progress = poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT)
    assert (progress.attested, progress.unverified) == (0, 1)
    (kept,) = stored(indexer_engine)
    assert not kept.verified
    assert any(part in kept.refusal for part in reason.split("|"))
    row = movement(indexer_engine)
    assert (row.stage, row.message_id) == ("ATTESTING", None)
    assert "unverified" in row.stage_reason
    assert [kind for kind, _ in alarms(indexer_engine)] == [UNVERIFIED]
    assert attestations_of(indexer_engine, burn) == []

    again = poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT + MAX_POLL_SECONDS)
    assert (again.polled, again.unverified) == (1, 0)

    service.publish(0, burn.tx, make_complete(*burn.attested()))
    poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT + 3 * MAX_POLL_SECONDS)
    row = movement(indexer_engine)
    assert (row.stage, row.stage_reason) == ("DELIVERING", "attested; waiting for its mint")
    assert len(attestations_of(indexer_engine, burn)) == 1
    assert differences(indexer_engine, NETWORK) == []


def test_verified_attestation_clears_alarm(
    indexer_engine: Engine, service: FakeIris, iris: Iris
) -> None:
    burn = make_burn()
    ingest_burns(indexer_engine, burn)
    service.publish(0, burn.tx, make_complete(*wrong_order(burn)))
    poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT)
    assert alarms(indexer_engine) == [(UNVERIFIED, f"{burn.tx}/{burn.nonce()}")]
    service.publish(0, burn.tx, make_complete(*burn.attested()))
    poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT + MAX_POLL_SECONDS)
    assert alarms(indexer_engine) == []
    (kept,) = stored(indexer_engine)
    assert kept.verified


def test_unknown_attesters_are_refused(
    indexer_engine: Engine, service: FakeIris, iris: Iris
) -> None:
    network = replace(NETWORK, attesters=TESTNET.attesters)
    burn = make_burn()
    ingest_burns(indexer_engine, burn)
    service.publish(0, burn.tx, make_complete(*burn.attested()))
    poll_once(indexer_engine, network, iris, now=BURNED_AT)
    (kept,) = stored(indexer_engine)
    assert "whom the network file does not name" in kept.refusal
    assert tuple(kept.attesters) == ATTESTERS.addresses


def test_missing_attesters_raise_one_alarm(
    indexer_engine: Engine, service: FakeIris, iris: Iris
) -> None:
    nobody = replace(NETWORK, attesters=(), attestation_threshold=0)
    burns = [make_burn("a", amount=1), make_burn("b", amount=2)]
    ingest_burns(indexer_engine, *burns)
    for burn in burns:
        service.publish(0, burn.tx, make_complete(*burn.attested()))
    progress = poll_once(indexer_engine, nobody, iris, now=BURNED_AT)
    assert (progress.attested, progress.unverified) == (0, 2)
    assert {row.stage for row in movement_rows(indexer_engine)} == {"ATTESTING"}
    assert alarms(indexer_engine) == [(UNVERIFIED, "attesters")]
    # Named at last, the same answers count.
    poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT + MAX_POLL_SECONDS)
    assert {row.stage for row in movement_rows(indexer_engine)} == {"DELIVERING"}
    assert alarms(indexer_engine) == []


def test_contradicting_nonce_is_refused(
    indexer_engine: Engine, service: FakeIris, iris: Iris
) -> None:
    burn = make_burn()
    ingest_burns(indexer_engine, burn)
    item = make_complete(*burn.attested(), eventNonce="0x" + "77" * 32)
    service.publish(0, burn.tx, item)
    poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT)
    (kept,) = stored(indexer_engine)
    assert "the service calls it 0x7777" in kept.refusal


def test_foreign_message_raises_no_alarm(
    indexer_engine: Engine, service: FakeIris, iris: Iris
) -> None:
    burn = make_burn(position=2)
    own = burn.source[:148] + b"a body of their own"
    message_sent = next(event for event in burn.events if isinstance(event, MessageSent))
    theirs = replace(message_sent, seen=seen(EVM, burn.tx, 100, 0), message=own, burn_key=None)
    ingest(indexer_engine, [theirs, *burn.events])
    attested = own[:12] + b"\x07" * 32 + own[44:144] + (2000).to_bytes(4, "big") + own[148:]
    service.publish(
        0,
        burn.tx,
        make_complete(attested, ATTESTERS.sign(attested)),
        make_complete(*burn.attested()),
        make_complete(b"v1" * 124, b"s" * 130, cctpVersion=1, eventNonce="9682"),
    )
    progress = poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT)
    assert progress == PollProgress(polled=1, attested=1)
    assert (movement(indexer_engine).stage, alarms(indexer_engine)) == ("DELIVERING", [])


def test_service_text_is_printable(indexer_engine: Engine, service: FakeIris, iris: Iris) -> None:
    burn = make_burn()
    ingest_burns(indexer_engine, burn)
    words = "a\x00b\ud800\n<script>" + "x" * 1000
    service.publish(0, burn.tx, make_pending(delayReason=words))
    poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT)
    with indexer_engine.connect() as conn:
        (detail,) = conn.scalars(select(message_status.c.detail))
    assert detail.startswith("ab <script>xxx")
    assert len(detail) == 200


# Fast messages expire.


def make_expiring(engine: Engine, service: FakeIris, iris: Iris) -> MadeBurn:
    """A fast burn, attested until ledger 500 of Stellar, which is read up to 499."""
    burn = make_burn(min_finality=1000)
    ingest_burns(engine, burn)
    reach(engine, 499)
    fast = burn.attested(finality_executed=1000, fee_executed=500, expiration=500)
    service.publish(0, burn.tx, make_complete(*fast))
    poll_once(engine, NETWORK, iris, now=BURNED_AT)
    assert movement(engine).stage == "DELIVERING"
    service.calls.clear()
    return burn


def test_expired_message_is_reattested(
    indexer_engine: Engine, service: FakeIris, iris: Iris
) -> None:
    burn = make_expiring(indexer_engine, service, iris)
    poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT + 86_400)
    assert service.calls == []

    reach(indexer_engine, 500)
    finalized = burn.attested(finality_executed=2000, fee_executed=500)
    service.on_reattest(
        burn.nonce(), lambda: service.publish(0, burn.tx, make_complete(*finalized))
    )
    progress = poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT + 86_500)
    assert (service.reattested, progress.attested) == ([burn.nonce()], 1)
    (newest,) = attestations_of(indexer_engine, burn)
    assert (newest.finality_threshold_executed, newest.expiration_block) == (2000, 0)
    assert [row.expiration_block for row in stored(indexer_engine)] == [500, 0]
    row = movement(indexer_engine)
    assert (row.stage, row.message_id) == ("DELIVERING", burn.nonce())
    assert row.stage_reason == "attested; waiting for its mint"
    poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT + 200_000)
    assert service.reattested == [burn.nonce()]
    assert differences(indexer_engine, NETWORK) == []


def test_refused_reattestation_is_retried(
    indexer_engine: Engine, service: FakeIris, iris: Iris
) -> None:
    burn = make_expiring(indexer_engine, service, iris)
    reach(indexer_engine, 500)
    now = BURNED_AT + 86_500
    for _ in range(25):
        poll_once(indexer_engine, NETWORK, iris, now=now)
        (due,) = due_at(indexer_engine)
        assert MIN_SECONDS <= due - now <= MAX_POLL_SECONDS
        now = due
    assert service.reattested == [burn.nonce()] * 3
    row = movement(indexer_engine)
    assert row.stage == "DELIVERING"
    assert row.stage_reason == (
        "attested; waiting for its mint; "
        "the attestation service says: expired, a new attestation was asked for"
    )
    assert alarms(indexer_engine) == []


def test_minted_message_is_not_reattested(
    indexer_engine: Engine, service: FakeIris, iris: Iris
) -> None:
    burn = make_expiring(indexer_engine, service, iris)
    ingest(indexer_engine, make_mint(burn))
    reach(indexer_engine, 901)
    poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT + 86_500)
    assert service.calls == []


# When to ask.


@given(st.integers(-10_000, 10**9), st.integers(0, 10**6), st.integers(0, 10**5))
def test_poll_interval_is_bounded(age: int, attempts: int, expected: int) -> None:
    assert MIN_SECONDS <= next_poll(age, attempts, expected) <= MAX_POLL_SECONDS


@given(st.integers(0, 10**5), st.integers(0, 10**5), st.integers(0, 10**5))
def test_interval_grows_after_expected_time(overdue: int, later: int, expected: int) -> None:
    first = next_poll(expected + overdue, 1, expected)
    assert next_poll(expected + overdue + later, 2, expected) >= first


@given(st.integers(0, 10**6), st.integers(0, 10**5))
def test_interval_doubles_after_many_attempts(age: int, expected: int) -> None:
    assert next_poll(age, 110, expected) == MAX_POLL_SECONDS


def test_interval_shrinks_before_expected_time() -> None:
    assert [next_poll(age, 1, 800) for age in (0, 400, 700, 799, 800, 900, 1600)] == [
        100,
        50,
        12,
        5,
        5,
        12,
        100,
    ]


def test_hour_of_404_costs_few_requests(
    indexer_engine: Engine, service: FakeIris, iris: Iris
) -> None:
    ingest_burns(indexer_engine, make_burn())
    now = BURNED_AT
    requests = []
    while now < BURNED_AT + 3600:
        assert poll_once(indexer_engine, NETWORK, iris, now=now).polled == 1
        requests.append(now - BURNED_AT)
        (now,) = due_at(indexer_engine)
    assert len(requests) < 60
    assert min(abs(age - FINAL_SECONDS) for age in requests) <= MIN_SECONDS
    assert movement(indexer_engine).stage == "ATTESTING"
    assert alarms(indexer_engine) == []


def test_restart_keeps_schedule(indexer_engine: Engine, service: FakeIris, iris: Iris) -> None:
    ingest_burns(indexer_engine, make_burn())
    poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT)
    (due,) = due_at(indexer_engine)
    indexer_engine.dispose()
    assert poll_once(indexer_engine, NETWORK, iris, now=due - 1) == PollProgress()
    assert poll_once(indexer_engine, NETWORK, iris, now=due).polled == 1
    assert len(service.calls) == 2


def test_clock_set_back_stops_nothing(
    indexer_engine: Engine, service: FakeIris, iris: Iris
) -> None:
    ingest_burns(indexer_engine, make_burn())
    poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT + 2 * MAX_POLL_SECONDS)
    assert poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT).polled == 1


def test_many_messages_take_several_rounds(
    indexer_engine: Engine, service: FakeIris, iris: Iris, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poll, "BATCH", 2)
    burns = [make_burn(letter, amount=n + 1) for n, letter in enumerate("abc")]
    ingest_burns(indexer_engine, *burns)
    for _ in range(2):
        poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT)
    assert len(set(service.calls)) == 3


# Services that fail.


def test_lockout_is_no_attempt(indexer_engine: Engine, service: FakeIris, iris: Iris) -> None:
    ingest_burns(indexer_engine, make_burn("a", amount=1), make_burn("b", amount=2))
    service.shut = True
    progress = poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT)
    assert progress.polled == progress.unanswered == 0
    assert progress.locked_out == pytest.approx(300, abs=5)
    assert due_at(indexer_engine) == []
    requests = len(service.calls)
    assert requests <= poll.MAX_IN_FLIGHT
    service.shut = False
    poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT)
    assert len(service.calls) == requests


def test_failed_request_is_retried_when_due(
    indexer_engine: Engine, service: FakeIris, iris: Iris
) -> None:
    burn = make_burn()
    ingest_burns(indexer_engine, burn)
    service.answer(f"GET /v2/messages/0?transactionHash={burn.tx}", 503, b"")
    assert poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT).unanswered == 1
    (due,) = due_at(indexer_engine)
    assert due >= BURNED_AT + MIN_SECONDS
    assert movement(indexer_engine).stage == "ATTESTING"


def test_refused_request_is_alarmed(indexer_engine: Engine, service: FakeIris, iris: Iris) -> None:
    burn = make_burn()
    ingest_burns(indexer_engine, burn)
    service.answer(f"GET /v2/messages/0?transactionHash={burn.tx}", 400, b'{"message": "no"}')
    poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT)
    assert alarms(indexer_engine) == [(REFUSED, burn.tx)]
    assert due_at(indexer_engine) == [BURNED_AT + MAX_POLL_SECONDS]
    service.answer(f"GET /v2/messages/0?transactionHash={burn.tx}", 404, b'{"error": "not yet"}')
    poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT + MAX_POLL_SECONDS)
    assert alarms(indexer_engine) == []


def test_reorg_during_poll_leaves_nothing(
    indexer_engine: Engine, service: FakeIris, iris: Iris, monkeypatch: pytest.MonkeyPatch
) -> None:
    burn = make_burn()
    ingest_burns(indexer_engine, burn)
    service.publish(0, burn.tx, make_complete(*burn.attested()))
    messages_of = iris.messages_of_transaction

    def take_back(domain: int, tx: TxHash) -> Any:
        with indexer_engine.begin() as conn:
            for table in (cctp_messages_sent, cctp_burns):
                conn.execute(delete(table))
            refold_movements(conn, NETWORK, [("cctp", burn.key)])
        return messages_of(domain, tx)

    monkeypatch.setattr(iris, "messages_of_transaction", take_back)
    assert poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT).attested == 0
    assert (movement_rows(indexer_engine), stored(indexer_engine)) == ([], [])
    assert due_at(indexer_engine) == []


# LayerZero Scan.


MAINNET = load_network("mainnet")


@pytest.fixture
def scan_service() -> Iterator[FakeService]:
    service = FakeService()
    with serving(service):
        yield service


@pytest.fixture
def scan(scan_service: FakeService, monkeypatch: pytest.MonkeyPatch) -> Iterator[LzScan]:
    monkeypatch.setattr("indexer.chains.services.layerzero_scan.REQUESTS_PER_SECOND", 1000.0)
    client = LzScan(scan_service.url, timeout=20.0)
    yield client
    client.close()


def scan_answer(nonce: int = 1, name: str = "BLOCKED") -> bytes:
    pathway = {"srcEid": 30101, "nonce": nonce, "sender": {"address": "0x" + "00" * 20}}
    status = {"name": name, "message": "DVN mismatch"}
    return json.dumps({"data": [{"guid": GUID, "pathway": pathway, "status": status}]}).encode()


def test_explorer_status_changes_no_stage(
    indexer_engine: Engine, iris: Iris, scan_service: FakeService, scan: LzScan
) -> None:
    ingest(indexer_engine, [make_oft_sent(), make_packet_sent()], MAINNET)
    call = f"GET /messages/guid/{GUID}"
    waiting = "waiting for the message layer to verify it; LayerZero Scan says: "

    def reason(now: int) -> str:
        poll_once(indexer_engine, MAINNET, iris, scan=scan, now=now)
        assert differences(indexer_engine, MAINNET) == []
        row = movement(indexer_engine)
        assert row.stage == "IN_FLIGHT"
        return str(row.stage_reason)

    assert reason(BURNED_AT) == waiting + "not seen yet"
    scan_service.answer(call, 200, scan_answer(nonce=2, name="DELIVERED"))
    assert reason(BURNED_AT + MAX_POLL_SECONDS) == waiting + "not seen yet"
    scan_service.answer(call, 200, scan_answer())
    assert reason(BURNED_AT + 2 * MAX_POLL_SECONDS) == waiting + "BLOCKED, DVN mismatch"
    scan_service.answer(call, 200, scan_answer(name="DELIVERED"))
    assert reason(BURNED_AT + 3 * MAX_POLL_SECONDS) == waiting + "DELIVERED, DVN mismatch"

    ingest(indexer_engine, [make_oft_received()], MAINNET)
    row = movement(indexer_engine)
    assert (row.stage, row.stage_reason) == ("COMPLETED", None)
    requests = len(scan_service.calls)
    poll_once(indexer_engine, MAINNET, iris, scan=scan, now=BURNED_AT + 9 * MAX_POLL_SECONDS)
    assert len(scan_service.calls) == requests


def test_send_without_packet_is_not_polled(
    indexer_engine: Engine, iris: Iris, scan_service: FakeService, scan: LzScan
) -> None:
    ingest(indexer_engine, [make_oft_sent()], MAINNET)
    poll_once(indexer_engine, MAINNET, iris, scan=scan, now=BURNED_AT)
    assert scan_service.calls == []


# The loop.


def test_loop_polls_until_stopped(
    indexer_engine: Engine, service: FakeIris, iris: Iris, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poll, "_IDLE_SECONDS", 0.01)
    burn = make_burn()
    ingest_burns(indexer_engine, burn)
    service.publish(0, burn.tx, make_complete(*burn.attested()))
    seen_progress: list[PollProgress] = []
    poll_attestations(
        indexer_engine,
        NETWORK,
        iris,
        should_stop=lambda: bool(seen_progress),
        on_progress=seen_progress.append,
    )
    assert seen_progress == [PollProgress(polled=1, attested=1)]
    assert movement(indexer_engine).stage == "DELIVERING"


def test_loop_prunes_polls(
    indexer_engine: Engine, service: FakeIris, iris: Iris, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poll, "_IDLE_SECONDS", 0.01)
    burn = make_burn()
    ingest_burns(indexer_engine, burn)
    poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT)
    ingest(indexer_engine, make_mint(burn))
    assert len(due_at(indexer_engine)) == 1
    # Told to stop once it has begun and polled.
    stops = chain([False, False, False], repeat(True))
    poll_attestations(
        indexer_engine,
        NETWORK,
        iris,
        should_stop=lambda: next(stops),
        on_progress=lambda progress: None,
    )
    assert due_at(indexer_engine) == []
    with indexer_engine.connect() as conn:
        assert list(conn.execute(select(message_status))) == []
    assert differences(indexer_engine, NETWORK) == []


@pytest.mark.usefixtures("long_leases")
def test_second_poller_is_refused(indexer_engine: Engine, iris: Iris) -> None:
    with (
        lease_session(indexer_engine, locks.POLLER, "", "held"),
        pytest.raises(FollowerConflict, match="another process asks"),
    ):
        poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT)
    assert poll_once(indexer_engine, NETWORK, iris, now=BURNED_AT) == PollProgress()
