"""Requests for quotes, validated against the network.

Errors name the member and say what would be valid; they never repeat the client's value.
"""

import re
from dataclasses import dataclass
from typing import Annotated, get_args

from pydantic import Field

from api.amounts import amount
from api.errors import BadRequest, Forbidden
from api.parsing import Strict
from indexer.addresses import evm_address, stellar_account
from indexer.config.networks import EvmChain, Network
from indexer.config.routes import (
    FundingMode,
    RouteId,
    TransferRoute,
    TransferRouteEnd,
    find_route,
    routes,
)
from warehouse_schema.identifiers import Address, BaseUnits, StellarAddress, is_evm

_AMOUNT = re.compile(r"[1-9][0-9]{0,77}")
_ZERO_ADDRESS = "0x" + "00" * 20


class NewQuote(Strict):
    """The body of `POST /v1/quotes`."""

    route: Annotated[str, Field(json_schema_extra={"enum": list(get_args(RouteId))})]
    amount_in: Annotated[str, amount("base units of the route's source asset", "5000000")]
    source_chain: str
    source_address: str
    dest_address: str
    dest_chain: str | None = None
    funding_mode: str | None = None


@dataclass(frozen=True, slots=True)
class QuoteRequest:
    """A transfer that this network supports, for its owner."""

    owner: Address
    route: TransferRoute
    source: TransferRouteEnd
    dest: TransferRouteEnd
    source_address: Address
    dest_address: Address
    amount: BaseUnits
    funding_mode: FundingMode | None


def read_quote_request(body: NewQuote, network: Network, owner: StellarAddress) -> QuoteRequest:
    """Raises `BadRequest`, or `Forbidden` for another owner's account."""
    route = find_route(network, body.route)
    if route is None or not route.enabled:
        known = ", ".join(each.id for each in routes(network) if each.enabled)
        raise BadRequest(f"route must be one of {known}", code="BAD_ROUTE")
    source = _read_chain(body.source_chain, "source_chain", route.source_chains)
    if body.dest_chain is not None:
        dest = _read_chain(body.dest_chain, "dest_chain", route.dest_chains)
    elif route.direction == "withdraw":
        known = ", ".join(end.chain for end in route.dest_chains)
        raise BadRequest(
            f"dest_chain is missing: a withdrawal goes to one of {known}", code="BAD_CHAIN"
        )
    else:
        # Only withdrawals have several destination chains.
        dest = route.dest_chains[0]
    request = QuoteRequest(
        owner=Address(owner),
        route=route,
        source=source,
        dest=dest,
        source_address=_read_address(
            body.source_address, "source_address", source, network, code="BAD_SOURCE_ADDRESS"
        ),
        dest_address=_read_address(
            body.dest_address, "dest_address", dest, network, code="BAD_DEST_ADDRESS"
        ),
        amount=_read_amount(body.amount_in, source),
        funding_mode=_read_funding_mode(body.funding_mode, route, source),
    )
    if route.direction == "deposit":
        if request.dest_address != request.owner:
            raise Forbidden("dest_address of a deposit must be your account", code="NOT_THE_OWNER")
        return request
    if request.source_address != request.owner:
        raise Forbidden("source_address must be your account", code="NOT_THE_OWNER")
    if request.dest_address == request.source_address:
        raise BadRequest("dest_address must be another account", code="BAD_DEST_ADDRESS")
    return request


def _read_chain(text: str, member: str, ends: tuple[TransferRouteEnd, ...]) -> TransferRouteEnd:
    for end in ends:
        if end.chain == text:
            return end
    known = ", ".join(end.chain for end in ends)
    raise BadRequest(
        f"{member} must be one that the route is enabled on: {known}", code="BAD_CHAIN"
    )


def _read_amount(text: str, end: TransferRouteEnd) -> BaseUnits:
    if not _AMOUNT.fullmatch(text):
        raise BadRequest(
            f"amount_in must be a whole number of base units of {end.asset}, in digits only",
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
        # Within the limits, which are multiples of the step.
        nearest = (amount + end.amount_step // 2) // end.amount_step * end.amount_step
        raise BadRequest(
            f"amount_in must be a multiple of {end.amount_step} base units of {end.asset}: the "
            f"bridge carries 6 decimals; the nearest is {nearest}",
            code="BAD_AMOUNT",
        )
    return BaseUnits(amount)


def _read_address(
    text: str, member: str, end: TransferRouteEnd, network: Network, *, code: str
) -> Address:
    """Raises `BadRequest` also for an address at which money would be lost."""
    try:
        address = Address(evm_address(text) if is_evm(end.chain) else stellar_account(text))
    except ValueError:
        # Not as the cause: its message quotes the client's value.
        kind = (
            "0x and 40 hex digits, in mixed case with a right EIP-55 checksum"
            if is_evm(end.chain)
            else "a Stellar account, G… with a valid checksum and neither memo nor muxed id"
        )
        raise BadRequest(f"{member} must be an address on {end.chain}: {kind}", code=code) from None
    chain = network.chain(end.chain)
    if isinstance(chain, EvmChain):
        unusable = {_ZERO_ADDRESS, *chain.event_contracts, *chain.tokens}
    else:
        unusable = {asset.rpartition(":")[2] for asset in (chain.usdc, chain.usdt0) if asset}
    if address in unusable:
        raise BadRequest(
            f"{member} must not be a token, an issuer or a bridge on {end.chain}: money paid to "
            "it is lost",
            code=code,
        )
    return address


def _read_funding_mode(
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
