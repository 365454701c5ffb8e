"""The status of the service as JSON. Nothing in it names a node, an account or a transfer."""

from collections import Counter
from typing import Any

from sqlalchemy import Row

from api.responses import iso_microseconds
from api.status import schema
from indexer.service_status.fold import ChainState, LaneState, ServiceStatus
from indexer.service_status.incidents import Incident


def status_response(found: ServiceStatus) -> schema.Status:
    """The public part of the status."""
    last = found.reconciliation
    return {
        "as_of": iso_microseconds(found.as_of),
        "verdict": found.verdict,
        "sentence": found.sentence,
        "problems": [{"kind": each.kind, "text": each.text} for each in found.problems],
        "chains": [_chain(each) for each in found.chains],
        "routes": [_lane(each) for each in found.lanes],
        "incidents": [_incident(each) for each in found.incidents],
        "at": None if last is None else iso_microseconds(last.at),
        "adds_up": None if last is None else not last.findings,
        "reasons": [each.text for each in found.readiness_problems],
        "flows": [] if last is None else last.flows,
        "under_way": {} if last is None else last.stages,
        "findings": {} if last is None else _findings(last),
    }


def _findings(last: Row[Any]) -> dict[Any, int]:
    # Only counts: the sentences name transfers, which are their owners' alone.
    return dict(Counter(finding["check"] for finding in last.findings))


def _chain(state: ChainState) -> schema.ChainProgress:
    status = state.status
    return {
        "chain": status.chain,
        "name": state.name,
        "height": status.height,
        "head_height": status.head_height,
        "final_height": status.final_height,
        "lag_seconds": status.lag_seconds,
        "age_seconds": state.age_seconds,
        "reason": state.health.reason,
    }


def _lane(state: LaneState) -> schema.LaneStatus:
    return {
        "route": state.lane.route,
        "source_chain": state.lane.source_chain,
        "dest_chain": state.lane.dest_chain,
        "available": state.available,
        "expected_seconds": state.expected_seconds,
        "median_seconds": state.durations.median_today,
        "p90_seconds": state.durations.p90,
    }


def _incident(incident: Incident) -> schema.StatusIncident:
    ended = incident.ended_at
    return {
        "chain": incident.chain,
        "kind": incident.kind,
        "began_at": iso_microseconds(incident.began_at),
        "ended_at": None if ended is None else iso_microseconds(ended),
    }
