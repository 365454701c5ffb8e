"""Transfer routes: coin, direction, mechanism, chains and limits, derived from the network file.

There are always six routes. A route that the network cannot serve (no USDT0 on Stellar testnet) has
no chains and is not enabled.

Amounts are base units of the chain's own asset: 6 decimals on EVM chains, 7 on Stellar.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from indexer.config.networks import Chain, EvmChain, Network, StellarChain
from warehouse_schema.identifiers import AssetId, BaseUnits, ChainId

RouteId: TypeAlias = Literal[
    "usdc-deposit", "usdc-withdraw", "usdc-send", "usdt0-deposit", "usdt0-withdraw", "usdt0-send"
]
Coin: TypeAlias = Literal["usdc", "usdt0"]
Direction: TypeAlias = Literal["deposit", "withdraw", "send"]
Bridge: TypeAlias = Literal["cctp", "oft"]
"""Mechanism of a movement: a folder of `indexer/bridges`."""
Mechanism: TypeAlias = Literal[Bridge, "payment"]
FundingMode: TypeAlias = Literal["direct", "deposit_address"]
QuotedFee: TypeAlias = Literal["cctp_fast_fee", "lz_native_fee"]

EVM_DECIMALS = 6
"""USDC and USDT0 on every EVM chain of the network files, and in CCTP and OFT messages."""

STELLAR_DECIMALS = 7
"""Every classic Stellar asset."""

BRIDGE_STEP = BaseUnits(10 ** (STELLAR_DECIMALS - EVM_DECIMALS))
"""Stellar amounts cross a bridge in multiples of this: other chains have no 7th decimal."""

MAX_USD = 20
"""Per transfer; USDC and USDT0 count 1:1."""

MIN_BRIDGED_USD = 1
"""Per bridged transfer: below it the mechanism's fees are out of proportion."""

SERVICE_FEE_BPS = 0
"""Our own fee: none."""


@dataclass(frozen=True, slots=True)
class TransferRouteFee:
    """Fees of a quote on the route."""

    service_fee_bps: int
    """Hundredths of a percent of the amount sent."""
    quoted: tuple[QuotedFee, ...]
    """Third-party fees that only a quote knows: Circle's Fast fee varies with the source chain,
    LayerZero's message fee (native token) with gas prices."""


@dataclass(frozen=True, slots=True)
class TransferRouteEnd:
    """Source or destination chain of a route. Amounts are base units of `asset`."""

    chain: ChainId
    asset: AssetId
    min_amount: BaseUnits
    max_amount: BaseUnits
    amount_step: BaseUnits
    """Amounts are multiples of this."""
    funding_modes: tuple[FundingMode, ...]
    """Ways to pay a deposit, the default first; empty on a chain that is no source of deposits."""
    expected_seconds: int
    """Usual time on this chain: on a source from the transaction's block until the destination can
    act on it, on a destination until the delivery is in a block. A transfer takes the sum."""


@dataclass(frozen=True, slots=True)
class TransferRoute:
    """A coin, a direction, a mechanism and the chains they work on, in network file order."""

    id: RouteId
    direction: Direction
    mechanism: Mechanism
    fee: TransferRouteFee
    source_chains: tuple[TransferRouteEnd, ...]
    dest_chains: tuple[TransferRouteEnd, ...]

    @property
    def enabled(self) -> bool:
        """The network has source and destination chains."""
        return bool(self.source_chains and self.dest_chains)

    def source(self, chain: ChainId) -> TransferRouteEnd | None:
        """The source on that chain, if the route has one."""
        return next((end for end in self.source_chains if end.chain == chain), None)

    def dest(self, chain: ChainId) -> TransferRouteEnd | None:
        """The destination on that chain, if the route has one."""
        return next((end for end in self.dest_chains if end.chain == chain), None)


def routes(network: Network) -> tuple[TransferRoute, ...]:
    """The six routes, always all, in this order."""
    return tuple(_route(network, *plan) for plan in _PLANS)


def find_route(network: Network, route: str) -> TransferRoute | None:
    """The route of that id, enabled or not; None for an unknown id."""
    return next((known for known in routes(network) if known.id == route), None)


# Circle charges for Fast transfers, which Stellar lacks as a source: its burns are final at once.
# The sender of an OFT pays LayerZero for the message.
_PLANS: tuple[tuple[RouteId, Direction, Coin, Mechanism, tuple[QuotedFee, ...]], ...] = (
    ("usdc-deposit", "deposit", "usdc", "cctp", ("cctp_fast_fee",)),
    ("usdc-withdraw", "withdraw", "usdc", "cctp", ()),
    ("usdc-send", "send", "usdc", "payment", ()),
    ("usdt0-deposit", "deposit", "usdt0", "oft", ("lz_native_fee",)),
    ("usdt0-withdraw", "withdraw", "usdt0", "oft", ("lz_native_fee",)),
    ("usdt0-send", "send", "usdt0", "payment", ()),
)


