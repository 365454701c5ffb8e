"""Times as JSON: ISO 8601, in UTC."""

from datetime import UTC, datetime

from warehouse_schema.identifiers import UnixSeconds

_LAST_SECOND = UnixSeconds(253_402_300_799)
"""9999-12-31T23:59:59Z, beyond which `datetime` has no word."""


def iso_time(seconds: UnixSeconds) -> str:
    """ISO 8601 in UTC, as `2026-11-21T08:30:00Z`; a later year is shown as the end of 9999.

    A column holds more than a calendar does. The decoder lets no such time in, but one odd row must
    not cost the whole answer.
    """
    return datetime.fromtimestamp(min(seconds, _LAST_SECOND), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def iso_moment(moment: datetime) -> str:
    """ISO 8601 in UTC to the microsecond, as `2026-11-21T08:30:00.000001Z`: a list is cut there."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
