"""The recorded ledgers as protocols 29 and 30 close them: the same transactions, the same events.

They are rebuilt by `tests.factories.newer_ledgers`, which shares nothing with the product's reader.
"""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from indexer.chains.raw import StellarEvent
from indexer.chains.stellar.lake import LakeReader
from indexer.chains.stellar.lake_store import LakeStore
from indexer.chains.stellar.xdr.close_meta import decode_ledger, decode_meta
from indexer.chains.stellar.xdr.ledgers import Ledger, LedgerProof, block_of_meta
from indexer.chains.stellar.xdr.scval import address, parse
from indexer.chains.stellar.xdr.skip import Malformed
from indexer.chains.stellar.xdr.transaction_set import check_transaction_set
from indexer.errors import InconsistentAnswer, UndecodableLedger
from tests.factories.newer_ledgers import (
    BOUNDARY,
    EMPTY_BOUNDARY,
    EMPTY_P30,
    P29,
    P30,
    Closing,
    Muxed,
    closed_as,
    with_muxed_contract,
)
from tests.factories.stellar_lake import (
    batch_of,
    compressed,
    name_of,
    recorded_raws,
    write_lake,
)
from tests.factories.stellar_ledgers import HEIGHTS
from tests.factories.stellar_recorded import PUBNET
from warehouse_schema.identifiers import Height, StellarAddress, TxHash

CLOSINGS = {
    "29": P29,
    "30, upgrading": BOUNDARY,
    "30, upgrading, empty set": EMPTY_BOUNDARY,
    "30": P30,
    "30, empty set": EMPTY_P30,
}
HEIGHT = 63092990
"""A full ledger of protocol 26, with six invocations."""
MUXED_ID = 123456


def _read(raw: bytes) -> tuple[Ledger, LedgerProof]:
    return decode_ledger(raw, PUBNET.id, PUBNET.passphrase)


@cache
def _recorded(height: int) -> tuple[Ledger, LedgerProof]:
    return _read(recorded_raws()[height])


@cache
def _muxed() -> Muxed:
    return with_muxed_contract(recorded_raws()[HEIGHT], PUBNET.passphrase, MUXED_ID)


def _unplaced(events: tuple[StellarEvent, ...]) -> list[StellarEvent]:
    """Events without the hash of their ledger, which no rebuilt one can keep."""
    recorded = _recorded(HEIGHT)[0].block.hash
    return [replace(each, seen=replace(each.seen, block_hash=recorded)) for each in events]


@pytest.mark.parametrize("closing", CLOSINGS.values(), ids=CLOSINGS)
def test_ledger_of_a_newer_protocol_has_the_same_content(closing: Closing) -> None:
    for height in HEIGHTS:
        recorded, proof = _recorded(height)
        ledger, rebuilt_proof = _read(closed_as(recorded_raws()[height], closing))
        assert ledger.block.protocol_version == closing.protocol
        assert (ledger.block.close_time_ms is None) == (closing.arm < 3)
        assert ledger.transactions == recorded.transactions, height
        assert _unplaced(ledger.events) == _unplaced(recorded.events), height
        assert _unplaced(ledger.failed_fees) == _unplaced(recorded.failed_fees), height
        assert rebuilt_proof == proof, height


# A muxed contract in an argument and in an event.


@pytest.mark.parametrize("closing", [BOUNDARY, P30, EMPTY_P30])
def test_muxed_contract_in_call_and_event_is_read(closing: Closing) -> None:
    muxed, (recorded, proof) = _muxed(), _recorded(HEIGHT)
    ledger, rebuilt_proof = _read(closed_as(muxed.raw, closing))
    assert rebuilt_proof == proof
    renamed = [
        replace(each, hash=TxHash(muxed.new_hash)) if each.index == muxed.index else each
        for each in recorded.transactions
    ]
    assert muxed.old_hash == recorded.transactions[muxed.index - 1].hash
    assert list(ledger.transactions) == renamed
    pairs = list(zip(recorded.events, ledger.events, strict=True))
    changed = [
        (old, new) for old, new in pairs if (old.topics, old.value) != (new.topics, new.value)
    ]
    assert [each.event_id for each, _ in pairs] == [each.event_id for _, each in pairs]
    ((old, new),) = changed
    assert new.seen.tx_hash == muxed.new_hash
    assert new.value == old.value.replace(muxed.old_value, muxed.new_value)
    assert new.topics == tuple(
        topic.replace(muxed.old_value, muxed.new_value) for topic in old.topics
    )


def test_muxed_contract_is_strkey_of_contract_and_id() -> None:
    plain, muxed = address(parse(_muxed().old_value)), address(parse(_muxed().new_value))
    assert (plain[0], muxed[0], len(muxed)) == ("C", "W", 69)
    # Both payloads begin with the contract's id, behind a byte for the version.
    assert muxed[2:52] == plain[2:52]


@pytest.mark.parametrize("closing", [BOUNDARY, P30, EMPTY_P30])
def test_flipped_bit_of_a_proven_part_is_refused(closing: Closing) -> None:
    raw = closed_as(_muxed().raw, closing)
    header = raw.index(bytes.fromhex(_read(raw)[0].block.hash))
    # Behind its kind an address may be any, so only a hash can tell.
    argument, event = raw.index(_muxed().argument) + 10, raw.index(_muxed().event) + 60
    result = raw.index(bytes.fromhex(_muxed().new_hash)) + 50
    for place in (argument, event, result, *range(header, header + 500, 9)):
        flipped = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        with pytest.raises((InconsistentAnswer, Malformed)):
            _read(flipped)


# By the paths that read ledgers.


@pytest.mark.parametrize("closing", [BOUNDARY, P30, EMPTY_P30])
def test_lake_gives_the_events_of_a_newer_ledger(tmp_path: Path, closing: Closing) -> None:
    emitter = _recorded(HEIGHT)[0].events[0].contract
    chain = replace(PUBNET, escrow=StellarAddress(emitter))
    url = write_lake(tmp_path, [], passphrase=PUBNET.passphrase)
    raw = closed_as(_muxed().raw, closing)
    object_ = tmp_path / name_of(HEIGHT, HEIGHT, 1, 1)
    object_.parent.mkdir(exist_ok=True)
    object_.write_bytes(compressed(batch_of([raw], HEIGHT)))
    for ours, hits in ((chain, 1), (PUBNET, 0)):
        reader = LakeReader(ours, LakeStore(url))
        given = reader.read(Height(HEIGHT), Height(HEIGHT), [])
        reader.close()
        assert reader.counts.hits == hits
        assert given.unread == ()
        assert given.blocks == (block_of_meta(raw, PUBNET.id),)
        assert bool(given.events) == bool(hits)


def test_unknown_arm_in_a_newer_ledger_makes_it_undecodable() -> None:
    raw = closed_as(_muxed().raw, P30)
    at = raw.rindex(_muxed().new_value)
    unknown = raw[: at + 7] + b"\6" + raw[at + 8 :]
    check_transaction_set(unknown, 0, len(unknown), block_of_meta(unknown, PUBNET.id))
    with pytest.raises(UndecodableLedger, match=f"ledger {HEIGHT} cannot be decoded"):
        decode_meta(unknown, PUBNET)
