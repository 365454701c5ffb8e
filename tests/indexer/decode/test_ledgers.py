from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from stellar_sdk import scval, xdr

from indexer.chains.recorded import recorded_ledgers
from indexer.decode.ledger_hashes import LedgerProof, is_of_network, verify_ledger
from indexer.decode.ledgers import (
    NEWEST_PROTOCOL,
    Ledger,
    block_of_header,
    block_of_meta,
    check_linked,
    closed_ledger,
    header_entry,
    parse_meta,
    read_ledger,
)
from indexer.decode.positions import parse_event_id
from indexer.decode.stellar import decode
from indexer.decode.stellar_assets import classify_asset_event
from indexer.errors import InconsistentAnswer, UnsupportedProtocol
from indexer.events.tokens import AssetAuthorization, AssetMovement
from tests.factories.stellar_ledgers import FILES, HEIGHTS, LAKE_63092988, recorded_metas
from tests.factories.stellar_recorded import PUBNET, TESTNET


def _ledger(height: int) -> Ledger:
    return read_ledger(recorded_metas()[height], PUBNET.id)


def _changed(height: int) -> xdr.LedgerCloseMeta:
    """A copy to change."""
    return parse_meta(recorded_metas()[height].to_xdr_bytes())


@pytest.mark.parametrize("height", HEIGHTS)
def test_every_hash_of_a_recorded_ledger_is_right(height: int) -> None:
    invocations = {51000294: 1, 53312000: 1, 63092990: 6}.get(height, 0)
    proof = verify_ledger(recorded_metas()[height], PUBNET.passphrase)
    assert proof == LedgerProof(invocations, unproven=())


def test_recorded_ledgers_are_what_they_were(golden: Callable[[str, Any], None]) -> None:
    golden("stellar/expected/ledgers.json", [_summary(_ledger(height)) for height in HEIGHTS])


def _summary(ledger: Ledger) -> dict[str, Any]:
    kinds = Counter(_kind(event) for event in (*ledger.events, *ledger.failed_fees))
    return {
        "block": ledger.block,
        "transactions": len(ledger.transactions),
        "successful": sum(transaction.successful for transaction in ledger.transactions),
        "events": len(ledger.events),
        "failed_fees": len(ledger.failed_fees),
        "asset_events": dict(kinds),
        "first_ids": [event.event_id for event in ledger.events[:3]],
        "last_ids": [event.event_id for event in ledger.events[-3:]],
    }


def _kind(event: Any) -> str:
    found = classify_asset_event(event, PUBNET.passphrase)
    return found.kind if isinstance(found, AssetMovement) else type(found).__name__


def test_every_event_of_the_recorded_ledgers_is_an_assets_but_four() -> None:
    found: Counter[type] = Counter()
    for height in HEIGHTS:
        ledger = _ledger(height)
        for event in (*ledger.events, *ledger.failed_fees):
            found[type(classify_asset_event(event, PUBNET.passphrase))] += 1
    assert found == {AssetMovement: 2167, AssetAuthorization: 2, type(None): 4}


def test_nothing_in_a_recorded_ledger_stops_our_decoder() -> None:
    events = [event for height in HEIGHTS for event in _ledger(height).events]
    kept = [row for row in (decode(event, PUBNET) for event in events) if row is not None]
    assert len(events) == 1559
    # Of our contracts only the USDC asset's was at work.
    assert {type(row) for row in kept} == {AssetMovement}
    assert {row.contract for row in kept if isinstance(row, AssetMovement)} == {
        PUBNET.usdc_contract
    }


@pytest.mark.parametrize("height", HEIGHTS)
def test_events_stand_in_the_order_of_their_ids(height: int) -> None:
    ledger = _ledger(height)
    ids = [event.event_id for event in ledger.events]
    assert ids == sorted(set(ids))
    for event in ledger.events:
        event_id = parse_event_id(event.event_id)
        assert event_id.ledger == height == event.seen.height
        assert event.seen.position == event_id.position
        if 0 < event_id.transaction <= len(ledger.transactions):
            assert ledger.transactions[event_id.transaction - 1].hash == event.seen.tx_hash


def test_events_outside_of_operations_stand_at_the_edges() -> None:
    after_transaction = {
        parse_event_id(event.event_id).operation
        for event in _ledger(51000294).events
        if parse_event_id(event.event_id).operation > 100
    }
    assert after_transaction == {4095}
    newer = _ledger(63092990)
    charges = [e for e in (*newer.events, *newer.failed_fees) if _tx(e) == 0]
    refunds = [e for e in (*newer.events, *newer.failed_fees) if _tx(e) == 1048575]
    assert len(charges) == len(newer.transactions) == 236
    assert sorted(_index(e) for e in charges) == list(range(236))
    assert sorted(_index(e) for e in refunds) == list(range(25))


def _tx(event: Any) -> int:
    return parse_event_id(event.event_id).transaction


def _index(event: Any) -> int:
    return parse_event_id(event.event_id).index


