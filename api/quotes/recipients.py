"""Checks before a quote that the recipient can be paid: a burn cannot be undone."""

from api.deps import deps
from api.errors import ChainUnavailable, Unprocessable
from api.quotes.requests import QuoteRequest
from api.trustlines import NeededTrustline, needed_trustline
from indexer.movements.fold import STELLAR_PER_SHARED
from indexer.policy.sponsorship import SponsorshipRequest
from warehouse_schema.identifiers import AssetId, BaseUnits, EvmAddress, StellarAddress, is_evm


def require_payable_recipient(request: QuoteRequest) -> None:
    """Raises `Unprocessable` for a recipient that the asset's issuer refuses, `ChainUnavailable`
    while issuer or bridge are paused.

    Checks nothing on chains that this process does not read. A missing trustline is no obstacle:
    the recipient can still open it.
    """
    evm, stellar, accounts = deps().evm, deps().stellar, deps().accounts
    is_cctp = request.route.mechanism == "cctp"
    refused = Unprocessable(
        f"the issuer of {request.dest.asset} does not allow paying dest_address",
        code="RECIPIENT_REFUSED",
    )
    if is_evm(request.dest.chain):
        if is_cctp and evm is not None:
            refusal = evm.mint_refusal(request.dest.chain, EvmAddress(request.dest_address))
            if refusal is not None:
                raise ChainUnavailable(refusal.detail) if refusal.kind == "paused" else refused
        return
    if accounts is not None:
        line = accounts.trustline(StellarAddress(request.dest_address), request.dest.asset)
        if line is not None and not line.is_authorized:
            raise refused
    if is_cctp and stellar is not None:
        refusal = stellar.cctp_pause()
        if refusal is not None:
            raise ChainUnavailable(refusal.detail)


def missing_trustline(request: QuoteRequest) -> NeededTrustline | None:
    """The trustline that a deposit's owner still has to open; None if no accounts are read."""
    accounts = deps().accounts
    if request.route.direction != "deposit" or accounts is None:
        return None
    account, asset = StellarAddress(request.dest_address), AssetId(request.dest.asset)
    if accounts.trustline(account, asset) is not None:
        return None
    paid = BaseUnits(request.amount * STELLAR_PER_SHARED)
    sponsorship = SponsorshipRequest(account, asset, paid, request.source_address)
    return needed_trustline(sponsorship)
