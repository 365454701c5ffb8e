"""Routes as JSON. Amounts are decimal integer strings in the base units of the chain's asset."""

from collections.abc import Container

from api.availability import relay_sends_at_dest, relay_sends_at_source
from api.routes import schema
from indexer.config.routes import TransferRoute, TransferRouteEnd
from warehouse_schema.identifiers import ChainId


def shape_route(
    route: TransferRoute, well: Container[ChainId], relayed: Container[ChainId]
) -> schema.Route:
    """A route; `well` are the chains whose ingestion can be relied on now, `relayed` those on which
    the relay sends."""

    def begins(chain: ChainId) -> bool:
        return chain in well and (chain in relayed or not relay_sends_at_source(chain))

    def ends(chain: ChainId) -> bool:
        return chain in well and (chain in relayed or not relay_sends_at_dest(route.mechanism))

    return {
        "id": route.id,
        "direction": route.direction,
        "mechanism": route.mechanism,
        "enabled": route.enabled,
        "fee": {
            "service_fee_bps": route.fee.service_fee_bps,
            "quoted": list(route.fee.quoted),
        },
        "source_chains": [_shape_end(end, begins(end.chain)) for end in route.source_chains],
        "dest_chains": [_shape_end(end, ends(end.chain)) for end in route.dest_chains],
    }


def _shape_end(end: TransferRouteEnd, available: bool) -> schema.RouteEnd:
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