def _route(
    network: Network,
    route: RouteId,
    direction: Direction,
    coin: Coin,
    mechanism: Mechanism,
    quoted: tuple[QuotedFee, ...],
) -> TransferRoute:
    places = [
        (chain, asset)
        for chain in network.chains
        if _has_mechanism(chain, mechanism) and (asset := _asset(chain, coin)) is not None
    ]
    stellar = [place for place in places if isinstance(place[0], StellarChain)]
    evm = [place for place in places if isinstance(place[0], EvmChain)]
    if mechanism != "payment" and not (stellar and evm):
        # A bridge needs both of its sides.
        stellar, evm = [], []
    sources, dests = {
        "deposit": (evm, stellar),
        "withdraw": (stellar, evm),
        "send": (stellar, stellar),
    }[direction]
    return TransferRoute(
        id=route,
        direction=direction,
        mechanism=mechanism,
        fee=TransferRouteFee(service_fee_bps=SERVICE_FEE_BPS, quoted=quoted),
        source_chains=tuple(
            _end(*place, direction, mechanism, is_source=True) for place in sources
        ),
        dest_chains=tuple(_end(*place, direction, mechanism, is_source=False) for place in dests),
    )


def _has_mechanism(chain: Chain, mechanism: Mechanism) -> bool:
    """A network file names all of a bridge's contracts on a chain or none."""
    match mechanism:
        case "cctp":
            return chain.cctp_domain is not None
        case "oft":
            return chain.lz_eid is not None
        case "payment":
            return isinstance(chain, StellarChain)


def _asset(chain: Chain, coin: Coin) -> AssetId | None:
    """CAIP-19 on EVM chains, `stellar:CODE:ISSUER` on Stellar."""
    if isinstance(chain, StellarChain):
        return chain.usdc if coin == "usdc" else chain.usdt0
    contract = chain.usdc if coin == "usdc" else chain.usdt0
    return None if contract is None else AssetId(f"{chain.id}/erc20:{contract}")


def _end(
    chain: Chain, asset: AssetId, direction: Direction, mechanism: Mechanism, *, is_source: bool
) -> TransferRouteEnd:
    funding_modes: tuple[FundingMode, ...] = ()
    if is_source and direction == "deposit":
        has_addresses = isinstance(chain, EvmChain) and chain.has_deposit_addresses
        funding_modes = ("direct", "deposit_address") if has_addresses else ("direct",)
    if is_source:
        expected_seconds = _source_seconds(chain, mechanism)
    else:
        # A payment is a single transaction: its source side is all of it.
        expected_seconds = 0 if mechanism == "payment" else _inclusion_seconds(chain)
    on_stellar = isinstance(chain, StellarChain)
    unit = 10 ** (STELLAR_DECIMALS if on_stellar else EVM_DECIMALS)
    is_bridged = mechanism != "payment"
    return TransferRouteEnd(
        chain=chain.id,
        asset=asset,
        min_amount=BaseUnits(MIN_BRIDGED_USD * unit if is_bridged else 1),
        max_amount=BaseUnits(MAX_USD * unit),
        amount_step=BRIDGE_STEP if is_bridged and on_stellar else BaseUnits(1),
        funding_modes=funding_modes,
        expected_seconds=expected_seconds,
    )


# Circle, "Finality and block confirmations" (CCTP V2), seconds from the burn's block until the
# attestation: Fast where the chain supports it as a source, otherwise Standard. Chains without a
# published figure (Stellar, the testnets, the devnet) use their own finality.
_CCTP_ATTESTATION_SECONDS: Mapping[ChainId, int] = {
    ChainId("eip155:1"): 20,
    ChainId("eip155:10"): 8,
    ChainId("eip155:130"): 8,
    ChainId("eip155:480"): 8,
    ChainId("eip155:8453"): 8,
    ChainId("eip155:42161"): 8,
    ChainId("eip155:57073"): 8,
    ChainId("eip155:137"): 8,
    ChainId("eip155:43114"): 8,
    ChainId("eip155:143"): 5,
    ChainId("eip155:999"): 5,
    ChainId("eip155:1329"): 5,
}

# Confirmations that the verifiers of USDT0's Stellar OFT wait for: its send configuration toward
# Ethereum, read on chain in September 2026, when 53 sends took 30.5 minutes in the median. In the
# other direction it is not published: EVM chains use their own finality.
_OFT_CONFIRMATIONS: Mapping[ChainId, int] = {ChainId("stellar:pubnet"): 320}


def _source_seconds(chain: Chain, mechanism: Mechanism) -> int:
    """From the source transaction's block until the destination can act on it."""
    if mechanism == "payment":
        return _inclusion_seconds(chain)
    if mechanism == "cctp" and chain.id in _CCTP_ATTESTATION_SECONDS:
        return _CCTP_ATTESTATION_SECONDS[chain.id]
    confirmations = chain.confirmations
    if mechanism == "oft":
        confirmations = _OFT_CONFIRMATIONS.get(chain.id, confirmations)
    return math.ceil((confirmations + 1) * chain.block_seconds)


def _inclusion_seconds(chain: Chain) -> int:
    """Until a transaction sent now is in a block: the pending one, and its own."""
    return math.ceil(2 * chain.block_seconds)
