"""Which faults of nodes a run may meet: everything that one node can do wrong and be caught at.

Left out of `tests.system.faults.lies`, because no second answer of the same node contradicts them:
`ForgedAmount` and `ForgedStatus` (lies about one transaction everywhere), `TagsAt` (a lie about
what is final stops the chain at the next reorg, as it must), `OtherFork` (the reorgs of these
chains are real), `SilentCap` at no round number, and `DroppedLog`.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.system.chaos import stellar_faults as stellar
from tests.system.chaos.chains import EVM, STELLAR, Chains
from tests.system.chaos.stellar_faults import FaultyStellarNode
from tests.system.faults import lies, refusals
from tests.system.faults.fault import Fault
from tests.system.faults.proxy import FaultyNode


class ForgedLog(lies.ForgedLog):
    """As the original, made of a log that has a topic to forge: one with the signature alone has
    not."""

    def spoil_logs(self, logs, exchange):
        fit = [log for log in logs if len(log["topics"]) > 1]
        return [*logs, *super().spoil_logs(fit, exchange)[len(fit) :]] if fit else logs


Make = Callable[[random.Random], Fault]

_WIRE: dict[str, Make] = {
    "429": lambda _: refusals.TooManyRequests(),
    "429, back in a second": lambda _: refusals.TooManyRequests("1"),
    "503": lambda _: refusals.ServerError(),
    "truncated JSON": lambda _: refusals.TruncatedJson(),
    "broken off": lambda _: refusals.BrokenOff(),
    "hangs": lambda _: refusals.Hangs(),
}
_EVM: dict[str, Make] = {
    **_WIRE,
    "empty logs": lambda _: lies.EmptyLogs(),
    "logs missing in newest": lambda _: lies.LogsMissingInNewest(),
    "stale logs": lambda chance: lies.StaleLogs(chance.randint(1, 20)),
    "log of another block": lambda _: lies.LogOfAnotherBlock(),
    "log beyond range": lambda _: lies.LogBeyondRange(),
    "forged log": lambda _: ForgedLog(),
    "removed log": lambda _: lies.RemovedLog(),
    "duplicate log index": lambda _: lies.DuplicateLogIndex(),
    "foreign transaction index": lambda _: lies.ForeignTransactionIndex(),
    "stale backend": lambda chance: lies.StaleBackend(chance.randint(1, 20)),
    "flipping hash": lambda _: lies.FlippingHash(),
    "null headers": lambda _: lies.NullHeaders(),
    "zero blooms": lambda _: lies.ZeroBlooms(),
    "full blooms": lambda _: lies.FullBlooms(),
    "null receipts": lambda _: lies.NullReceipts(),
    "null receipt": lambda _: lies.NullReceipt(),
    "missing receipt": lambda _: lies.MissingReceipt(),
    "receipts of another block": lambda _: lies.ReceiptsOfAnotherBlock(),
    "header not found": lambda _: refusals.Refuses("eth_getLogs", "header not found"),
    "range limit": lambda chance: refusals.RangeLimit(chance.randint(1, 50)),
    "no tags": lambda _: refusals.NoTags(),
    "wrong chain id": lambda _: lies.WrongChainId(),
    "one error for all": lambda _: refusals.OneErrorForAll(),
    "missing reply": lambda _: refusals.MissingReply(),
    "stops mid range": lambda _: refusals.StopsMidRange(),
}
_STELLAR: dict[str, Make] = {
    **_WIRE,
    "empty page": lambda _: stellar.EmptyPage(),
    "events behind": lambda chance: stellar.EventsBehind(chance.randint(1, 20)),
    "standing cursor": lambda _: stellar.StandingCursor(),
    "repeated events": lambda _: stellar.RepeatedEvents(),
    "failed calls": lambda _: stellar.FailedCalls(),
    "event of another ledger": lambda _: stellar.EventOfAnotherLedger(),
    "event at another time": lambda _: stellar.EventAtAnotherTime(),
    "unasked event": lambda _: stellar.UnaskedEvent(),
    "events gone": lambda _: stellar.EventsGone(),
    "no ledgers": lambda _: stellar.NoLedgers(),
    "missing ledger": lambda _: stellar.MissingLedger(),
    "other ledger hash": lambda _: stellar.OtherLedgerHash(),
    "latest behind": lambda chance: stellar.LatestBehind(chance.randint(1, 20)),
    "latest ahead": lambda _: stellar.LatestAhead(),
    "unhealthy": lambda _: stellar.Unhealthy(),
    "wrong passphrase": lambda _: stellar.WrongPassphrase(),
    "internal error": lambda _: stellar.InternalError(),
}
FAULTS: Mapping[str, Mapping[str, Make]] = {EVM: _EVM, STELLAR: _STELLAR}

STOPPING = frozenset({"wrong chain id", "wrong passphrase", "events gone"})
"""These put a chain on hold until a person starts its follower again."""


@dataclass
class FaultyNodes:
    """Both chains' nodes as followers see them, and what they did wrong. Close it."""

    chains: Chains
    chance: random.Random
    stopping: bool
    """Whether faults may come that only a person can mend."""
    _used: list[tuple[str, Fault]] = field(default_factory=list)

    def __post_init__(self) -> None:
        seed = self.chance.getrandbits(32)
        self.evm = FaultyNode(self.chains.evm_url, self.chains.evm_ws_url, seed=seed)
        self.stellar = FaultyStellarNode(self.chains.stellar_url, seed=seed)

    def close(self) -> None:
        """Stop serving."""
        self.evm.close()
        self.stellar.close()

    def spoil(self) -> None:
        """One node does one thing wrong, once or a few times, from its next request on."""
        chain = self.chance.choice((EVM, EVM, STELLAR))
        fault = self._make(chain, self.chance.choice(self._names(chain)))
        times = self.chance.choice((1, 1, 1, 2, 4))
        self._node(chain).inject(fault, times=times)

    def spoil_by_chance(self) -> None:
        """Every fault of both nodes may come at any request, until `heal`."""
        rate = self.chance.uniform(0.02, 0.15)
        for chain in (EVM, STELLAR):
            names = [name for name in self._names(chain) if name != "hangs"]
            faults = [self._make(chain, name) for name in names]
            self._node(chain).inject_by_chance(faults, rate)

    def disturb_heads(self) -> None:
        """The socket of new heads is closed under its clients."""
        self.evm.heads.drop()

    def heal(self) -> None:
        """Both nodes are well from now on."""
        self.evm.heal()
        self.stellar.heal()

    def shown(self) -> Counter[str]:
        """How often each fault has spoilt a request."""
        counts: Counter[str] = Counter()
        for name, fault in self._used:
            counts[name] += fault.fired
        return +counts

    def _names(self, chain: str) -> list[str]:
        return [name for name in FAULTS[chain] if self.stopping or name not in STOPPING]

    def _node(self, chain: str) -> FaultyNode | FaultyStellarNode:
        return self.evm if chain == EVM else self.stellar

    def _make(self, chain: str, name: str) -> Fault:
        fault = FAULTS[chain][name](self.chance)
        self._used.append((f"{chain.partition(':')[0]} {name}", fault))
        return fault
