"""Interface of senders, which sign and submit for one account."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from indexer.policy.relay_accounts import Duty
from relay.nonces import (
    AccountId,
    AccountState,
    C,
    NextStep,
    NonceSlot,
    Recovered,
    RelayJob,
    SignedTransaction,
)
from warehouse_schema.identifiers import Height, NativeAmount, TxHash, UnixSeconds


class TransactionSender(Protocol[C]):
    """Nodes, key and rules of one account on its chain.

    Calls of nodes raise `RetryableChainError`, or `PermanentChainError` when no node is fit.
    """

    account: AccountId
    duty: Duty
    unit: str
    """Name of the chain's native base unit."""
    max_open: int
    """Slots that may be open at once."""
    max_cost: NativeAmount
    """Cost of the most expensive job, where it is known in advance; without room for it the
    account is unhealthy."""

    def refresh(self, transactions: Sequence[TxHash]) -> AccountState:
        """Read the account and these transactions; the other methods use the last state read."""
        ...

    def next_step(self, slot: NonceSlot, finalized: Collection[TxHash]) -> NextStep:
        """Decide about a slot; `finalized` are transactions in ingested, finalized blocks."""
        ...

    def is_nonce_taken(self, slot: NonceSlot, final: Height) -> bool:
        """True when no attempt of a slot can take effect any more, as of a finalized block."""
        ...

    def is_done(self, job: RelayJob[C]) -> bool:
        """True when the job's effect is on chain now, no matter who sent it."""
        ...

    def next_number(self, own: int | None) -> int:
        """Number to sign with; `own` follows the last one reserved, None before the first.

        Raises `PermanentChainError` also while nodes disagree on an account's first number.
        """
        ...

    def confirmed_number(self) -> int:
        """Next number to be included, as the needed operators confirm it."""
        ...

    def pending_number(self) -> int:
        """Number after those that wait in a node's pool, where a pool takes more than one."""
        ...

    def find_transactions(
        self,
        numbers: Collection[int],
        signed: Sequence[bytes],
        height_at: Callable[[UnixSeconds], Height],
    ) -> Mapping[int, Recovered]:
        """Included transactions of the account with these numbers.

        All were included after these transactions were `signed`. `height_at` is the first ingested
        height not older than a time. Raises `RetryableChainError` or `PermanentChainError` also
        when no node has data that old.
        """
        ...

    def sign(self, number: int, call: C) -> SignedTransaction:
        """Sign a first attempt. Raises `CallReverted` when the call would fail now."""
        ...

    def sign_replacement(self, slot: NonceSlot, call: C | None) -> SignedTransaction:
        """Sign a replacement of the newest attempt; None: one that only uses up the number.

        Raises `CallReverted` when the call would fail now.
        """
        ...

    def send(self, raw: bytes) -> str:
        """Broadcast a transaction; returns the node's answer, which decides nothing."""
        ...
