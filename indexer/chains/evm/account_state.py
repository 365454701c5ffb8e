"""An account of ours on an EVM chain: its state by the nodes, and its transactions.

Reads that only prepare a transaction fail over between nodes. What became of a signed transaction
is asked of each node: where nodes of two operators are configured, one operator's word neither says
that a nonce was used nor keeps a transaction from being sent. What counts as included is checked
against the blocks that were ingested.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from indexer.chains.evm.account_history import FoundTransaction, find_by_nonce
from indexer.chains.evm.calls import ContractReader
from indexer.chains.evm.jsonrpc import JsonRpc, Reply, parse_quantity
from indexer.chains.evm.node import EvmNode
from indexer.chains.http.operators import agreed, next_number, reached, require_operators
from indexer.errors import CallReverted, InconsistentAnswer, NodeUnavailable
from warehouse_schema.identifiers import BlockHash, EvmAddress, Height, TxHash, Wei

_REVERT_CODE = 3
"""Error code of a call that reverts, with its data; nodes without it say so in the text."""
_UNPAYABLE = re.compile(r"revert|insufficient funds|gas required exceeds", re.IGNORECASE)
"""Error text of a call that has no effect, or that its account cannot pay for. The second is the
account's fault and no node's: the next would say the same."""
_MAX_ERROR_TEXT = 200
_ACCEPTED = "accepted"
_KNOWN = ("already known", "known transaction", "already imported", "alreadyknown")
_NOT_TAKEN = ("nonce too low", "underpriced", "nonce too high", "insufficient funds", "exceeds")


@dataclass(frozen=True, slots=True)
class TxInclusion:
    """A transaction in a block."""

    height: Height
    block_hash: BlockHash
    succeeded: bool
    cost: Wei
    """Paid for gas and for a rollup's data, without the transaction's value."""


@dataclass(frozen=True, slots=True)
class AccountView:
    """An account at the head, as its nodes have it."""

    head: Height
    balance: Wei
    next_nonce: int
    """Nonce of the next transaction in a block, as far as the needed operators confirm it."""
    max_nonce: int
    """The highest value that any node gives for it."""
    inclusions: Mapping[TxHash, TxInclusion]
    """Those of the requested transactions that are in a block, by hash."""


@dataclass(frozen=True, slots=True)
class GasPrice:
    """Fees at the head, for a unit of gas."""

    base: Wei
    """Base fee of the newest block."""
    tip: Wei
    """Priority fee that the node suggests."""


class EvmAccountNodes(ContractReader):
    """Nodes of a chain that report on an account and take its transactions. For one thread."""

    def view(self, account: EvmAddress, transactions: Collection[TxHash]) -> AccountView:
        """The account and its transactions: from every node, or from one without transactions.

        Raises `RetryableChainError`, or `PermanentChainError` when every node is unfit.
        """
        if not transactions:
            return self._nodes.failover(lambda node: _view(node, account, []))
        answers = self._nodes.fan_out(lambda node: _view(node, account, list(transactions)))
        needed = self._nodes.needed
        views = [view for _, view in answers]
        inclusions = {tx: each for view in views for tx, each in view.inclusions.items()}
        return AccountView(
            head=reached([(operator, view.head) for operator, view in answers], needed),
            balance=reached([(operator, view.balance) for operator, view in answers], needed),
            next_nonce=reached([(operator, view.next_nonce) for operator, view in answers], needed),
            max_nonce=max(view.next_nonce for view in views),
            # Without those that a node which has read that far does not have: they are sent again.
            inclusions={
                tx: each
                for tx, each in inclusions.items()
                if all(view.head < each.height or view.inclusions.get(tx) == each for view in views)
            },
        )

    def next_nonce(self, account: EvmAddress, own: int | None) -> int:
        """The nonce to sign with after our own (`indexer.chains.http.operators.next_number`).

        Raises `NotEnoughSources`, `SourcesDisagree`, else as `view` does.
        """
        answers = self._nodes.fan_out(lambda node: _view(node, account, []).next_nonce)
        return next_number(account, own, answers, self._nodes.needed)

    def confirmed_nonce(self, account: EvmAddress) -> int:
        """The next nonce, as the needed operators confirm it. Raises as `view` does."""
        answers = self._nodes.fan_out(lambda node: _view(node, account, []).next_nonce)
        return reached(answers, self._nodes.needed)

    def pending_nonce(self, account: EvmAddress) -> int:
        """The next nonce after what any node has in its pool. Raises as `view` does."""

        def ask(node: JsonRpc) -> int:
            return parse_quantity(
                node.call("eth_getTransactionCount", [account, "pending"]), node.host
            )

        return max(number for _, number in self._nodes.fan_out(ask))

    def find_by_nonce(self, account: EvmAddress, nonce: int) -> FoundTransaction | None:
        """The mined transaction with a nonce, by any node: its signature proves it.

        One of a type that Isthmus does not sign is what all nodes, of the needed operators, name.
        Raises as `view` does, and `SourcesDisagree`.
        """
        about = f"nonce {nonce} of {account}"

        def ask(node: EvmNode) -> FoundTransaction | None:
            return find_by_nonce(node, node.chain.number, account, nonce)

        found = self._nodes.failover(ask)
        if found is None or found.raw is not None:
            return found
        needed = self._nodes.needed
        return agreed(about, self._nodes.quorum(about, ask, needed), needed)

    def is_nonce_taken(
        self, account: EvmAddress, nonce: int, height: Height, ours: Collection[TxHash]
    ) -> bool:
        """Whether a nonce was used up to a block, and by none of our transactions.

        True only if every node says so, and those of as many operators as needed: raises
        `NotEnoughSources`, else as `view` does. Each node gives both, the receipts last: it has
        read up to that block when it knows of none.
        """

        def ask(node: JsonRpc) -> bool:
            params = [account, hex(height)]
            count = parse_quantity(node.call("eth_getTransactionCount", params), node.host)
            replies = node.batch([("eth_getTransactionReceipt", [tx]) for tx in ours])
            none_is_ours = all(reply.value() is None for reply in replies)
            return count > nonce and none_is_ours

        answers = self._nodes.fan_out(ask)
        if not all(is_taken for _, is_taken in answers):
            return False
        require_operators(f"nonce {nonce} of {account}", answers, self._nodes.needed)
        return True

    def call_uint(self, contract: EvmAddress, data: bytes) -> int:
        """The number that a view returns at the head. Raises as `view` does."""
        return int.from_bytes(self.call(contract, data)[:32], "big")

    def call_price(self, contract: EvmAddress, data: bytes) -> Wei:
        """As `call_uint`. Raises `CallReverted` when the view reverts, else as `view` does."""
        params = [{"to": contract, "data": f"0x{data.hex()}"}, "latest"]

        def ask(node: JsonRpc) -> Wei:
            [reply] = node.batch([("eth_call", params)])
            _check_not_reverted(reply)
            return Wei(parse_quantity(str(reply.value())[:66], node.host))

        return self._nodes.failover(ask)

    def fee_per_gas(self) -> GasPrice:
        """Base fee and suggested priority fee. Raises as `view` does."""

        def ask(node: JsonRpc) -> GasPrice:
            head, tip = node.batch(
                [("eth_getBlockByNumber", ["latest", False]), ("eth_maxPriorityFeePerGas", [])]
            )
            block = head.value()
            if not isinstance(block, dict):
                raise InconsistentAnswer(f"{node.host}: the newest block is {block!r:.80}")
            return GasPrice(
                Wei(parse_quantity(block.get("baseFeePerGas"), node.host)),
                Wei(parse_quantity(tip.value(), node.host)),
            )

        return self._nodes.failover(ask)

    def estimate_gas(self, account: EvmAddress, to: EvmAddress, data: bytes, value: Wei) -> int:
        """Gas that a call would take at the head.

        Raises `CallReverted` when it would have no effect, else as `view` does.
        """
        call = {"from": account, "to": to, "data": f"0x{data.hex()}", "value": hex(value)}

        def ask(node: JsonRpc) -> int:
            # Without `latest` some nodes estimate on top of what is pending: our own transaction.
            [reply] = node.batch([("eth_estimateGas", [call, "latest"])])
            _check_not_reverted(reply)
            return parse_quantity(reply.value(), node.host)

        return self._nodes.failover(ask)

    def send(self, raw: bytes) -> str:
        """Broadcast to every node, because one may keep it to itself; the best answer, in short.

        Whatever the answer, the transaction may be included or not. Raises as `view` does when no
        node took it or knows it.
        """
        answers = [each for _, each in self._nodes.fan_out(lambda node: _send(node, raw))]
        taken = [each for each in answers if isinstance(each, str)]
        refused = [each for each in answers if isinstance(each, NodeUnavailable)]
        if not taken:
            raise refused[0]
        return _ACCEPTED if _ACCEPTED in taken else taken[0]


def _view(node: JsonRpc, account: EvmAddress, transactions: Sequence[TxHash]) -> AccountView:
    # The head last: it is at least as old as the rest.
    replies = node.batch(
        [
            ("eth_getBalance", [account, "latest"]),
            ("eth_getTransactionCount", [account, "latest"]),
            *(("eth_getTransactionReceipt", [tx]) for tx in transactions),
            ("eth_blockNumber", []),
        ]
    )
    values = [reply.value() for reply in replies]
    next_nonce = parse_quantity(values[1], node.host)
    head = Height(parse_quantity(values[-1], node.host))
    balance = Wei(parse_quantity(values[0], node.host))
    inclusions = {}
    for tx, receipt in zip(transactions, values[2:-1], strict=True):
        if receipt is None:
            continue
        if not isinstance(receipt, dict) or receipt.get("transactionHash") != tx:
            raise InconsistentAnswer(f"{node.host}: the receipt of {tx} is another's")
        height, status, gas, price = (
            parse_quantity(receipt.get(name), node.host)
            for name in ("blockNumber", "status", "gasUsed", "effectiveGasPrice")
        )
        l1_fee = receipt.get("l1Fee")
        data_fee = 0 if l1_fee is None else parse_quantity(l1_fee, node.host)
        inclusions[tx] = TxInclusion(
            height=Height(height),
            block_hash=BlockHash(str(receipt.get("blockHash"))),
            succeeded=status == 1,
            cost=Wei(gas * price + data_fee),
        )
    return AccountView(head, balance, next_nonce, max_nonce=next_nonce, inclusions=inclusions)


def _check_not_reverted(reply: Reply) -> None:
    error = reply.error
    code, text = (error.get("code"), error.get("message")) if isinstance(error, dict) else (0, "")
    if code == _REVERT_CODE or _UNPAYABLE.search(str(text)):
        data = error.get("data") if isinstance(error, dict) else None
        raise CallReverted(f"{str(text)[:_MAX_ERROR_TEXT]} {str(data or '')[:74]}".strip())


def _send(node: JsonRpc, raw: bytes) -> str | NodeUnavailable:
    """The node's answer; an error, not raised, when it neither takes nor knows the transaction."""
    [reply] = node.batch([("eth_sendRawTransaction", [f"0x{raw.hex()}"])])
    if reply.error is None:
        return _ACCEPTED
    message = reply.error.get("message") if isinstance(reply.error, dict) else reply.error
    text = str(message)[:_MAX_ERROR_TEXT]
    if any(known in text.lower() for known in (*_KNOWN, *_NOT_TAKEN)):
        return text
    return NodeUnavailable(f"eth_sendRawTransaction at {node.host}: {text}")
