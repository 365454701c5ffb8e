"""Both chains as many customers at once use them, and what the chains do of themselves.

Customers talk to nodes that are well; the service talks to the same ones through faulty proxies.
"""

import random
import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from eth_account.signers.local import LocalAccount
from stellar_sdk import Keypair
from stellar_sdk.memo import Memo
from stellar_sdk.operation import Operation

from devnet.evm import EvmDevnet, reorg_marker
from devnet.evm_node import Reverted, RpcFailed
from devnet.scenario import PacedClient, real_time
from devnet.stellar.client import Outcome, Refused
from tests.system.chaos.chains import Chains
from tests.system.chaos.faults import FaultyNodes

_TICK_SECONDS = 0.5
_BLOCKS = 2
"""A tick: what is 64 blocks deep is final, and the relay has eight deliveries under way at most."""
_HIGHEST = 800
"""No reorganisation above: anvil forgets all contracts when it goes back from about block 940."""
_AGAIN_SECONDS = 120.0
_CLOSED_ALREADY = "the last ledger closed at"
_OUT_OF_ORDER = "an earlier packet is not verified"
_DEEPEST = 24


class Ledgers(PacedClient):
    """Shared by threads: one transaction after the other, a ledger each."""

    def __init__(self, url: str) -> None:
        super().__init__(url, real_time)
        self._turn = threading.RLock()

    def submit(
        self,
        source: Keypair,
        operations: Sequence[Operation],
        *,
        signers: Sequence[Keypair] = (),
        memo: Memo | None = None,
    ) -> Outcome:
        deadline = time.monotonic() + _AGAIN_SECONDS
        while True:
            try:
                with self._turn:
                    return super().submit(source, operations, signers=signers, memo=memo)
            except Refused as error:
                # Packets are taken in order, and another customer's comes first.
                if _OUT_OF_ORDER not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(1.0)

    def tick(self) -> None:
        """A ledger, unless they are ahead of the clock. Waits for nobody's turn."""
        last = self.close_time_ms()
        if last < time.time_ns() // 1_000_000:
            self.close_ledger(close_time_ms=real_time(last))

    def close_ledger(self, *, close_time_ms: int | None = None) -> int:
        """Close one, at a later time when somebody else closed one meanwhile."""
        while True:
            try:
                return super().close_ledger(close_time_ms=close_time_ms)
            except ValueError as error:
                if close_time_ms is None or _CLOSED_ALREADY not in str(error):
                    raise
                close_time_ms = real_time(self.close_time_ms())


@dataclass(frozen=True)
class SharedEvm(EvmDevnet):
    """Shared by threads; `turn` is held while a chain is replaced.

    Whose approval was taken back is told that the call would revert: it comes again.
    """

    turn: threading.RLock = field(default_factory=threading.RLock)

    def submit(
        self,
        account: LocalAccount,
        to: str | None,
        data: bytes,
        *,
        value: int = 0,
        gas: int | None = None,
    ) -> str:
        deadline = time.monotonic() + _AGAIN_SECONDS
        while True:
            try:
                with self.turn:
                    return super().submit(account, to, data, value=value, gas=gas)
            except Reverted:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.2)


