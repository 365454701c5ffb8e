"""Event ids of Stellar RPC, and our `position`: where an event stands in a ledger.

RPC writes `%019d-%010d`: a TOID (SEP-35: ledger << 32 | transaction << 12 | operation) and the
index of the event. Transactions count from 1; operations count from 0, unlike SEP-35's. Events
outside of operations have edge values, so that ids sort in the order of events:

| events | transaction | operation | index counts |
|---|---|---|---|
| fee charges, before all transactions | 0 | 0 | through the ledger |
| of an operation | 1 … | 0 … | through the operation |
| after one transaction | 1 … | 4095 | through the transaction |
| after all transactions (fee refunds) | 1048575 | 0 | through the ledger |

`position` is the same without the ledger, packed into 63 bits for a signed 64-bit column.
"""

import re
from dataclasses import dataclass

from warehouse_schema.identifiers import Height

FEE_CHARGES_TRANSACTION = 0
AFTER_TRANSACTION_OPERATION = (1 << 12) - 1
AFTER_ALL_TRANSACTION = (1 << 20) - 1

_OPERATION_BITS = 12
INDEX_BITS = 31
"""Of a position, below those of the transaction and the operation."""
_MAX_31_BITS = (1 << 31) - 1
_EVENT_ID = re.compile(r"([0-9]{19})-([0-9]{10})")


@dataclass(frozen=True, slots=True, order=True)
class EventId:
    """Place of an event in history; ids sort in the order of events.

    Raises `ValueError` when a part is out of range.
    """

    ledger: Height
    transaction: int
    operation: int
    index: int

    def __post_init__(self) -> None:
        for what, value, last in (
            ("ledger", self.ledger, _MAX_31_BITS),
            ("transaction", self.transaction, AFTER_ALL_TRANSACTION),
            ("operation", self.operation, AFTER_TRANSACTION_OPERATION),
            ("event index", self.index, _MAX_31_BITS),
        ):
            if not 0 <= value <= last:
                raise ValueError(f"{what} {value} is not in 0 … {last}")

    def __str__(self) -> str:
        toid = self.ledger << 32 | self.transaction << _OPERATION_BITS | self.operation
        return f"{toid:019d}-{self.index:010d}"

    @property
    def position(self) -> int:
        """Order within the ledger, 0 … 2^63 - 1."""
        return (self.transaction << _OPERATION_BITS | self.operation) << INDEX_BITS | self.index


def parse_event_id(text: str) -> EventId:
    """Parse an id of Stellar RPC. Raises `ValueError` that quotes the text."""
    parts = _EVENT_ID.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} is not a Stellar RPC event id (19 digits, -, 10 digits)")
    toid, index = int(parts[1]), int(parts[2])
    transaction = (toid & 0xFFFFFFFF) >> _OPERATION_BITS
    return EventId(Height(toid >> 32), transaction, toid & AFTER_TRANSACTION_OPERATION, index)
