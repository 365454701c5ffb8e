"""What owners' actions rest on, read from EVM chains while somebody waits for it: what a bridge may
take of a payer's token, and what became of a transaction that somebody names.

A node's word is enough for an allowance: at worst an approval too many is shown, or one too few and
the burn reverts. Of a transaction enough independent nodes have to say the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue

from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError
from eth_utils.crypto import keccak

from indexer.actions.evm_calls import EvmOrder, SendOrder, spender
from indexer.actions.evm_check import MinedTx
from indexer.actions.mint_check import MintRefusal, mint_refusal
from indexer.chains.events import Provenance
from indexer.chains.evm.calls import ContractReader
from indexer.chains.evm.quorum import Quorum
from indexer.chains.evm.responses import EvmReceipt, ReceiptLog
from indexer.chains.http.operators import MIN_OPERATORS
from indexer.chains.raw import EvmLog
from indexer.config.networks import EvmChain, Network
from indexer.config.settings import Settings, rpc_variable
from indexer.decode.evm import event_topics
from indexer.errors import InconsistentAnswer, NodeUnavailable
from warehouse_schema.identifiers import BaseUnits, ChainId, EvmAddress, TxHash, UnixSeconds

REQUEST_SECONDS = 2.0
"""Of each request's pieces."""

_ALLOWANCE = keccak(text="allowance(address,address)")[:4]
_APPROVAL_REQUIRED = keccak(text="approvalRequired()")[:4]


class EvmState:
    """The EVM chains of a network that have nodes. Threads may share it."""

    def __init__(
        self,
        network: Network,
        nodes: Mapping[ChainId, Sequence[str]],
        *,
        needed: int = MIN_OPERATORS,
    ) -> None:
        """`needed`: operators that must say the same of a transaction."""
        self._chains = {
            chain.id: _Chain(chain, urls, needed)
            for chain in network.evm
            if (urls := [url for url in nodes.get(chain.id, ()) if url.startswith("http")])
        }

    def allowance(
        self, chain: ChainId, order: EvmOrder, token: EvmAddress, payer: EvmAddress
    ) -> BaseUnits | None:
        """What the order's contract may take of the payer's token; None where it needs no leave.

        Raises `RetryableChainError` or `PermanentChainError`.
        """
        node = self._of(chain).calls
        taker = spender(order)
        if isinstance(order, SendOrder) and not _asked(node, taker, _APPROVAL_REQUIRED, "bool"):
            return None
        data = _ALLOWANCE + encode(["address", "address"], [payer, taker])
        return BaseUnits(_asked(node, token, data, "uint256"))

    def mint_refusal(self, chain: ChainId, recipient: EvmAddress) -> MintRefusal | None:
        """Why CCTP would not mint to a recipient; None: it would. Raises as `allowance` does."""
        found = self._of(chain)
        return mint_refusal(found.chain, recipient, lambda *view: _word(found.calls, *view))

    def mined(self, chain: ChainId, tx: TxHash) -> MinedTx | None:
        """What became of a transaction; None while too few nodes know that it was mined.

        Raises `RetryableChainError`, `SourcesDisagree` or `WrongChain`, and `ConfigurationError`
        when the chain has too few operators.
        """
        with self._of(chain).quorum() as quorum:
            receipt = quorum.receipt_if_mined(tx)
        return None if receipt is None else mined_from_receipt(chain, receipt)

    def close(self) -> None:
        """Let go of the connections."""
        for chain in self._chains.values():
            chain.close()

    def _of(self, chain: ChainId) -> "_Chain":
        found = self._chains.get(chain)
        if found is None:
            raise NodeUnavailable(f"{chain} has no node: set {rpc_variable(chain)}")
        return found


def open_evm_state(settings: Settings) -> EvmState:
    """The chains that are configured. Devnet's one node is enough: nobody else's money is there."""
    needed = 1 if settings.network.name == "devnet" else MIN_OPERATORS
    return EvmState(settings.network, settings.nodes, needed=needed)


def mined_from_receipt(chain: ChainId, receipt: EvmReceipt) -> MinedTx:
    """A receipt as it is checked."""
    logs = tuple(_log(chain, receipt, log) for log in receipt.logs)
    return MinedTx(chain, receipt.tx_hash, receipt.succeeded, logs)


class _Chain:
    """A chain's nodes. A quorum serves one thread at a time; those that nobody needs now wait."""

    def __init__(self, chain: EvmChain, urls: Sequence[str], needed: int) -> None:
        self.calls = ContractReader(chain, urls)
        self.chain, self._urls, self._needed = chain, urls, needed
        self._idle: SimpleQueue[Quorum] = SimpleQueue()

    @contextmanager
    def quorum(self) -> Iterator[Quorum]:
        """One that is this thread's alone."""
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


def _log(chain: ChainId, receipt: EvmReceipt, log: ReceiptLog) -> EvmLog:
    # When it was is not asked for: nothing of the check rests on it.
    time = UnixSeconds(0)
    seen = Provenance(
        chain, receipt.height, receipt.block_hash, receipt.tx_hash, log.position, time
    )
    return EvmLog(seen, log.address, log.topics, log.data)


def _word(node: ContractReader, contract: EvmAddress, data: bytes) -> int:
    return _asked(node, contract, data, "uint256")


def _asked(node: ContractReader, contract: EvmAddress, data: bytes, kind: str) -> int:
    answer = node.call(contract, data)
    try:
        [value] = decode([kind], answer)
    except DecodingError as error:
        raise InconsistentAnswer(f"{contract} does not answer with a {kind}") from error
    return int(value)