@dataclass
class Weather:
    """Time that passes on both chains, blocks that are replaced, nodes that fail."""

    chains: Chains
    evm: SharedEvm
    ledgers: Ledgers
    nodes: FaultyNodes
    chance: random.Random
    customers: Collection[str]
    """Lower-case: of these EVM accounts, and the relay's, transactions may be gone for a while."""
    relay: str
    is_calm: threading.Event = field(default_factory=threading.Event)
    settled_at: int | None = None
    """The newest block when it was calm and all that had been gone was back: all up to it stays."""
    reorgs: list[int] = field(default_factory=list)
    _floor: int = 0
    _gone: dict[str, tuple[float, str]] = field(default_factory=dict)
    """When to send what again, by its hash; until it is in a block."""

    def close_ledgers(self, over: threading.Event) -> None:
        """Until `over`."""
        while not over.wait(_TICK_SECONDS):
            self.ledgers.tick()

    def go_on(self, over: threading.Event) -> None:
        """Blocks and whatever fails, until `over`; calm from `is_calm` on."""
        self._floor = self.chains.evm.block_number()
        while not over.wait(_TICK_SECONDS):
            is_calm = self.is_calm.is_set()
            with self.evm.turn:
                self.evm.mine(_BLOCKS)
                self._send_again(everything=is_calm)
            if not is_calm:
                self._stir()
            elif self.settled_at is None and not self._gone:
                self.settled_at = self.chains.evm.block_number()

    def _stir(self) -> None:
        if self.chance.random() < 0.2:
            self._reorg()
        if self.chance.random() < 0.35:
            self.nodes.spoil()
        if self.chance.random() < 0.03:
            self.nodes.disturb_heads()

    def _reorg(self) -> None:
        with self.evm.turn:
            head = self.evm.block_number()
            depth = min(self._depth(head), head - self._floor)
            if depth < 1 or head > _HIGHEST:
                return
            dropped = self._transactions(head - depth + 1, head)
            gone = self._to_be_gone(dropped)
            for each in dropped:
                # What is to come again at once may be left out: the node mines beside us. The relay
                # sends again by itself; nobody else does, such as who verifies packets.
                if each["from"] != self.relay:
                    raw = self.evm.rpc("eth_getRawTransactionByHash", each["hash"])
                    pause = self.chance.uniform(0.5, 3) if each["hash"] in gone else 0.0
                    self._gone[each["hash"]] = time.monotonic() + pause, raw
            again = [each["hash"] for each in dropped if each["hash"] not in gone]
            self.evm.reorg(depth, remine=again)
            # Before its sender gives its number to something else.
            self._send_again(everything=False)
        self.reorgs.append(depth)

    def _depth(self, head: int) -> int:
        """Any, or half of the time such that the newest block is gone in which a customer paid."""
        drawn = self.chance.randint(1, _DEEPEST)
        if self.chance.random() < 0.5:
            return drawn
        for height in range(head, max(self._floor, head - _DEEPEST), -1):
            if any(each["from"] in self.customers for each in self._transactions(height, height)):
                return head - height + 1
        return drawn

    def _transactions(self, first: int, last: int) -> list[dict[str, Any]]:
        """In their order, but for those that mark reorganisations."""
        blocks = [
            self.evm.rpc("eth_getBlockByNumber", hex(height), True)
            for height in range(first, last + 1)
        ]
        marker = reorg_marker().address.lower()
        return [
            each for block in blocks for each in block["transactions"] if each["from"] != marker
        ]

    def _to_be_gone(self, dropped: list[dict[str, Any]]) -> set[str]:
        """Of some senders the last ones; never messages of the OFT, which are numbered through, and
        of the relay none that could hold one."""
        at = self.evm.addresses
        oft, transmitter = at.oft.lower(), at.message_transmitter.lower()
        by_sender: dict[str, list[dict[str, Any]]] = {}
        for each in dropped:
            if each["from"] in self.customers or each["from"] == self.relay:
                by_sender.setdefault(each["from"], []).append(each)
        gone: set[str] = set()
        for sender in sorted(by_sender):
            own = by_sender[sender]
            safe = all(
                each["to"] == transmitter if sender == self.relay else each["to"] != oft
                for each in own
            )
            if self.chance.random() < 0.4 and safe:
                gone |= {each["hash"] for each in own[self.chance.randrange(len(own)) :]}
        return gone

    def _send_again(self, *, everything: bool) -> None:
        now = time.monotonic()
        for tx, (at, raw) in [*self._gone.items()]:
            if self.evm.rpc("eth_getTransactionReceipt", tx) is not None:
                del self._gone[tx]
            elif everything or at <= now:
                try:
                    self.evm.rpc("eth_sendRawTransaction", raw)
                except RpcFailed as error:
                    # It waits for its block, or its number is taken: for good by something that
                    # its owner sent in its place, or while the node is at a reorganisation.
                    if "already" not in str(error) and "nonce" not in str(error):
                        raise
                    if everything and "nonce" in str(error):
                        del self._gone[tx]


def shared(evm: EvmDevnet) -> SharedEvm:
    """The same chain for many threads."""
    return SharedEvm(evm.rpc, evm.addresses)
