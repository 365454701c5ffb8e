"""Response bodies of transfers. Amounts are decimal integer strings in base units."""

from typing import Any, cast

from sqlalchemy import Connection

from api.responses import iso_microseconds, iso_time
from api.transfers import schema
from api.transfers.access import OwnedTransferId
from api.transfers.details import TransferAgreement, TransferDetails, load_details
from indexer.chains.services.messages import Attestation
from indexer.config.networks import EvmChain, Network
from indexer.config.routes import FundingMode, RouteId, TransferRoute, find_route
from indexer.transfers.fold import TransferState
from indexer.transfers.state_machine import Stage
from warehouse_schema.identifiers import ChainId, UnixSeconds, is_evm

_UNTIL_ATTESTED: frozenset[Stage] = frozenset({"SUBMITTED", "CONFIRMING", "ATTESTING", "IN_FLIGHT"})


def load_transfer_response(
    conn: Connection, network: Network, transfer: OwnedTransferId
) -> schema.Transfer:
    """The transfer as this transaction sees it."""
    [details] = load_details(conn, network, [transfer])
    return transfer_response(network, details)


def transfer_response(network: Network, details: TransferDetails) -> schema.Transfer:
    """Raises `LookupError` for a route that the network does not have."""
    agreed, state = details.agreed, details.state
    route = find_route(network, agreed.route)
    if route is None:
        raise LookupError(f"transfer {agreed.id} is over {agreed.route}, which is no route")
    deposit: schema.DepositAddress | None = None
    if agreed.deposit_address is not None and agreed.deposit_operator is not None:
        deposit = {"address": agreed.deposit_address, "operator": agreed.deposit_operator}
    # As in SEP-24: when it reached `completed` or `refunded`.
    completed_at = state.since if state.stage in ("COMPLETED", "REFUNDED") else None
    delivered = state.amount_delivered
    finish = details.finish
    return {
        "id": agreed.id,
        "quote_id": agreed.quote,
        "route": cast(RouteId, agreed.route),
        "direction": route.direction,
        "funding_mode": cast(FundingMode | None, agreed.funding_mode),
        "status": state.status,
        "stage": state.stage,
        "stage_reason": state.reason,
        "stage_detail": state.detail,
        "turn": state.turn,
        "amount_in": str(agreed.amount_in),
        "amount_out": str(agreed.amount_out),
        "amount_fee": str(agreed.fee["total"]),
        "amount_delivered": None if delivered is None else str(delivered),
        "source_chain": agreed.source_chain,
        "source_asset": agreed.source_asset,
        "source_address": agreed.source_address,
        "dest_chain": agreed.dest_chain,
        "dest_asset": agreed.dest_asset,
        "dest_address": agreed.dest_address,
        "deposit": deposit,
        "external_transaction_id": state.external_tx,
        "stellar_transaction_id": state.stellar_tx,
        "started_at": iso_microseconds(agreed.started_at),
        "updated_at": iso_microseconds(details.changed_at or agreed.started_at),
        "completed_at": _optional_time(completed_at),
        "expires_at": iso_time(UnixSeconds(int(agreed.expires_at.timestamp()))),
        "eta": _optional_time(_eta(route, agreed, state)),
        "explorer": {
            "source": _explorer_page(network, agreed.source_chain, state),
            # On one ledger both are the same transaction, shown here once the transfer is over.
            "destination": None
            if state.completed_at is None
            else _explorer_page(network, agreed.dest_chain, state),
        },
        "timeline": [
            {
                "stage": step.stage,
                "at": _optional_time(step.at),
                "clock": step.clock,
                "chain": step.chain,
                "tx": step.tx,
            }
            for step in state.timeline
        ],
        "refund": _refund(state),
        "self_finish": None if finish is None else _self_finish(network, agreed, finish),
        "extras": list(state.extras),
        "extras_self_finish": [
            {"movement": movement, **self_finish}
            for movement, attested in details.finish_extras
            if (self_finish := _self_finish(network, agreed, attested)) is not None
        ],
    }


def _eta(
    route: TransferRoute, agreed: TransferAgreement, state: TransferState
) -> UnixSeconds | None:
    """Usual time of arrival; None while the transfer waits for its owner, and once it is over."""
    source, dest = route.source(agreed.source_chain), route.dest(agreed.dest_chain)
    if source is None or dest is None or state.since is None:
        return None
    if state.stage in _UNTIL_ATTESTED:
        return UnixSeconds(state.since + source.expected_seconds + dest.expected_seconds)
    return UnixSeconds(state.since + dest.expected_seconds) if state.stage == "DELIVERING" else None


def _explorer_page(network: Network, chain: ChainId, state: TransferState) -> str | None:
    tx = state.external_tx if is_evm(chain) else state.stellar_tx
    template = network.chain(chain).explorer_tx
    return None if template is None or tx is None else template.format(tx=tx)


def _refund(state: TransferState) -> schema.Refund | None:
    if state.refund is None:
        return None
    return {
        "amount": str(state.refund.lines[0].returned),
        "transactions": list(state.refund.txs),
        "pending_below_minimum": str(state.refund.pending_below_minimum),
        "tokens": [
            {
                "token": line.token,
                "received": str(line.received),
                "swept": str(line.swept),
                "returned": str(line.returned),
                "owed": str(line.owed),
            }
            for line in state.refund.lines
        ],
    }


def _self_finish(
    network: Network, agreed: TransferAgreement, finish: Attestation
) -> schema.SelfFinish | None:
    chain: Any = network.chain(agreed.dest_chain)
    contract = (
        chain.cctp_message_transmitter if isinstance(chain, EvmChain) else chain.cctp_forwarder
    )
    if contract is None:
        return None
    return {
        "chain": chain.id,
        "contract": contract,
        "message": f"0x{finish.message.hex()}",
        "attestation": f"0x{finish.attestation.hex()}",
    }


def _optional_time(seconds: UnixSeconds | None) -> str | None:
    return None if seconds is None else iso_time(seconds)
