"""The last look at the money as JSON.

What was found is told by number: its sentences name transfers, which are their owners' alone.
"""

from collections import Counter
from typing import Any

from sqlalchemy import Row

from api.status import schema
from api.times import iso_moment

NOTHING: schema.Status = {
    "at": None,
    "adds_up": None,
    "flows": [],
    "under_way": {},
    "findings": {},
}
"""Before the first look."""


def shape_status(row: Row[Any]) -> schema.Status:
    """A row of `projections.reconciliation`."""
    return {
        "at": iso_moment(row.at),
        "adds_up": not row.findings,
        "flows": row.flows,
        "under_way": row.stages,
        "findings": dict(Counter(finding["check"] for finding in row.findings)),
    }
