"""Where an event of a Stellar ledger stands: the event id of Stellar RPC, and our `position`.

RPC writes `%019d-%010d`: a TOID (SEP-35: ledger << 32 | transaction << 12 | operation) and the
index of the event. Transactions count from 1; operations count from 0, unlike SEP-35's. Events
that belong to no operation stand at the edges, so that ids sort in the order things happened:

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

_OPERATION_BITS, _INDEX_BITS = 12, 31
_LAST_LEDGER, _LAST_INDEX = (1 << 31) - 1, (1 << _INDEX_BITS) - 1
_EVENT_ID = re.compile(r"([0-9]{19})-([0-9]{10})")


@dataclass(frozen=True, slots=True, order=True)
class EventId:
    """An event's place in history; ids order as the events happened.

    Raises `ValueError` when a part is out of range.
    """

    ledger: Height
    transaction: int
    operation: int
    index: int

    def __post_init__(self) -> None:
        _check("ledger", self.ledger, _LAST_LEDGER)
        _check("transaction", self.transaction, AFTER_ALL_TRANSACTION)
        _check("operation", self.operation, AFTER_TRANSACTION_OPERATION)
        _check("event index", self.index, _LAST_INDEX)

    def __str__(self) -> str:
        toid = self.ledger << 32 | self.transaction << _OPERATION_BITS | self.operation
        return f"{toid:019d}-{self.index:010d}"

    @property
    def position(self) -> int:
        """Order within the ledger, 0 … 2^63 - 1."""
        return (self.transaction << _OPERATION_BITS | self.operation) << _INDEX_BITS | self.index


def parse_event_id(text: str) -> EventId:
    """Read an id as Stellar RPC writes it. Raises `ValueError` that quotes the text."""
    parts = _EVENT_ID.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} is not a Stellar RPC event id (19 digits, -, 10 digits)")
    toid, index = int(parts[1]), int(parts[2])
    return EventId(Height(toid >> 32), *_transaction_and_operation(toid & 0xFFFFFFFF), index)


def _transaction_and_operation(order: int) -> tuple[int, int]:
    return order >> _OPERATION_BITS, order & AFTER_TRANSACTION_OPERATION


def _check(what: str, value: int, last: int) -> None:
    if not 0 <= value <= last:
        raise ValueError(f"{what} {value} is not in 0 … {last}")
