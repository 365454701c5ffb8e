"""What a request for a quote asks, checked against the network; each refusal names the member.

Values are not repeated in messages: what stands there is what would be right.
"""

import re
from dataclasses import dataclass
from typing import Annotated, get_args

from pydantic import Field

from api.errors import BadRequest, NotTheOwner
from api.parsing import Strict
from indexer.addresses import evm_address, stellar_account
from indexer.config.networks import EvmChain, Network, StellarChain
from indexer.config.routes import (
    FundingMode,
    RouteId,
    TransferRoute,
    TransferRouteEnd,
    find_route,
    routes,
)
from warehouse_schema.identifiers import (
    Address,
    BaseUnits,
    ChainId,
    StellarAddress,
    is_evm,
)

_AMOUNT = re.compile(r"[1-9][0-9]{0,77}")
_ZERO = "0x" + "00" * 20


class NewQuote(Strict):
    """The body of `POST /v1/quotes`."""

    route: Annotated[str, Field(json_schema_extra={"enum": list(get_args(RouteId))})]
    amount_in: str
    source_chain: str
    source_address: str
    dest_address: str
    dest_chain: str | None = None
    funding_mode: str | None = None


@dataclass(frozen=True, slots=True)
class QuoteRequest:
    """A transfer that this network could do for its owner."""

    owner: Address
    route: TransferRoute
    source: TransferRouteEnd
    dest: TransferRouteEnd
    source_address: Address
    dest_address: Address
    amount: BaseUnits
    funding_mode: FundingMode | None


def read_quote_request(asked: NewQuote, network: Network, owner: StellarAddress) -> QuoteRequest:
    """The wish of a body. Raises `BadRequest`, or `NotTheOwner`."""
    route = _route(asked.route, network)
    source = _end(asked.source_chain, "source_chain", route.source_chains)
    dest = _dest(asked.dest_chain, route)
    wish = QuoteRequest(
        owner=Address(owner),
        route=route,
        source=source,
        dest=dest,
        source_address=_source_address(asked.source_address, source, network),
        dest_address=_dest_address(asked.dest_address, dest, network),
        amount=_amount(asked.amount_in, source),
        funding_mode=_funding_mode(asked.funding_mode, route, source),
    )
    _check_owner(wish)
    return wish


def _route(text: str, network: Network) -> TransferRoute:
    route = find_route(network, text)
    if route is None or not route.enabled:
        known = ", ".join(each.id for each in routes(network) if each.enabled)
        raise BadRequest(f"route must be one of {known}", code="BAD_ROUTE")
    return route


def _end(text: str, member: str, ends: tuple[TransferRouteEnd, ...]) -> TransferRouteEnd:
    for end in ends:
        if end.chain == text:
            return end
    known = ", ".join(end.chain for end in ends)
    raise BadRequest(
        f"{member} must be one that the route is enabled on: {known}", code="BAD_CHAIN"
    )


def _dest(text: str | None, route: TransferRoute) -> TransferRouteEnd:
    """Where there is one chain only, it need not be named."""
    if text is None and route.direction != "withdraw":
        return route.dest_chains[0]
    if text is None:
        known = ", ".join(end.chain for end in route.dest_chains)
        raise BadRequest(
            f"dest_chain is missing: a withdrawal goes to one of {known}", code="BAD_CHAIN"
        )
    return _end(text, "dest_chain", route.dest_chains)


def _amount(text: str, end: TransferRouteEnd) -> BaseUnits:
    if not _AMOUNT.fullmatch(text):
        raise BadRequest(
            f"amount_in must be a whole number of base units of {end.asset}, in digits alone",
            code="BAD_AMOUNT",
        )
    amount = int(text)
    if not end.min_amount <= amount <= end.max_amount:
        raise BadRequest(
            f"amount_in must be from {end.min_amount} to {end.max_amount} base units of "
            f"{end.asset}",
            code="AMOUNT_OUT_OF_LIMITS",
        )
    if amount % end.amount_step:
        # Limits are multiples of it, so the nearest one is within them.
        nearest = (amount + end.amount_step // 2) // end.amount_step * end.amount_step
        raise BadRequest(
            f"amount_in must be a multiple of {end.amount_step} base units of {end.asset}, the "
            f"last decimal of which cannot cross; the nearest is {nearest}",
            code="BAD_AMOUNT",
        )
    return BaseUnits(amount)


def _source_address(text: str, end: TransferRouteEnd, network: Network) -> Address:
    problem = _problem(text, end.chain, network)
    if problem is not None:
        raise BadRequest(f"source_address must be {problem}", code="BAD_SOURCE_ADDRESS")
    return _read(text, end.chain)


def _dest_address(text: str, end: TransferRouteEnd, network: Network) -> Address:
    problem = _problem(text, end.chain, network)
    if problem is not None:
        raise BadRequest(f"dest_address must be {problem}", code="BAD_DEST_ADDRESS")
    return _read(text, end.chain)


def _read(text: str, chain: ChainId) -> Address:
    return Address(evm_address(text) if is_evm(chain) else stellar_account(text))


def _problem(text: str, chain: ChainId, network: Network) -> str | None:
    """What an address would have to be, if it is not that."""
    try:
        address = _read(text, chain)
    except ValueError:
        # Its words quote what was given.
        kind = (
            "0x and 40 hex digits, in mixed case with a right EIP-55 checksum"
            if is_evm(chain)
            else "a Stellar account, G… with a valid checksum and neither memo nor muxed id"
        )
        return f"an address on {chain}: {kind}"
    if address in _nobodys(network, chain):
        return (
            f"somebody's own: money at the address of a token, an issuer or a bridge on {chain} "
            "is lost"
        )
    return None


def _nobodys(network: Network, chain_id: ChainId) -> frozenset[str]:
    """Addresses at which money would be gone."""
    chain = network.chain(chain_id)
    if isinstance(chain, EvmChain):
        return frozenset({_ZERO, *chain.event_contracts, *chain.tokens})
    return _issuers(chain)


def _issuers(chain: StellarChain) -> frozenset[str]:
    assets = (asset for asset in (chain.usdc, chain.usdt0) if asset is not None)
    return frozenset(asset.rpartition(":")[2] for asset in assets)


def _funding_mode(
    text: str | None, route: TransferRoute, source: TransferRouteEnd
) -> FundingMode | None:
    if route.direction != "deposit":
        if text is None:
            return None
        raise BadRequest("funding_mode is for deposits: leave it out", code="BAD_FUNDING_MODE")
    for mode in source.funding_modes:
        if mode == (text or "direct"):
            return mode
    if text == "deposit_address":
        raise BadRequest(
            f"funding_mode deposit_address: there are no sponsored deposit addresses on "
            f"{source.chain}; use direct",
            code="BAD_FUNDING_MODE",
        )
    known = " or ".join(source.funding_modes)
    raise BadRequest(f"funding_mode must be {known}", code="BAD_FUNDING_MODE")


def _check_owner(wish: QuoteRequest) -> None:
    if wish.route.direction == "deposit":
        if wish.dest_address != wish.owner:
            raise NotTheOwner("dest_address must be your own account: deposits go to nobody else")
        return
    if wish.source_address != wish.owner:
        raise NotTheOwner("source_address must be your own account: nobody else's money is spent")
    if wish.dest_address == wish.source_address:
        raise BadRequest("dest_address must be another account", code="BAD_DEST_ADDRESS")
