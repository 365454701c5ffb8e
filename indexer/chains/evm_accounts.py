"""An account of ours on an EVM chain: what the chain says of it, and what it sends.

One node is asked, the next when it fails. A node's word decides nothing alone: what counts as
included is held against the blocks that were ingested.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from indexer.chains.evm_calls import EvmCalls, number
from indexer.chains.jsonrpc import JsonRpc, Reply
from indexer.errors import CallReverted, InconsistentAnswer, NodeUnavailable
from warehouse_schema.identifiers import BlockHash, EvmAddress, Height, TxHash

T = TypeVar("T")

_REVERT_CODE = 3
"""Of a call that reverts, with its data; nodes without it say so in words."""
_UNPAYABLE = re.compile(r"revert|insufficient funds|gas required exceeds", re.IGNORECASE)
"""What is said of a call that has no effect, or is more than its account can pay for. The second is
the account's fault and no node's: the next would say the same."""
_LONGEST_ANSWER = 200
_HELD = ("already known", "known transaction", "already imported", "alreadyknown")
_NOT_TAKEN = ("nonce too low", "underpriced", "nonce too high", "insufficient funds", "exceeds")


@dataclass(frozen=True, slots=True)
class Inclusion:
    """A transaction in a block."""

    height: Height
    block_hash: BlockHash
    succeeded: bool
    cost: int
    """Wei that it took: gas, what a rollup's data cost, not its value."""


@dataclass(frozen=True, slots=True)
class AccountView:
    """An account at a node's head."""

    head: Height
    balance: int
    """Wei."""
    next_nonce: int
    """Of what comes next into a block."""
    inclusions: Mapping[TxHash, Inclusion]
    """Those of the transactions asked about that are in a block, by hash."""


@dataclass(frozen=True, slots=True)
class GasPrice:
    """What gas costs at the head, wei for a unit."""

    base: int
    """Of the newest block."""
    tip: int
    """What nodes suggest to add."""


class EvmAccountNodes(EvmCalls):
    """Nodes of a chain, asked about an account and given its transactions. One thread's."""

    def view(self, account: EvmAddress, transactions: Collection[TxHash]) -> AccountView:
        """An account and its transactions, all from one node.

        Raises `RetryableChainError`, or `PermanentChainError` when every node is unfit.
        """
        return self._asked(lambda node: _view(node, account, list(transactions)))

    def is_overtaken(
        self, account: EvmAddress, nonce: int, height: Height, ours: Collection[TxHash]
    ) -> bool:
        """Whether a nonce was used up to a block, and by none of these. Raises as `view` does.

        One node says both, the receipts last: it has read up to that block when it knows of none.
        """

        def ask(node: JsonRpc) -> bool:
            asked = [account, hex(height)]
            count = number(node.call("eth_getTransactionCount", asked), node.host)
            found = node.batch([("eth_getTransactionReceipt", [tx]) for tx in ours])
            return count > nonce and all(reply.value() is None for reply in found)

        return self._asked(ask)

    def word(self, contract: EvmAddress, data: bytes) -> int:
        """What a view returns at the head, as a number. Raises as `view` does."""
        return int.from_bytes(self.call(contract, data)[:32], "big")

    def price(self, contract: EvmAddress, data: bytes) -> int:
        """As `word`. Raises `CallReverted` when the view reverts, else as `view` does."""
        asked = {"to": contract, "data": f"0x{data.hex()}"}

        def ask(node: JsonRpc) -> int:
            [reply] = node.batch([("eth_call", [asked, "latest"])])
            _refuse_reverted(reply)
            return number(str(reply.value())[:66], node.host)

        return self._asked(ask)

    def gas_price_now(self) -> GasPrice:
        """Raises as `view` does."""
        return self._asked(_gas_price)

    def gas_of(self, account: EvmAddress, to: EvmAddress, data: bytes, value: int) -> int:
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
        """Give a transaction to a node; what it says to that, in a few words.

        Whatever it says, the transaction may be included or not. Raises as `view` does when no node
        took it or knows it.
        """
        return self._asked(lambda node: _sent(node, raw))

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
    return AccountView(
        head=Height(number(values[-1], node.host)),
        balance=number(values[0], node.host),
        next_nonce=number(values[1], node.host),
        inclusions={tx: _inclusion(node, tx, each) for tx, each in receipts if each is not None},
    )


def _inclusion(node: JsonRpc, tx: TxHash, receipt: Any) -> Inclusion:
    if not isinstance(receipt, dict) or receipt.get("transactionHash") != tx:
        raise InconsistentAnswer(f"{node.host}: the receipt of {tx} is another's")
    gas, price = (number(receipt.get(name), node.host) for name in ("gasUsed", "effectiveGasPrice"))
    data_fee = receipt.get("l1Fee")
    return Inclusion(
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


def _sent(node: JsonRpc, raw: bytes) -> str:
    [reply] = node.batch([("eth_sendRawTransaction", [f"0x{raw.hex()}"])])
    if reply.error is None:
        return "accepted"
    words = reply.error.get("message") if isinstance(reply.error, dict) else reply.error
    text = str(words)[:_LONGEST_ANSWER]
    if any(known in text.lower() for known in (*_HELD, *_NOT_TAKEN)):
        return text
    raise NodeUnavailable(f"eth_sendRawTransaction at {node.host}: {text}")
