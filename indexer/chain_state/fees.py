"""Bridge fees, read on request and cached for seconds.

Sources: Circle's service (CCTP burns), the OFT (amount received, LayerZero message fee), a node
(gas price). An impossible answer raises like a missing one: `RetryableChainError` or
`PermanentChainError`.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar, cast

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from indexer.actions.stellar_orders import SendOnStellar
from indexer.chain_state.stellar import StellarState
from indexer.chains.evm.calls import ContractReader
from indexer.chains.http.node_pool import require_node
from indexer.chains.http.operators import http_urls
from indexer.chains.services.circle import Iris
from indexer.config.networks import EvmChain, Network
from indexer.config.routes import BRIDGE_STEP
from indexer.config.settings import Settings
from indexer.errors import (
    CallReverted,
    InconsistentAnswer,
    IndexerError,
    NodeUnavailable,
    PermanentChainError,
    RetryableChainError,
)
from warehouse_schema.identifiers import (
    BaseUnits,
    Bytes32,
    ChainId,
    NativeAmount,
    StellarAddress,
    Stroops,
    Wei,
)

T = TypeVar("T")

FAST, STANDARD = 1000, 2000
"""Finality thresholds of CCTP."""

CACHE_SECONDS = 10.0
"""Maximum age of an answer: about a block, far below what a quote's headroom covers."""
FAILURE_CACHE_SECONDS = 1.0
"""Pause before a failed source is read again."""
MAX_FEE_BPS = 100
"""Circle has charged 0 to 14; a higher answer is taken as a mistake."""
_MAX_CACHED = 1_000
_SERVICE_SECONDS = 2.0

_SEND_PARAM = "(uint32,bytes32,uint256,uint256,bytes,bytes,bytes)"
_QUOTE_OFT = keccak(text=f"quoteOFT({_SEND_PARAM})")[:4]
_QUOTE_SEND = keccak(text=f"quoteSend({_SEND_PARAM},bool)")[:4]
_OFT_ANSWER = ("(uint256,uint256)", "(int256,string)[]", "(uint256,uint256)")


@dataclass(frozen=True, slots=True)
class BurnTerms:
    """Finality threshold and minimum fee of a CCTP burn."""

    finality_threshold: int
    minimum_fee_bps: Decimal
    """Of the amount, deducted from the mint; may have a fraction."""


@dataclass(frozen=True, slots=True)
class SendTerms:
    """An OFT's limits and fees for an amount."""

    min_amount: BaseUnits
    max_amount: BaseUnits
    """Maximum of one send, source base units."""
    received: BaseUnits
    """Amount that arrives, in source base units."""
    native_fee: NativeAmount
    """Message fee, in the source chain's native token."""


