"""Transfers as JSON. Amounts are decimal integer strings in base units."""

from typing import Any, cast

from api.responses import iso_microseconds, iso_time
from api.transfers import schema
from api.transfers.details import TransferAgreement, TransferDetails
from indexer.chains.services.messages import Attestation
from indexer.config.networks import EvmChain, Network
from indexer.config.routes import FundingMode, RouteId, TransferRoute, find_route
from indexer.transfers import fold
from indexer.transfers.fold import TransferState
from indexer.transfers.state_machine import Stage
from warehouse_schema.identifiers import ChainId, TxHash, UnixSeconds, is_evm

_UNTIL_ATTESTED: frozenset[Stage] = frozenset({"SUBMITTED", "CONFIRMING", "ATTESTING", "IN_FLIGHT"})


def transfer_response(network: Network, known: TransferDetails) -> schema.Transfer:
    """A transfer."""
    agreed, progress = known.agreed, known.progress
    route = _route(network, agreed)
    return {
        "id": agreed.id,
        "quote_id": agreed.quote,
        "route": cast(RouteId, agreed.route),
        "direction": route.direction,
        "funding_mode": cast(FundingMode | None, agreed.funding_mode),
        "status": progress.status,
        "stage": progress.stage,
        "stage_reason": progress.reason,
        "stage_detail": progress.detail,
        "turn": progress.turn,
        "amount_in": str(agreed.amount_in),
        "amount_out": str(agreed.amount_out),
        "amount_fee": str(agreed.fee["total"]),
        "amount_delivered": _text(progress.amount_delivered),
        "source_chain": agreed.source_chain,
        "source_asset": agreed.source_asset,
        "source_address": agreed.source_address,
        "dest_chain": agreed.dest_chain,
        "dest_asset": agreed.dest_asset,
        "dest_address": agreed.dest_address,
        "deposit": _deposit(agreed),
        "external_transaction_id": progress.external_tx,
        "stellar_transaction_id": progress.stellar_tx,
        "started_at": iso_microseconds(agreed.started_at),
        "updated_at": iso_microseconds(known.changed_at or agreed.started_at),
        "completed_at": _time(_completed_at(progress)),
        "expires_at": iso_time(UnixSeconds(int(agreed.expires_at.timestamp()))),
        "eta": _time(eta(route, agreed, progress)),
        "explorer": _explorer(network, agreed, progress),
        "timeline": [_step(step) for step in progress.timeline],
        "refund": None if progress.refund is None else _refund(progress.refund),
        "self_finish": None if known.finish is None else _finish(network, agreed, known.finish),
        "extras": list(progress.extras),
        "extras_self_finish": [
            {"movement": movement, **finish}
            for movement, attested in known.finish_extras
            if (finish := _finish(network, agreed, attested)) is not None
        ],
    }


def eta(
    route: TransferRoute, agreed: TransferAgreement, progress: TransferState
) -> UnixSeconds | None:
    """When it usually is there; None while it waits for somebody, and when it is over."""
    source, dest = route.source(agreed.source_chain), route.dest(agreed.dest_chain)
    if source is None or dest is None or progress.since is None:
        return None
    if progress.stage in _UNTIL_ATTESTED:
        seconds = source.expected_seconds + dest.expected_seconds
        return UnixSeconds(progress.since + seconds)
    if progress.stage == "DELIVERING":
        return UnixSeconds(progress.since + dest.expected_seconds)
    return None


def _route(network: Network, agreed: TransferAgreement) -> TransferRoute:
    route = find_route(network, agreed.route)
    if route is None:
        raise LookupError(f"transfer {agreed.id} is over {agreed.route}, which is no route")
    return route


def _completed_at(progress: TransferState) -> UnixSeconds | None:
    """When it reached `completed` or `refunded`, as SEP-24 has it."""
    return progress.since if progress.stage in ("COMPLETED", "REFUNDED") else None


def _deposit(agreed: TransferAgreement) -> schema.DepositAddress | None:
    if agreed.deposit_address is None or agreed.deposit_operator is None:
        return None
    return {"address": agreed.deposit_address, "operator": agreed.deposit_operator}


def _explorer(
    network: Network, agreed: TransferAgreement, progress: TransferState
) -> schema.Explorer:
    source, dest = agreed.source_chain, agreed.dest_chain
    is_over = progress.completed_at is not None
    return {
        "source": _page(network, source, _transaction(progress, source)),
        # On one ledger it is one transaction, and is there when that is.
        "destination": _page(network, dest, _transaction(progress, dest)) if is_over else None,
    }


def _transaction(progress: TransferState, chain: ChainId) -> TxHash | None:
    return progress.external_tx if is_evm(chain) else progress.stellar_tx


def _page(network: Network, chain: ChainId, tx: TxHash | None) -> str | None:
    template = network.chain(chain).explorer_tx
    return None if template is None or tx is None else template.format(tx=tx)


def _step(step: fold.StageChange) -> schema.Step:
    return {
        "stage": step.stage,
        "at": _time(step.at),
        "clock": step.clock,
        "chain": step.chain,
        "tx": step.tx,
    }


def _refund(refund: fold.DepositRefund) -> schema.Refund:
    return {
        "amount": str(refund.lines[0].returned),
        "transactions": list(refund.txs),
        "pending_below_minimum": str(refund.pending_below_minimum),
        "tokens": [
            {
                "token": line.token,
                "received": str(line.received),
                "swept": str(line.swept),
                "returned": str(line.returned),
                "owed": str(line.owed),
            }
            for line in refund.lines
        ],
    }


def _finish(
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


def _time(seconds: UnixSeconds | None) -> str | None:
    return None if seconds is None else iso_time(seconds)


def _text(amount: int | None) -> str | None:
    return None if amount is None else str(amount)
