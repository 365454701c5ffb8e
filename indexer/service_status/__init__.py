"""Whether transfers are moving: one fold for `/v1/status`, `isthmus status` and Dagster's check."""

from indexer.service_status.fold import Problem, ServiceStatus, service_status

__all__ = ["Problem", "ServiceStatus", "service_status"]
