"""NOTIFY channels, all of them. A notification is a hint: what it is about stands in a table.

Writers queue it (`warehouse_schema.notifications`), and the publisher sends it after the commit.
"""

INGESTED = "isthmus"
"""A range was committed, or blocks were rewound; the payload is `<chain>:<height>`."""
INTAKE = "isthmus_intake"
"""Something was written about a transfer; the payload is its id."""
TRANSFERS = "isthmus_transfers"
"""New rows of `projections.transfer_events`; the payload is their owner."""
