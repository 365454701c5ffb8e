"""EVM state for owners' actions, read during a request: allowances, and named transactions.

One node is enough for an allowance: at worst an unneeded approval is shown, or a missing one makes
the burn revert. For a transaction a quorum of independent operators must agree.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from indexer.actions.evm_calls import EvmOrder, SendOrder, spender
from indexer.actions.evm_check import MinedTx
from indexer.actions.mint_check import MintRefusal, mint_refusal
from indexer.chains.events import Provenance
from indexer.chains.evm.calls import ContractReader
from indexer.chains.evm.quorum import Quorum
from indexer.chains.http.node_pool import REQUEST_SECONDS, require_node
from indexer.chains.http.operators import MIN_OPERATORS, http_urls
from indexer.chains.raw import EvmLog
from indexer.config.networks import EvmChain, Network
from indexer.config.settings import Settings
from indexer.decode.evm import event_topics
from warehouse_schema.identifiers import BaseUnits, ChainId, EvmAddress, TxHash, UnixSeconds

_ALLOWANCE = keccak(text="allowance(address,address)")[:4]
_APPROVAL_REQUIRED = keccak(text="approvalRequired()")[:4]


class EvmState:
    """The network's EVM chains that have nodes. Thread-safe."""

    def __init__(
        self,
        network: Network,
        nodes: Mapping[ChainId, Sequence[str]],
        *,
        needed: int = MIN_OPERATORS,
    ) -> None:
        """`needed`: operators that must agree on a transaction."""
        self._chains = {
            chain.id: _Chain(chain, urls, needed)
            for chain in network.evm
            if (urls := http_urls(nodes.get(chain.id, ())))
        }

    def allowance(
        self, chain: ChainId, order: EvmOrder, token: EvmAddress, payer: EvmAddress
    ) -> BaseUnits | None:
        """Allowance of the order's contract for the payer's token; None where it needs none.

        Raises `RetryableChainError` or `PermanentChainError`.
        """
        node = self._of(chain).calls
        taker = spender(order)
        if isinstance(order, SendOrder):
            [is_required] = node.read(taker, _APPROVAL_REQUIRED, ["bool"])
            if not is_required:
                return None
        data = _ALLOWANCE + encode(["address", "address"], [payer, taker])
        [allowance] = node.read(token, data, ["uint256"])
        return BaseUnits(allowance)

    def mint_refusal(self, chain: ChainId, recipient: EvmAddress) -> MintRefusal | None:
        """Why CCTP would not mint to a recipient; None if it would. Raises as `allowance`."""
        found = self._of(chain)
        return mint_refusal(
            found.chain,
            recipient,
            lambda contract, data: int(found.calls.read(contract, data, ["uint256"])[0]),
        )

    def mined(self, chain: ChainId, tx: TxHash) -> MinedTx | None:
        """A mined transaction; None while too few nodes report it as mined.

        Raises `RetryableChainError`, `SourcesDisagree` or `WrongChain`, and `ConfigurationError`
        when the chain has too few operators.
        """
        with self._of(chain).quorum() as quorum:
            receipt = quorum.receipt_if_mined(tx)
        if receipt is None:
            return None
        place = (chain, receipt.height, receipt.block_hash, receipt.tx_hash)
        # No check reads the time, so it is not requested.
        logs = tuple(
            EvmLog(
                Provenance(*place, log.position, UnixSeconds(0)), log.address, log.topics, log.data
            )
            for log in receipt.logs
        )
        return MinedTx(chain, receipt.tx_hash, receipt.succeeded, logs)

    def close(self) -> None:
        """Close the connections."""
        for chain in self._chains.values():
            chain.close()

    def _of(self, chain: ChainId) -> "_Chain":
        return require_node(self._chains.get(chain), chain)


def open_evm_state(settings: Settings) -> EvmState:
    """The configured chains. On the devnet one node is enough: it holds no real money."""
    needed = 1 if settings.network.name == "devnet" else MIN_OPERATORS
    return EvmState(settings.network, settings.nodes, needed=needed)


class _Chain:
    """A chain's nodes, and a pool of quorums: each serves one thread at a time."""

    def __init__(self, chain: EvmChain, urls: Sequence[str], needed: int) -> None:
        self.calls = ContractReader(chain, urls)
        self.chain, self._urls, self._needed = chain, urls, needed
        self._idle: SimpleQueue[Quorum] = SimpleQueue()

    @contextmanager
    def quorum(self) -> Iterator[Quorum]:
        """A quorum for this thread only."""
        quorum = self._take() or Quorum(
            self.chain, self._urls, event_topics, needed=self._needed, timeout=REQUEST_SECONDS
        )
        try:
            yield quorum
        finally:
            self._idle.put(quorum)

    def close(self) -> None:
        self.calls.close()
        while (quorum := self._take()) is not None:
            quorum.close()

    def _take(self) -> Quorum | None:
        try:
            return self._idle.get_nowait()
        except Empty:
            return None
