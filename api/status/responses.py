"""The last look at the money as JSON.

What was found is told by number: its sentences name transfers, which are their owners' alone.
"""

from collections import Counter
from typing import Any

from sqlalchemy import Row

from api.responses import iso_microseconds
from api.status import schema


def shape_status(row: Row[Any] | None, reasons: list[str]) -> schema.Status:
    """A row of `projections.reconciliation`, None before the first look, and what is unwell."""
    if row is None:
        return {
            "at": None,
            "adds_up": None,
            "reasons": reasons,
            "flows": [],
            "under_way": {},
            "findings": {},
        }
    return {
        "at": iso_microseconds(row.at),
        "adds_up": not row.findings,
        "reasons": reasons,
        "flows": row.flows,
        "under_way": row.stages,
        "findings": dict(Counter(finding["check"] for finding in row.findings)),
    }
