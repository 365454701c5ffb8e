"""Contents of the recorded ledgers, and refused headers."""

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from indexer.bridges.tokens.decode_stellar import classify_asset_event
from indexer.bridges.tokens.events import AssetAuthorization, AssetMovement
from indexer.chains.stellar.xdr.close_meta import decode_ledger
from indexer.chains.stellar.xdr.event_ids import parse_event_id
from indexer.chains.stellar.xdr.ledgers import (
    NEWEST_PROTOCOL,
    Ledger,
    LedgerProof,
    block_of_header,
    block_of_meta,
    check_linked,
)
from indexer.decode.stellar import decode
from indexer.errors import InconsistentAnswer, UnsupportedProtocol
from tests.factories.newer_ledgers import (
    BOUNDARY,
    EMPTY_BOUNDARY,
    EMPTY_P30,
    MILLISECONDS,
    P29,
    P30,
    Closing,
    closed_as,
    header_entry,
)
from tests.factories.recorded_ledgers import recorded_ledgers
from tests.factories.sdk_ledgers import closed_ledger
from tests.factories.stellar_lake import recorded_raws
from tests.factories.stellar_ledgers import FILES, HEIGHTS, LAKE_63092988, recorded_metas
from tests.factories.stellar_recorded import PUBNET


@cache
def _read(height: int) -> tuple[Ledger, LedgerProof]:
    return decode_ledger(recorded_raws()[height], PUBNET.id, PUBNET.passphrase)


def _ledger(height: int) -> Ledger:
    return _read(height)[0]


@pytest.mark.parametrize("height", HEIGHTS)
def test_recorded_ledgers_pass_every_hash(height: int) -> None:
    invocations = {51000294: 1, 53312000: 1, 63092990: 6}.get(height, 0)
    assert _read(height)[1] == LedgerProof(invocations, unproven=())


def test_recorded_ledgers_have_the_golden_contents(golden: Callable[[str, Any], None]) -> None:
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


def test_recorded_events_are_of_assets_but_four() -> None:
    found: Counter[type] = Counter()
    for height in HEIGHTS:
        ledger = _ledger(height)
        for event in (*ledger.events, *ledger.failed_fees):
            found[type(classify_asset_event(event, PUBNET.passphrase))] += 1
    assert found == {AssetMovement: 2167, AssetAuthorization: 2, type(None): 4}


def test_recorded_ledgers_decode_without_error() -> None:
    events = [event for height in HEIGHTS for event in _ledger(height).events]
    kept = [row for row in (decode(event, PUBNET) for event in events) if row is not None]
    assert len(events) == 1559
    # Of our contracts only the USDC asset's was at work.
    assert {type(row) for row in kept} == {AssetMovement}
    assert {row.contract for row in kept if isinstance(row, AssetMovement)} == {
        PUBNET.usdc_contract
    }


def test_events_are_ordered_by_event_id() -> None:
    for height in HEIGHTS:
        ledger = _ledger(height)
        ids = [event.event_id for event in ledger.events]
        assert ids == sorted(set(ids))
        for event in ledger.events:
            event_id = parse_event_id(event.event_id)
            assert event_id.ledger == height == event.seen.height
            assert event.seen.position == event_id.position
            if 0 < event_id.transaction <= len(ledger.transactions):
                assert ledger.transactions[event_id.transaction - 1].hash == event.seen.tx_hash


def test_events_outside_operations_have_edge_ids() -> None:
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


def test_failed_transactions_emit_only_fees() -> None:
    for height in HEIGHTS:
        ledger = _ledger(height)
        failed = {t.hash for t in ledger.transactions if not t.successful}
        assert {event.seen.tx_hash for event in ledger.events}.isdisjoint(failed)
        for event in ledger.failed_fees:
            found = classify_asset_event(event, PUBNET.passphrase)
            assert event.seen.tx_hash in failed
            assert isinstance(found, AssetMovement)
            assert found.kind == "fee"


