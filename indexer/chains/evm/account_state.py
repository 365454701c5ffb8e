"""An account of ours on an EVM chain: what the chain says of it, and what it sends.

What is only tried is asked of one node, the next when it fails. What becomes of what was signed is
asked of each: where nodes of two operators are configured, one's word neither says that a number
was used nor keeps a transaction from being sent. What counts as included is held against the blocks
that were ingested.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from indexer.chains.evm.calls import ContractReader, number
from indexer.chains.evm.jsonrpc import JsonRpc, Reply
from indexer.chains.http.operators import NotEnoughSources, next_number, reached
from indexer.errors import CallReverted, InconsistentAnswer, NodeUnavailable
from warehouse_schema.identifiers import BlockHash, EvmAddress, Height, TxHash

T = TypeVar("T")

_REVERT_CODE = 3
"""Of a call that reverts, with its data; nodes without it say so in words."""
_UNPAYABLE = re.compile(r"revert|insufficient funds|gas required exceeds", re.IGNORECASE)
"""What is said of a call that has no effect, or is more than its account can pay for. The second is
the account's fault and no node's: the next would say the same."""
_LONGEST_ANSWER = 200
_ACCEPTED = "accepted"
_HELD = ("already known", "known transaction", "already imported", "alreadyknown")
_NOT_TAKEN = ("nonce too low", "underpriced", "nonce too high", "insufficient funds", "exceeds")


@dataclass(frozen=True, slots=True)
class TxInclusion:
    """A transaction in a block."""

    height: Height
    block_hash: BlockHash
    succeeded: bool
    cost: int
    """Wei that it took: gas, what a rollup's data cost, not its value."""


@dataclass(frozen=True, slots=True)
class AccountView:
    """An account at the head, as its nodes have it."""

    head: Height
    balance: int
    """Wei."""
    next_nonce: int
    """Of what comes next into a block: no further than as many operators say as are needed."""
    max_nonce: int
    """The same by the word of anybody."""
    inclusions: Mapping[TxHash, TxInclusion]
    """Those of the transactions asked about that are in a block, by hash."""


@dataclass(frozen=True, slots=True)
class GasPrice:
    """What gas costs at the head, wei for a unit."""

    base: int
    """Of the newest block."""
    tip: int
    """What nodes suggest to add."""


class EvmAccountNodes(ContractReader):
    """Nodes of a chain, asked about an account and given its transactions. One thread's."""

    def view(self, account: EvmAddress, transactions: Collection[TxHash]) -> AccountView:
        """An account and its transactions, from one node as long as there are none, else from each.

        Raises `RetryableChainError`, or `PermanentChainError` when every node is unfit.
        """
        if not transactions:
            return self._asked(lambda node: _view(node, account, []))
        said = self._nodes.ask_each(lambda node: _view(node.rpc, account, list(transactions)))
        return _together(said, self._nodes.needed)

    def next_nonce(self, account: EvmAddress, own: int | None) -> int:
        """The nonce to sign with after our own (`indexer.chains.http.operators.next_number`).

        Raises `NotEnoughSources`, `SourcesDisagree`, else as `view` does.
        """
        said = self._nodes.ask_each(lambda node: _view(node.rpc, account, []).next_nonce)
        return next_number(account, own, said, self._nodes.needed)

    def is_nonce_taken(
        self, account: EvmAddress, nonce: int, height: Height, ours: Collection[TxHash]
    ) -> bool:
        """Whether a nonce was used up to a block, and by none of these.

        As many operators have to say it as are needed, and nobody otherwise: raises
        `NotEnoughSources`, else as `view` does. Each node says both, the receipts last: it has read
        up to that block when it knows of none.
        """

        def ask(node: JsonRpc) -> tuple[bool, bool]:
            asked = [account, hex(height)]
            count = number(node.call("eth_getTransactionCount", asked), node.host)
            found = node.batch([("eth_getTransactionReceipt", [tx]) for tx in ours])
            return count > nonce, all(reply.value() is None for reply in found)

        said = self._nodes.ask_each(lambda node: ask(node.rpc))
        if not all(is_used and is_nobodys for _, (is_used, is_nobodys) in said):
            return False
        if len({operator for operator, _ in said}) < self._nodes.needed:
            raise NotEnoughSources(f"{self._nodes.needed} independent nodes have to say it")
        return True

    def call_uint(self, contract: EvmAddress, data: bytes) -> int:
        """What a view returns at the head, as a number. Raises as `view` does."""
        return int.from_bytes(self.call(contract, data)[:32], "big")

    def call_price(self, contract: EvmAddress, data: bytes) -> int:
        """As `word`. Raises `CallReverted` when the view reverts, else as `view` does."""
        asked = {"to": contract, "data": f"0x{data.hex()}"}

        def ask(node: JsonRpc) -> int:
            [reply] = node.batch([("eth_call", [asked, "latest"])])
            _refuse_reverted(reply)
            return number(str(reply.value())[:66], node.host)

        return self._asked(ask)

    def fee_per_gas(self) -> GasPrice:
        """Raises as `view` does."""
        return self._asked(_gas_price)

    def estimate_gas(self, account: EvmAddress, to: EvmAddress, data: bytes, value: int) -> int:
        """Gas that a call would take at the head.

        Raises `CallReverted` when it would have no effect, else as `view` does.
        """
        asked = {"from": account, "to": to, "data": f"0x{data.hex()}", "value": hex(value)}

        def ask(node: JsonRpc) -> int:
            # Said, for some nodes would estimate on top of what is pending: our own transaction.
            [reply] = node.batch([("eth_estimateGas", [asked, "latest"])])
            _refuse_reverted(reply)
            return number(reply.value(), node.host)

        return self._asked(ask)

    def send(self, raw: bytes) -> str:
        """Give a transaction to each node, for one may keep it to itself; what one says, in short.

        Whatever it says, the transaction may be included or not. Raises as `view` does when no node
        took it or knows it.
        """
        answers = [each for _, each in self._nodes.ask_each(lambda node: _sent(node.rpc, raw))]
        taken = [each for each in answers if isinstance(each, str)]
        refused = [each for each in answers if isinstance(each, NodeUnavailable)]
        if not taken:
            raise refused[0]
        return _ACCEPTED if _ACCEPTED in taken else taken[0]

    def _asked(self, ask: Callable[[JsonRpc], T]) -> T:
        return self._nodes.ask(lambda node: ask(node.rpc))


