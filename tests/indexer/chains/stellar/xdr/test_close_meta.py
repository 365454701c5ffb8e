"""`decode_ledger` against the SDK's decoder: equal results, or an error."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stellar_sdk import scval, xdr

from indexer.chains.stellar.xdr.close_meta import decode_ledger
from indexer.chains.stellar.xdr.ledgers import NEWEST_PROTOCOL
from indexer.chains.stellar.xdr.meta_parts import locate_parts, words
from indexer.chains.stellar.xdr.skip import Malformed
from indexer.config.networks import StellarChain
from indexer.errors import InconsistentAnswer, IndexerError, UnsupportedProtocol
from tests.factories.sdk_ledgers import closed_ledger, parse_meta, read_ledger, verify_ledger
from tests.factories.stellar_lake import DEVNET, history_metas, recorded_raws
from tests.factories.stellar_ledgers import HEIGHTS, recorded_metas
from tests.factories.stellar_recorded import PUBNET, TESTNET


def _decode(raw: bytes, chain: StellarChain) -> Any:
    return decode_ledger(raw, chain.id, chain.passphrase)


def _by_sdk(raw: bytes, chain: StellarChain) -> Any:
    meta = parse_meta(raw)
    proof = verify_ledger(meta, chain.passphrase)
    return read_ledger(meta, chain.id), proof


@pytest.mark.parametrize("height", HEIGHTS)
def test_recorded_ledger_decodes_as_by_the_sdk(height: int) -> None:
    meta = recorded_metas()[height]
    ledger, proof = _decode(recorded_raws()[height], PUBNET)
    assert ledger == read_ledger(meta, PUBNET.id)
    assert proof == verify_ledger(meta, PUBNET.passphrase)


def test_recorded_ledgers_cover_every_part() -> None:
    decoded = [_decode(recorded_raws()[height], PUBNET) for height in HEIGHTS]
    assert sum(len(ledger.events) for ledger, _ in decoded) == 1559
    assert sum(len(ledger.failed_fees) for ledger, _ in decoded) > 300
    assert sum(proof.invocations for _, proof in decoded) == 8


def test_devnet_ledgers_decode_as_by_the_sdk() -> None:
    decoded = [_decode(raw, DEVNET) for raw in history_metas()]
    assert decoded == [_by_sdk(raw, DEVNET) for raw in history_metas()]
    assert any(ledger.failed_fees for ledger, _ in decoded)
    assert sum(proof.invocations for _, proof in decoded) > 10


def test_only_events_of_given_contracts_are_returned() -> None:
    raw = recorded_raws()[63092990]
    everything, _ = _decode(raw, PUBNET)
    contracts = [PUBNET.usdc_contract]
    ledger, _ = decode_ledger(raw, PUBNET.id, PUBNET.passphrase, contracts)
    assert ledger.events == tuple(e for e in everything.events if e.contract in contracts)
    assert 0 < len(ledger.events) < len(everything.events)
    assert ledger.transactions == everything.transactions
    nothing, _ = decode_ledger(raw, PUBNET.id, PUBNET.passphrase, [])
    assert (nothing.events, nothing.failed_fees) == ((), ())


# Changed bytes.


INTERESTING = st.one_of(
    st.integers(0, 5), st.sampled_from([24, 2**16, 2**31, 2**32 - 1]), st.integers(0, 2**32 - 1)
)


def _agree(raw: bytes, chain: StellarChain) -> str:
    """Outcome of decoding, which must be an error or equal the SDK's."""
    try:
        decoded = _decode(raw, chain)
    except Malformed:
        return "refused"
    except IndexerError:
        with pytest.raises(InconsistentAnswer):
            _by_sdk(raw, chain)
        return "disproved"
    assert decoded == _by_sdk(raw, chain)
    return "agreed"


