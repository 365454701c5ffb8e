"""Routes as JSON. Amounts are decimal integer strings in the base units of the chain's asset."""

from collections.abc import Container

from api.routes import schema
from indexer.config.routes import TransferRoute, TransferRouteEnd
from indexer.service_status.availability import (
    RelayedChains,
    is_dest_available,
    is_source_available,
)
from warehouse_schema.identifiers import ChainId


def route_response(
    route: TransferRoute, healthy: Container[ChainId], relayed: RelayedChains
) -> schema.Route:
    """A route, with the chains whose ingestion is healthy and those on which the relay sends."""
    return {
        "id": route.id,
        "direction": route.direction,
        "mechanism": route.mechanism,
        "enabled": route.enabled,
        "fee": {
            "service_fee_bps": route.fee.service_fee_bps,
            "quoted": list(route.fee.quoted),
        },
        "source_chains": [
            _end_response(end, available=is_source_available(end.chain, healthy, relayed))
            for end in route.source_chains
        ],
        "dest_chains": [
            _end_response(
                end,
                available=is_dest_available(route.mechanism, end.chain, healthy, relayed),
            )
            for end in route.dest_chains
        ],
    }


def _end_response(end: TransferRouteEnd, *, available: bool) -> schema.RouteEnd:
    return {
        "chain": end.chain,
        "asset": end.asset,
        "min_amount": str(end.min_amount),
        "max_amount": str(end.max_amount),
        "amount_step": str(end.amount_step),
        "funding_modes": list(end.funding_modes),
        "expected_seconds": end.expected_seconds,
        "available": available,
    }
