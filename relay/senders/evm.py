"""Sender of one account on an EVM chain."""

from collections.abc import Callable, Collection, Sequence

from indexer.chains.evm.account_state import EvmAccountNodes, GasPrice
from indexer.config.networks import EvmChain
from indexer.policy.relay_accounts import Duty
from relay.keys import EvmKey, evm_address
from relay.nonces import (
    AccountId,
    AccountState,
    Inclusion,
    NextStep,
    NonceSlot,
    Recovered,
    RelayJob,
    SignedTransaction,
)
from relay.senders.evm_decide import bid_of, first_bid, next_step, raised_bid
from relay.senders.evm_signing import ContractCall, GasBid, read_call, sign_evm
from warehouse_schema.identifiers import Height, NativeAmount, TxHash, UnixSeconds, Wei

MAX_OPEN = 8
"""Bounds how many slots one underpriced transaction delays."""
_GAS_MARGIN = 4
"""Gas limit: a quarter above the estimate; unused gas is not paid."""
_VALUE_MARGIN = 10
"""Value: a tenth above the quoted price, which may rise until inclusion; the rest comes back."""
_FILL_GAS = 21_000


class EvmSender:
    """Contract calls under nonces, with fees that rise on replacement."""

    duty: Duty = "deliver"
    unit = "wei"
    max_open = MAX_OPEN
    max_cost: NativeAmount = Wei(1)

    def __init__(self, chain: EvmChain, nodes: EvmAccountNodes, key: EvmKey) -> None:
        self._chain, self._nodes, self._key = chain, nodes, key
        self._address = evm_address(key)
        self.account = AccountId(chain.id, self._address)
        self._state = AccountState(Wei(0), 0, 0, {})
        self._price = GasPrice(Wei(0), Wei(0))

    def refresh(self, transactions: Sequence[TxHash]) -> AccountState:
        """Read the account, these transactions and the gas price."""
        view = self._nodes.view(self._address, transactions)
        self._price = self._nodes.fee_per_gas()
        inclusions = {
            tx: Inclusion(each.height, each.block_hash, each.succeeded, each.cost)
            for tx, each in view.inclusions.items()
        }
        self._state = AccountState(
            view.balance, view.next_nonce, view.max_nonce, inclusions, head=view.head
        )
        return self._state

    def next_step(self, slot: NonceSlot, finalized: Collection[TxHash]) -> NextStep:
        """Decide about a slot."""
        return next_step(
            slot,
            self._state,
            self._price,
            finalized=finalized,
            block_seconds=self._chain.block_seconds,
        )

    def is_nonce_taken(self, slot: NonceSlot, final: Height) -> bool:
        """True when another transaction has the nonce in a finalized block."""
        attempts = [each.tx for each in slot.attempts]
        return self._nodes.is_nonce_taken(self._address, slot.number, final, attempts)

    def is_done(self, job: RelayJob[ContractCall]) -> bool:
        """True when the job's view call says so."""
        view = job.done_view
        if view is None:
            return False
        return (self._nodes.call_uint(view.to, view.data) == 0) == job.done_when_zero

    def next_number(self, own: int | None) -> int:
        """Nonce after the last one reserved."""
        return self._nodes.next_nonce(self._address, own)

    def confirmed_number(self) -> int:
        """Next nonce, as the needed operators confirm it."""
        return self._nodes.confirmed_nonce(self._address)

    def pending_number(self) -> int:
        """Next nonce after what nodes have in their pools."""
        return self._nodes.pending_nonce(self._address)

    def find_transactions(
        self,
        numbers: Collection[int],
        signed: Sequence[bytes],
        height_at: Callable[[UnixSeconds], Height],
    ) -> dict[int, Recovered]:
        """Mined transactions with these nonces."""
        found: dict[int, Recovered] = {}
        for number in numbers:
            each = self._nodes.find_by_nonce(self._address, number)
            if each is not None:
                is_fill = each.raw is not None and read_call(each.raw).to == self._address
                found[number] = Recovered(each.tx, each.raw or b"", is_fill)
        return found

    def sign(self, number: int, call: ContractCall) -> SignedTransaction:
        """Sign a first attempt."""
        return self._sign(number, call, first_bid(self._price))

    def sign_replacement(self, slot: NonceSlot, call: ContractCall | None) -> SignedTransaction:
        """Sign an attempt whose bid is at least a tenth higher."""
        old = bid_of(slot.newest.raw)
        bid = raised_bid(old, self._price) or old
        if call is not None:
            return self._sign(slot.number, call, bid)
        fill = ContractCall(self._address, b"")
        return sign_evm(self._key, self._chain.number, slot.number, fill, _FILL_GAS, bid)

    def send(self, raw: bytes) -> str:
        """Broadcast a transaction."""
        return self._nodes.send(raw)

    def _sign(self, nonce: int, call: ContractCall, bid: GasBid) -> SignedTransaction:
        if call.price is not None:
            wei = self._nodes.call_price(call.price.to, call.price.data)
            call = ContractCall(call.to, call.data, Wei(wei + wei // _VALUE_MARGIN))
        gas = self._nodes.estimate_gas(self._address, call.to, call.data, call.value)
        gas += gas // _GAS_MARGIN
        return sign_evm(self._key, self._chain.number, nonce, call, gas, bid)