class FeeReader:
    """The fee sources of a network. Thread-safe."""

    def __init__(
        self,
        network: Network,
        nodes: Mapping[ChainId, ContractReader],
        iris: Iris | None,
        stellar: StellarState | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._network = network
        self._nodes = nodes
        self._iris = iris
        self._stellar = stellar
        self._cache = TtlCache(clock)

    def burn(self, source: ChainId, dest: ChainId) -> BurnTerms:
        """Fees of burning USDC on `source` and minting it on `dest`."""

        def read() -> BurnTerms:
            start, end = self._network.chain(source), self._network.chain(dest)
            if self._iris is None or start.cctp_domain is None or end.cctp_domain is None:
                raise NodeUnavailable(f"nobody says what a burn from {source} to {dest} costs")
            fees = self._iris.burn_fees(start.cctp_domain, end.cctp_domain)
            by_threshold = {fee.finality_threshold: fee.minimum_fee_bps for fee in fees}
            if len(by_threshold) < len(fees) or STANDARD not in by_threshold:
                raise InconsistentAnswer(f"the fees of {source} are not one for each speed")
            # Fast where the source has it; Stellar's burns are final at once, without the fast fee.
            is_fast = FAST in by_threshold and isinstance(start, EvmChain)
            threshold = FAST if is_fast else STANDARD
            # The contract charges the standard fee on every burn.
            bps = max(by_threshold[threshold], by_threshold[STANDARD])
            if bps > MAX_FEE_BPS:
                raise InconsistentAnswer(
                    f"{bps} bps for a burn on {source} is beyond {MAX_FEE_BPS}"
                )
            return BurnTerms(threshold, bps)

        return self._cache.get(("burn", source, dest), read)

    def send(self, source: ChainId, dest: ChainId, to: Bytes32, amount: BaseUnits) -> SendTerms:
        """Fees of sending an amount of USDT0 from `source` to a recipient on `dest`."""
        key = ("send", source, dest, to, amount)
        return self._cache.get(key, lambda: self._send(source, dest, to, amount))

    def gas_price(self, chain: ChainId) -> Wei:
        """For a unit of gas."""
        key = ("gas", chain)
        return self._cache.get(key, lambda: require_node(self._nodes.get(chain), chain).gas_price())

    def close(self) -> None:
        """Close the connections."""
        for node in self._nodes.values():
            node.close()
        if self._iris is not None:
            self._iris.close()
        if self._stellar is not None:
            self._stellar.close()

    def _send(self, source: ChainId, dest: ChainId, to: Bytes32, amount: BaseUnits) -> SendTerms:
        chain, eid = self._network.chain(source), self._network.chain(dest).lz_eid
        if chain.oft is None or eid is None:
            raise NodeUnavailable(f"no OFT can be asked about {source} to {dest}")
        if not isinstance(chain, EvmChain):
            return self._send_from_stellar(chain.oft, eid, to, amount)
        node = require_node(self._nodes.get(source), source)
        what, rest = (eid, bytes.fromhex(to[2:]), amount), (b"", b"", b"")
        send = (*what, 0, *rest)
        question = _QUOTE_OFT + encode([_SEND_PARAM], [send])
        limit, _, receipt = node.read(chain.oft, question, _OFT_ANSWER)
        received = _received(source, amount, *receipt)
        question = _QUOTE_SEND + encode([_SEND_PARAM, "bool"], [(*what, received, *rest), False])
        native_fee, token_fee = node.read(chain.oft, question, ("uint256", "uint256"))
        if token_fee != 0:
            raise InconsistentAnswer(f"the OFT of {source} wants a fee in a token that is not paid")
        return SendTerms(
            BaseUnits(limit[0]), BaseUnits(limit[1]), received, native_fee=Wei(native_fee)
        )

    def _send_from_stellar(
        self, oft: StellarAddress, eid: int, to: Bytes32, amount: BaseUnits
    ) -> SendTerms:
        chain = self._network.stellar.id
        stellar = require_node(self._stellar, chain)
        try:
            quote = stellar.quote_oft(oft, eid, to, amount)
            received = _received(chain, amount, quote.sent, quote.received)
            if received % BRIDGE_STEP:
                raise InconsistentAnswer(f"the OFT of {chain} would let {received} arrive")
            send = SendOnStellar(oft, eid, to, amount, received, Stroops(0))
            fee = stellar.quote_send(send)
        except CallReverted as error:
            # As on an EVM chain: paused, or over a current limit.
            raise RetryableChainError(str(error)) from error
        return SendTerms(quote.min_amount, quote.max_amount, received, native_fee=fee)


def open_fees(settings: Settings) -> FeeReader:
    """The configured fee sources of the network."""
    nodes = {
        chain.id: ContractReader(chain, urls)
        for chain in settings.network.evm
        if (urls := http_urls(settings.nodes.get(chain.id, ())))
    }
    url = settings.network.iris
    iris = None if url is None else Iris(url, timeout=_SERVICE_SECONDS)
    stellar = settings.network.stellar
    urls = http_urls(settings.nodes.get(stellar.id, ()))
    return FeeReader(settings.network, nodes, iris, StellarState(stellar, urls) if urls else None)


class TtlCache:
    """Cache of values and failures by key. Thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._cached: OrderedDict[Hashable, tuple[float, object, IndexerError | None]] = (
            OrderedDict()
        )

    def get(self, key: Hashable, read: Callable[[], T]) -> T:
        """The cached value or failure, else what `read` returns or raises."""
        with self._lock:
            until, value, failure = self._cached.get(key, (0.0, None, None))
            is_good = self._clock() < until
        if is_good and failure is not None:
            raise type(failure)(str(failure))
        if is_good:
            return cast(T, value)
        try:
            found = read()
        except (RetryableChainError, PermanentChainError) as error:
            self._store(key, FAILURE_CACHE_SECONDS, None, error)
            raise
        self._store(key, CACHE_SECONDS, found, None)
        return found

    def _store(
        self, key: Hashable, seconds: float, value: object, failure: IndexerError | None
    ) -> None:
        with self._lock:
            self._cached[key] = (self._clock() + seconds, value, failure)
            self._cached.move_to_end(key)
            while len(self._cached) > _MAX_CACHED:
                self._cached.popitem(last=False)


def _received(source: ChainId, amount: int, sent: int, received: int) -> BaseUnits:
    """Raises `InconsistentAnswer` for an OFT that would move another amount, or create money."""
    if sent != amount or not 0 < received <= amount:
        raise InconsistentAnswer(
            f"the OFT of {source} would send {sent} and let {received} arrive of {amount}"
        )
    return BaseUnits(received)
