import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.chains.stellar.xdr.event_ids import (
    AFTER_ALL_TRANSACTION,
    AFTER_TRANSACTION_OPERATION,
    EventId,
    parse_event_id,
)
from warehouse_schema.identifiers import Height

event_ids = st.builds(
    EventId,
    st.integers(0, 2**31 - 1).map(Height),
    st.integers(0, 2**20 - 1),
    st.integers(0, 2**12 - 1),
    st.integers(0, 2**31 - 1),
)


def test_id_of_a_node_is_parsed() -> None:
    # Stellar's own getEvents example: transaction 5, operation 0, event 8 of ledger 3727845.
    assert parse_event_id("0016010972359577600-0000000008") == EventId(Height(3727845), 5, 0, 8)


def test_fee_charge_has_transaction_zero() -> None:
    assert parse_event_id("0016019351840751616-0000000001") == EventId(Height(3729796), 0, 0, 1)


@given(event_ids)
def test_event_id_round_trips_through_text(event_id: EventId) -> None:
    assert parse_event_id(str(event_id)) == event_id


@given(event_ids)
def test_position_fits_a_signed_64_bit_column(event_id: EventId) -> None:
    assert 0 <= event_id.position < 2**63


@given(event_ids, event_ids)
def test_positions_sort_as_id_texts(one: EventId, other: EventId) -> None:
    other = EventId(one.ledger, other.transaction, other.operation, other.index)
    assert (one.position < other.position) == (str(one) < str(other)) == (one < other)


def test_event_ids_sort_in_order_of_events() -> None:
    ledger = Height(7)
    fee_charge = EventId(ledger, 0, 0, 300)
    operation = EventId(ledger, 1, 0, 0)
    after_transaction = EventId(ledger, 1, AFTER_TRANSACTION_OPERATION, 0)
    next_transaction = EventId(ledger, 2, 0, 0)
    refund = EventId(ledger, AFTER_ALL_TRANSACTION, 0, 0)
    happened = [fee_charge, operation, after_transaction, next_transaction, refund]
    assert sorted(happened, key=lambda event_id: event_id.position) == happened


@pytest.mark.parametrize(
    "text",
    [
        "",
        "16010972359577600-0000000008",
        "0016010972359577600-8",
        "0016010972359577600_0000000008",
        "0016010972359577600-0000000008\n",
        "٠٠١٦٠١٠٩٧٢٣٥٩٥٧٧٦٠٠-0000000008",
        "9999999999999999999-0000000000",
        "0016010972359577600-4294967295",
    ],
)
def test_malformed_event_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_event_id(text)
