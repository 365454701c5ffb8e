"""An EVM chain as an account of ours meets it."""

from collections.abc import Collection, Sequence

from indexer.chains.evm.account_state import EvmAccountNodes, GasPrice
from indexer.config.networks import EvmChain
from indexer.policy.relay_accounts import Duty
from relay.keys import EvmKey, evm_address
from relay.nonces import AccountState, Inclusion, NextStep, NonceSlot, RelayJob, SignedTransaction
from relay.senders.evm_decide import bid_of, first_bid, next_step, raised_bid
from relay.senders.evm_signing import ContractCall, sign_evm
from relay.store import AccountId
from warehouse_schema.identifiers import Height, TxHash

MAX_OPEN = 8
"""Slots of an account at once: what one that waits for its fee may hold up."""
_GAS_MARGIN = 4
"""A quarter more than was estimated; what is not used is not paid."""
_VALUE_MARGIN = 10
"""A tenth more than is asked for, until it is in a block; what is not used comes back."""
_FILL_GAS = 21_000


class EvmSender:
    """Calls, under nonces, at fees that rise while they wait."""

    duty: Duty = "deliver"
    unit = "wei"
    most_open = MAX_OPEN

    def __init__(self, chain: EvmChain, nodes: EvmAccountNodes, key: EvmKey) -> None:
        self._chain, self._nodes, self._key = chain, nodes, key
        self._address = evm_address(key)
        self.account = AccountId(chain.id, self._address)
        self._sight = AccountState(0, 0, 0, {})
        self._price = GasPrice(0, 0)

    def look(self, transactions: Sequence[TxHash]) -> AccountState:
        """The account now, and what became of these."""
        view = self._nodes.view(self._address, transactions)
        self._price = self._nodes.fee_per_gas()
        inclusions = {
            tx: Inclusion(each.height, each.block_hash, each.succeeded, each.cost)
            for tx, each in view.inclusions.items()
        }
        self._sight = AccountState(
            view.balance, view.next_nonce, view.max_nonce, inclusions, head=view.head
        )
        return self._sight

    def step(self, slot: NonceSlot, buried: Collection[TxHash]) -> NextStep:
        """What comes next for a slot."""
        return next_step(
            slot,
            self._sight,
            self._price,
            buried=buried,
            block_seconds=self._chain.block_seconds,
        )

    def is_overtaken(self, slot: NonceSlot, final: Height) -> bool:
        """Whether another transaction has its nonce, up to a final block."""
        ours = [each.tx for each in slot.attempts]
        return self._nodes.is_nonce_taken(self._address, slot.number, final, ours)

    def is_over(self, owed: RelayJob[ContractCall]) -> bool:
        """Whether its view says that it happened."""
        view = owed.is_over
        if view is None:
            return False
        return (self._nodes.call_uint(view.to, view.data) == 0) == owed.is_over_at_nought

    def next_number(self, own: int | None) -> int:
        """The nonce after our own."""
        return self._nodes.next_nonce(self._address, own)

    def sign(self, number: int, call: ContractCall) -> SignedTransaction:
        """A first transaction."""
        call = self._priced(call)
        return sign_evm(
            self._key, self._chain.number, number, call, self._gas_of(call), first_bid(self._price)
        )

    def sign_again(self, slot: NonceSlot, call: ContractCall | None) -> SignedTransaction:
        """One that bids a tenth more at least."""
        call = None if call is None else self._priced(call)
        gas = _FILL_GAS if call is None else self._gas_of(call)
        old = bid_of(slot.newest.raw)
        fees = raised_bid(old, self._price) or old
        nothing = ContractCall(self._address, b"")
        return sign_evm(self._key, self._chain.number, slot.number, call or nothing, gas, fees)

    def send(self, raw: bytes) -> str:
        """Give a transaction to a node."""
        return self._nodes.send(raw)

    def _priced(self, call: ContractCall) -> ContractCall:
        if call.price is None:
            return call
        wei = self._nodes.call_price(call.price.to, call.price.data)
        return ContractCall(call.to, call.data, wei + wei // _VALUE_MARGIN)

    def _gas_of(self, call: ContractCall) -> int:
        gas = self._nodes.estimate_gas(self._address, call.to, call.data, call.value)
        return gas + gas // _GAS_MARGIN