def test_failed_transactions_emit_nothing_but_fees() -> None:
    for height in HEIGHTS:
        ledger = _ledger(height)
        failed = {t.hash for t in ledger.transactions if not t.successful}
        assert {event.seen.tx_hash for event in ledger.events}.isdisjoint(failed)
        for event in ledger.failed_fees:
            found = classify_asset_event(event, PUBNET.passphrase)
            assert event.seen.tx_hash in failed
            assert isinstance(found, AssetMovement)
            assert found.kind == "fee"


def test_a_header_is_read_without_the_rest_of_its_ledger() -> None:
    for file in FILES:
        for raw in recorded_ledgers(file):
            block = block_of_meta(raw[:2000], PUBNET.id)
            assert block == _ledger(block.height).block


def test_a_header_is_read_as_rpc_gives_it() -> None:
    entry = closed_ledger(recorded_metas()[63092988]).ledger_header
    block = block_of_header(entry.to_xdr_bytes(), PUBNET.id)
    assert block == _ledger(63092988).block
    assert (block.time, block.protocol_version) == (1781828486, 26)


# What must not be believed.


def test_a_ledger_newer_than_our_xdr_is_refused_before_it_is_read() -> None:
    raw = bytearray(next(recorded_ledgers(LAKE_63092988)))
    at = raw.index(header_entry(bytes(raw)).hash.hash) + 32
    assert raw[at : at + 4] == bytes((0, 0, 0, 26))
    raw[at : at + 4] = (NEWEST_PROTOCOL + 1).to_bytes(4, "big")
    for cut in (raw, raw[: at + 4]):
        with pytest.raises(UnsupportedProtocol, match=f"protocol {NEWEST_PROTOCOL + 1}"):
            parse_meta(bytes(cut))


@pytest.mark.parametrize("raw", [b"", b"\0\0\0\1", b"\0\0\0\x09" + bytes(400), bytes(400)])
def test_what_is_no_ledger_is_refused(raw: bytes) -> None:
    with pytest.raises(InconsistentAnswer):
        read_ledger(raw, PUBNET.id)


def test_a_ledger_that_is_cut_short_is_refused() -> None:
    raw = next(recorded_ledgers(LAKE_63092988))
    with pytest.raises(InconsistentAnswer, match="not the XDR of a ledger"):
        read_ledger(raw[:-4], PUBNET.id)


def test_a_header_with_another_hash_is_refused() -> None:
    meta = _changed(26154623)
    closed_ledger(meta).ledger_header.header.base_fee = xdr.Uint32(1)
    with pytest.raises(InconsistentAnswer, match="header"):
        verify_ledger(meta, PUBNET.passphrase)
    with pytest.raises(InconsistentAnswer, match="does not hash"):
        read_ledger(meta, PUBNET.id)


def test_a_transaction_set_that_was_changed_is_refused() -> None:
    meta = _changed(26154623)
    assert meta.v0 is not None
    meta.v0.tx_set.txs.pop()
    with pytest.raises(InconsistentAnswer, match="transaction set"):
        verify_ledger(meta, PUBNET.passphrase)


def test_results_in_another_order_are_refused() -> None:
    meta = _changed(26154623)
    closed_ledger(meta).tx_processing.reverse()
    with pytest.raises(InconsistentAnswer, match="results"):
        verify_ledger(meta, PUBNET.passphrase)


def test_a_ledger_of_another_network_is_told_apart() -> None:
    meta = recorded_metas()[26154623]
    assert is_of_network(meta, PUBNET.passphrase)
    assert not is_of_network(meta, TESTNET.passphrase)
    with pytest.raises(InconsistentAnswer, match="not those of its transactions"):
        verify_ledger(meta, TESTNET.passphrase)


def _with_a_forged_event(height: int) -> xdr.LedgerCloseMeta:
    """A ledger whose first invocation emits the number 7 as its first event's data."""
    meta = _changed(height)
    for applied in closed_ledger(meta).tx_processing:
        v4 = applied.tx_apply_processing.v4
        if v4 is not None and v4.soroban_meta is not None and v4.soroban_meta.return_value:
            for operation in v4.operations:
                for event in operation.events:
                    assert event.body.v0 is not None
                    event.body.v0.data = scval.to_uint32(7)
                    return meta
    raise AssertionError("no invocation emitted an event")


def test_a_forged_contract_event_is_refused() -> None:
    with pytest.raises(InconsistentAnswer, match="did not emit these events"):
        verify_ledger(_with_a_forged_event(63092990), PUBNET.passphrase)


def test_events_rewritten_by_a_back_fill_are_counted_as_unproven() -> None:
    # In back-filled ledgers before protocol 23 an old event may stand in its new form.
    proof = verify_ledger(_with_a_forged_event(51000294), PUBNET.passphrase)
    assert (proof.invocations, len(proof.unproven)) == (1, 1)


def test_ledgers_must_follow_one_another() -> None:
    first, later = _ledger(63092988).block, _ledger(63092990).block
    check_linked([])
    check_linked([first])
    with pytest.raises(InconsistentAnswer, match="63092990 does not follow 63092988"):
        check_linked([first, later])
