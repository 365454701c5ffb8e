"""What can be transferred from where to where, by which mechanism, and within which limits.

Six routes, each over many chains; all of it follows from the network file. A route that the network
cannot serve (no USDT0 on Stellar testnet) is there with no chains and is not enabled.

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
Mechanism: TypeAlias = Literal["cctp", "oft", "payment"]
FundingMode: TypeAlias = Literal["direct", "deposit_address"]
QuotedFee: TypeAlias = Literal["cctp_fast_fee", "lz_native_fee"]

EVM_DECIMALS = 6
"""USDC and USDT0 on every EVM chain of the network files; also what CCTP and the OFT carry."""

STELLAR_DECIMALS = 7
"""Every classic Stellar asset."""

BRIDGE_STEP = BaseUnits(10 ** (STELLAR_DECIMALS - EVM_DECIMALS))
"""Stellar amounts cross in whole multiples of this: the 7th decimal does not exist elsewhere."""

MAX_USD = 20
"""Most that one transfer moves; USDC and USDT0 count 1:1."""

MIN_BRIDGED_USD = 1
"""Least that crosses: below it the mechanism's own fees are out of proportion."""

SERVICE_FEE_BPS = 0
"""The service charges nothing of its own."""


@dataclass(frozen=True, slots=True)
class TransferRouteFee:
    """What a quote on the route adds up."""

    service_fee_bps: int
    """Of the amount sent, hundredths of a percent."""
    quoted: tuple[QuotedFee, ...]
    """Fees of others, which only a quote can tell: Circle's Fast fee moves with the source chain,
    LayerZero's message fee (native token) with gas prices."""


@dataclass(frozen=True, slots=True)
class TransferRouteEnd:
    """One chain at which a route begins or ends. Amounts are base units of `asset`."""

    chain: ChainId
    asset: AssetId
    min_amount: BaseUnits
    max_amount: BaseUnits
    amount_step: BaseUnits
    """Amounts are whole multiples of this."""
    funding_modes: tuple[FundingMode, ...]
    """How a deposit may be paid in; empty where nothing is paid in."""
    expected_seconds: int
    """The usual time spent on this side: on a source chain from the transaction's block until the
    other side may act on it, on a destination chain until the delivery is in a block. The two sides
    of a transfer add up."""


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
        """Whether the network has both ends."""
        return bool(self.source_chains and self.dest_chains)

    def source(self, chain: ChainId) -> TransferRouteEnd | None:
        """The end at which the route begins on that chain, if it does."""
        return next((end for end in self.source_chains if end.chain == chain), None)

    def dest(self, chain: ChainId) -> TransferRouteEnd | None:
        """The end at which the route ends on that chain, if it does."""
        return next((end for end in self.dest_chains if end.chain == chain), None)


def routes(network: Network) -> tuple[TransferRoute, ...]:
    """The six routes, always all and in this order."""
    return tuple(_route(network, *plan) for plan in _PLANS)


def find_route(network: Network, route: str) -> TransferRoute | None:
    """The route of that id, enabled or not; None for a word that is no route."""
    return next((known for known in routes(network) if known.id == route), None)


# Circle charges for Fast, which Stellar does not have as a source: its burns are final at once.
# Whoever sends an OFT pays LayerZero for the message.
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
    stellar, evm = _reached(network, coin, mechanism)
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
            _end(
                place,
                mechanism,
                _funding_modes(place.chain) if direction == "deposit" else (),
                _source_seconds(place.chain, mechanism),
            )
            for place in sources
        ),
        dest_chains=tuple(
            _end(place, mechanism, (), _dest_seconds(place.chain, mechanism)) for place in dests
        ),
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """A coin on a chain."""

    chain: Chain
    asset: AssetId


_Places: TypeAlias = tuple[_Place, ...]


def _reached(network: Network, coin: Coin, mechanism: Mechanism) -> tuple[_Places, _Places]:
    """Where the coin is on Stellar, and on which EVM chains; neither without the mechanism.

    A bridge needs both of its sides, so one that Stellar lacks leads nowhere.
    """
    places = [
        _Place(chain, asset)
        for chain in network.chains
        if _has(chain, mechanism) and (asset := _asset(chain, coin)) is not None
    ]
    stellar = tuple(place for place in places if isinstance(place.chain, StellarChain))
    evm = tuple(place for place in places if isinstance(place.chain, EvmChain))
    if mechanism == "payment":
        return stellar, ()
    return (stellar, evm) if stellar and evm else ((), ())


def _funding_modes(chain: Chain) -> tuple[FundingMode, ...]:
    """The first is what is meant when nothing is said."""
    has_addresses = isinstance(chain, EvmChain) and chain.has_deposit_addresses
    return ("direct", "deposit_address") if has_addresses else ("direct",)


def _has(chain: Chain, mechanism: Mechanism) -> bool:
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
    place: _Place,
    mechanism: Mechanism,
    funding_modes: tuple[FundingMode, ...],
    expected_seconds: int,
) -> TransferRouteEnd:
    on_stellar = isinstance(place.chain, StellarChain)
    unit = 10 ** (STELLAR_DECIMALS if on_stellar else EVM_DECIMALS)
    crosses = mechanism != "payment"
    return TransferRouteEnd(
        chain=place.chain.id,
        asset=place.asset,
        min_amount=BaseUnits(MIN_BRIDGED_USD * unit if crosses else 1),
        max_amount=BaseUnits(MAX_USD * unit),
        amount_step=BRIDGE_STEP if crosses and on_stellar else BaseUnits(1),
        funding_modes=funding_modes,
        expected_seconds=expected_seconds,
    )


# Circle, "Finality and block confirmations" (CCTP V2), seconds from the burn's block until the
# attestation: Fast where the chain offers it as a source, otherwise Standard. A chain without a
# published figure (Stellar, the testnets, the devnet) counts its own finality instead.
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

# Ledgers that the verifiers of USDT0's Stellar OFT wait for: its send configuration toward Ethereum
# as it stood on chain in September 2026, when 53 sends took 30.5 minutes in the median. The other
# way the configuration is not published: an EVM chain counts its own finality.
_OFT_CONFIRMATIONS: Mapping[ChainId, int] = {ChainId("stellar:pubnet"): 320}


def _source_seconds(chain: Chain, mechanism: Mechanism) -> int:
    """From the source transaction's block until the mechanism vouches for it on the other side."""
    if mechanism == "payment":
        return _inclusion_seconds(chain)
    if mechanism == "cctp" and chain.id in _CCTP_ATTESTATION_SECONDS:
        return _CCTP_ATTESTATION_SECONDS[chain.id]
    confirmations = chain.confirmations
    if mechanism == "oft":
        confirmations = _OFT_CONFIRMATIONS.get(chain.id, confirmations)
    return math.ceil((confirmations + 1) * chain.block_seconds)


def _dest_seconds(chain: Chain, mechanism: Mechanism) -> int:
    """A payment is one transaction: once its source side is done, so is the other."""
    return 0 if mechanism == "payment" else _inclusion_seconds(chain)


def _inclusion_seconds(chain: Chain) -> int:
    """Until a transaction sent now is in a block: the one under way, and its own."""
    return math.ceil(2 * chain.block_seconds)