@settings(max_examples=400)
@given(data=st.data())
def test_changed_ledger_decodes_as_by_sdk_or_fails(data: Any) -> None:
    raw = bytearray(data.draw(st.sampled_from([m for m in history_metas() if len(m) > 1000])))
    for _ in range(data.draw(st.integers(1, 2))):
        at = 4 * data.draw(st.integers(0, len(raw) // 4 - 1))
        raw[at : at + 4] = data.draw(INTERESTING).to_bytes(4, "big")
    _agree(bytes(raw), DEVNET)


def test_any_changed_word_decodes_as_by_the_sdk() -> None:
    # No hash covers the meta of a payment: only the XDR types can refuse it.
    raw = next(m for m in reversed(history_metas()) if 1000 < len(m) < 3000)
    done = set()
    for at in range(0, len(raw), 4):
        for word in (0, 1, 2, 3, 2**32 - 1):
            done.add(_agree(raw[:at] + word.to_bytes(4, "big") + raw[at + 4 :], DEVNET))
    assert done == {"agreed", "disproved", "refused"}


@pytest.mark.parametrize("cut", [4, 40, 400])
def test_truncated_or_extended_ledger_is_refused(cut: int) -> None:
    raw = history_metas()[-6]
    with pytest.raises((Malformed, InconsistentAnswer)):
        _decode(raw[:-cut], DEVNET)
    with pytest.raises(Malformed):
        _decode(raw + bytes(cut), DEVNET)


def test_forged_count_is_malformed_at_once() -> None:
    raw = recorded_raws()[HEIGHTS[-1]]
    begin = locate_parts(raw).transaction_set.start
    # A generalized set of one parallel phase whose clusters end past the bytes.
    forged = words(1) + bytes(32) + words(1, 1, 0, 1_000_000)
    with pytest.raises(Malformed, match="1000000 elements"):
        locate_parts(raw[:begin] + forged)


def test_wrapper_of_unknown_version_is_unsupported() -> None:
    with pytest.raises(UnsupportedProtocol, match="wrapper of version 9"):
        _decode(b"\0\0\0\x09" + history_metas()[0][4:], DEVNET)


def test_newer_protocol_is_refused_by_header() -> None:
    raw = bytearray(recorded_raws()[63092988])
    name = closed_ledger(recorded_metas()[63092988]).ledger_header.hash.hash
    at = raw.index(name) + 32
    raw[at : at + 4] = (NEWEST_PROTOCOL + 1).to_bytes(4, "big")
    with pytest.raises(UnsupportedProtocol):
        _decode(bytes(raw), PUBNET)


# Lies, each of which one hash finds out.


def _changed(height: int) -> xdr.LedgerCloseMeta:
    return parse_meta(recorded_raws()[height])


def test_header_with_another_hash_is_refused() -> None:
    meta = _changed(26154623)
    closed_ledger(meta).ledger_header.header.base_fee = xdr.Uint32(1)
    with pytest.raises(InconsistentAnswer, match="does not hash"):
        _decode(meta.to_xdr_bytes(), PUBNET)


def test_changed_transaction_set_is_refused() -> None:
    meta = _changed(26154623)
    assert meta.v0 is not None
    meta.v0.tx_set.txs.pop()
    with pytest.raises(InconsistentAnswer, match="transaction set"):
        _decode(meta.to_xdr_bytes(), PUBNET)


def test_results_in_another_order_are_refused() -> None:
    meta = _changed(63092990)
    closed_ledger(meta).tx_processing.reverse()
    with pytest.raises(InconsistentAnswer, match="results"):
        _decode(meta.to_xdr_bytes(), PUBNET)


def test_ledger_of_another_network_is_refused() -> None:
    raw = recorded_raws()[63092990]
    with pytest.raises(InconsistentAnswer, match="not those of its transactions"):
        _decode(raw, TESTNET)


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


def test_forged_contract_event_is_refused() -> None:
    with pytest.raises(InconsistentAnswer, match="did not emit these events"):
        _decode(_with_a_forged_event(63092990).to_xdr_bytes(), PUBNET)


def test_backfilled_events_count_as_unproven() -> None:
    _, proof = _decode(_with_a_forged_event(51000294).to_xdr_bytes(), PUBNET)
    assert (proof.invocations, len(proof.unproven)) == (1, 1)