def _view(node: JsonRpc, account: EvmAddress, transactions: list[TxHash]) -> AccountView:
    # The head last: what it says is at least as old as the rest.
    replies = node.batch(
        [
            ("eth_getBalance", [account, "latest"]),
            ("eth_getTransactionCount", [account, "latest"]),
            *(("eth_getTransactionReceipt", [tx]) for tx in transactions),
            ("eth_blockNumber", []),
        ]
    )
    values = [reply.value() for reply in replies]
    receipts = zip(transactions, values[2:-1], strict=True)
    next_nonce = number(values[1], node.host)
    return AccountView(
        head=Height(number(values[-1], node.host)),
        balance=number(values[0], node.host),
        next_nonce=next_nonce,
        max_nonce=next_nonce,
        inclusions={tx: _inclusion(node, tx, each) for tx, each in receipts if each is not None},
    )


def _together(said: Sequence[tuple[str, AccountView]], needed: int) -> AccountView:
    views = [view for _, view in said]
    head, balance, next_nonce = (
        reached([(operator, of(view)) for operator, view in said], needed)
        for of in (_head, _balance, _next_nonce)
    )
    inclusions = {tx: each for view in views for tx, each in view.inclusions.items()}
    return AccountView(
        head=Height(head),
        balance=balance,
        next_nonce=next_nonce,
        max_nonce=max(view.next_nonce for view in views),
        inclusions={tx: each for tx, each in inclusions.items() if not _is_denied(tx, each, views)},
    )


def _is_denied(tx: TxHash, inclusion: TxInclusion, views: Sequence[AccountView]) -> bool:
    """Whether somebody who has read that far does not have it there: then it is sent on."""
    return any(
        view.head >= inclusion.height and view.inclusions.get(tx) != inclusion for view in views
    )


def _head(view: AccountView) -> int:
    return view.head


def _balance(view: AccountView) -> int:
    return view.balance


def _next_nonce(view: AccountView) -> int:
    return view.next_nonce


def _inclusion(node: JsonRpc, tx: TxHash, receipt: Any) -> TxInclusion:
    if not isinstance(receipt, dict) or receipt.get("transactionHash") != tx:
        raise InconsistentAnswer(f"{node.host}: the receipt of {tx} is another's")
    gas, price = (number(receipt.get(name), node.host) for name in ("gasUsed", "effectiveGasPrice"))
    data_fee = receipt.get("l1Fee")
    return TxInclusion(
        height=Height(number(receipt.get("blockNumber"), node.host)),
        block_hash=BlockHash(str(receipt.get("blockHash"))),
        succeeded=number(receipt.get("status"), node.host) == 1,
        cost=gas * price + (0 if data_fee is None else number(data_fee, node.host)),
    )


def _gas_price(node: JsonRpc) -> GasPrice:
    head, tip = node.batch(
        [("eth_getBlockByNumber", ["latest", False]), ("eth_maxPriorityFeePerGas", [])]
    )
    block = head.value()
    if not isinstance(block, dict):
        raise InconsistentAnswer(f"{node.host}: the newest block is {block!r:.80}")
    return GasPrice(number(block.get("baseFeePerGas"), node.host), number(tip.value(), node.host))


def _refuse_reverted(reply: Reply) -> None:
    error = reply.error
    code, words = (error.get("code"), error.get("message")) if isinstance(error, dict) else (0, "")
    if code == _REVERT_CODE or _UNPAYABLE.search(str(words)):
        data = error.get("data") if isinstance(error, dict) else None
        raise CallReverted(f"{str(words)[:_LONGEST_ANSWER]} {str(data or '')[:74]}".strip())


def _sent(node: JsonRpc, raw: bytes) -> str | NodeUnavailable:
    """What it says; an error, which is no failure of its own, when it neither takes nor has it."""
    [reply] = node.batch([("eth_sendRawTransaction", [f"0x{raw.hex()}"])])
    if reply.error is None:
        return _ACCEPTED
    words = reply.error.get("message") if isinstance(reply.error, dict) else reply.error
    text = str(words)[:_LONGEST_ANSWER]
    if any(known in text.lower() for known in (*_HELD, *_NOT_TAKEN)):
        return text
    return NodeUnavailable(f"eth_sendRawTransaction at {node.host}: {text}")