def test_header_decodes_without_its_ledger() -> None:
    for file in FILES:
        for raw in recorded_ledgers(file):
            block = block_of_meta(raw[:2000], PUBNET.id)
            assert block == _ledger(block.height).block


def test_header_is_read_as_rpc_gives_it() -> None:
    entry = closed_ledger(recorded_metas()[63092988]).ledger_header
    block = block_of_header(entry.to_xdr_bytes(), PUBNET.id)
    assert block == _ledger(63092988).block
    assert (block.time, block.protocol_version) == (1781828486, 26)


# Headers of protocols 29 and 30.


@pytest.mark.parametrize("closing", [P29, BOUNDARY, EMPTY_BOUNDARY])
def test_header_with_whole_seconds_has_no_milliseconds(closing: Closing) -> None:
    for height in HEIGHTS:
        recorded, raw = _ledger(height).block, closed_as(recorded_raws()[height], closing)
        block = block_of_meta(raw[:2000], PUBNET.id)
        assert (block.height, block.time) == (height, recorded.time)
        assert (block.protocol_version, block.close_time_ms) == (closing.protocol, None)
        assert block.parent_hash == recorded.parent_hash != block.hash != recorded.hash


@pytest.mark.parametrize("closing", [P30, EMPTY_P30])
def test_header_with_milliseconds_is_read(closing: Closing) -> None:
    for height in HEIGHTS:
        recorded, raw = _ledger(height).block, closed_as(recorded_raws()[height], closing)
        block = block_of_meta(raw[:2000], PUBNET.id)
        assert block.time == recorded.time
        assert block.close_time_ms == recorded.time * 1000 + MILLISECONDS
        assert block_of_header(header_entry(raw, closing), PUBNET.id) == block


def test_milliseconds_of_another_second_are_refused() -> None:
    raw = closed_as(recorded_raws()[63092988], P30, seconds_ahead=1)
    with pytest.raises(InconsistentAnswer, match="closed at 1781828486 s and at 1781828487789 ms"):
        block_of_meta(raw, PUBNET.id)


# What must not be believed.


def test_protocol_newer_than_schema_is_unsupported() -> None:
    raw = bytearray(next(recorded_ledgers(LAKE_63092988)))
    at = raw.index(bytes.fromhex(_ledger(63092988).block.hash)) + 32
    assert raw[at : at + 4] == bytes((0, 0, 0, 26))
    raw[at : at + 4] = (NEWEST_PROTOCOL + 1).to_bytes(4, "big")
    for cut in (raw, raw[: at + 4]):
        with pytest.raises(UnsupportedProtocol, match=f"protocol {NEWEST_PROTOCOL + 1}"):
            block_of_meta(bytes(cut), PUBNET.id)


@pytest.mark.parametrize("raw", [b"", b"\0\0\0\1", b"\0\0\0\x09" + bytes(400), bytes(400)])
def test_malformed_ledger_is_refused(raw: bytes) -> None:
    with pytest.raises(InconsistentAnswer):
        block_of_meta(raw, PUBNET.id)


def test_header_changed_in_any_word_is_refused() -> None:
    entry = closed_ledger(recorded_metas()[63092988]).ledger_header.to_xdr_bytes()
    for at in range(36, len(entry), 4):
        with pytest.raises(InconsistentAnswer):
            block_of_header(entry[:at] + b"\0\0\0\x19" + entry[at + 4 :], PUBNET.id)
    for wrong in (entry[:-4], entry + bytes(4)):
        with pytest.raises(InconsistentAnswer):
            block_of_header(wrong, PUBNET.id)


def test_ledgers_must_follow_one_another() -> None:
    first, later = _ledger(63092988).block, _ledger(63092990).block
    check_linked([])
    check_linked([first])
    with pytest.raises(InconsistentAnswer, match="63092990 does not follow 63092988"):
        check_linked([first, later])
