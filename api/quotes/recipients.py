"""Whether a recipient could be paid at all, asked before a quote: a burn cannot be undone."""

from api.deps import deps
from api.errors import ChainUnavailable, Unprocessable
from api.quotes.requests import QuoteRequest
from warehouse_schema.identifiers import EvmAddress, StellarAddress, is_evm


def refuse_unpayable(wish: QuoteRequest) -> None:
    """Raises `Unacceptable` for a recipient that the asset's issuer refuses, `ChainUnavailable`
    while issuer or bridge are paused.

    A process that reads no chain knows nothing and refuses nothing; a missing trustline can still
    be opened.
    """
    if is_evm(wish.dest.chain):
        _refuse_unminted(wish)
    else:
        _refuse_frozen(wish)
        _refuse_paused(wish)


def _refuse_unminted(wish: QuoteRequest) -> None:
    evm = deps().evm
    if wish.route.mechanism != "cctp" or evm is None:
        return
    refusal = evm.mint_refusal(wish.dest.chain, EvmAddress(wish.dest_address))
    if refusal is None:
        return
    if refusal.kind == "paused":
        raise ChainUnavailable(refusal.detail)
    raise _refused(wish)


def _refuse_frozen(wish: QuoteRequest) -> None:
    accounts = deps().accounts
    if accounts is None:
        return
    line = accounts.trustline(StellarAddress(wish.dest_address), wish.dest.asset)
    if line is not None and not line.is_authorized:
        raise _refused(wish)


def _refuse_paused(wish: QuoteRequest) -> None:
    stellar = deps().stellar
    if wish.route.mechanism != "cctp" or stellar is None:
        return
    refusal = stellar.cctp_pause()
    if refusal is not None:
        raise ChainUnavailable(refusal.detail)


def _refused(wish: QuoteRequest) -> Unprocessable:
    return Unprocessable(
        f"the issuer of {wish.dest.asset} does not let dest_address be paid",
        code="RECIPIENT_REFUSED",
    )
