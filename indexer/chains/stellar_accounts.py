"""Who may sign for a Stellar account, and what it can be paid, asked of RPC nodes while somebody
waits for the answer.

An account that is not there is told from one that could not be read: None is what a node of our
network said that is well and not behind; everything else is an error. Threads may share a reader.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from indexer.chains.in_turn import REQUEST_SECONDS, Nodes, over_http
from indexer.chains.stellar_rpc import StellarRpc
from indexer.decode.accounts import (
    SigningRules,
    Trustline,
    account_key,
    signing_rules,
    trustline,
    trustline_key,
)
from indexer.errors import InconsistentAnswer, NodeBehind, NodeUnavailable, WrongChain
from indexer.networks import StellarChain
from warehouse_schema.identifiers import AssetId, StellarAddress

T = TypeVar("T")

VOUCHED_SECONDS = 10.0
"""How long a node that served our network and was well needs not say so again."""
MOST_LEDGERS_BEHIND = 12
"""Instances behind one address may differ by some; about a minute is no longer the same state."""


class AccountReader:
    """Reads accounts from the first node that answers well; it stays the first until it fails."""

    def __init__(
        self, chain: StellarChain, urls: Sequence[str], *, timeout: float = REQUEST_SECONDS
    ) -> None:
        """`timeout` is seconds. Raises `ConfigurationError` without an http URL."""
        nodes = [_Node(chain, StellarRpc(url, timeout=timeout)) for url in over_http(urls)]
        self._nodes = Nodes(chain.id, nodes)

    def signing_rules(self, account: StellarAddress) -> SigningRules | None:
        """Who may sign for an account; None when the ledger has no such account.

        Raises `RetryableChainError`, or `PermanentChainError` when every node is unfit.
        """
        return self._asked(account_key(account), lambda entry: _rules_of(entry, account))

    def trustline(self, account: StellarAddress, asset: AssetId) -> Trustline | None:
        """What the account can be paid of an asset; None without a trustline, or an account.

        Raises as `signing_rules` does.
        """
        return self._asked(
            trustline_key(account, asset), lambda entry: _trustline_of(entry, account, asset)
        )

    def _asked(self, key: str, parse: Callable[[str], T]) -> T | None:
        return self._nodes.ask(lambda node: node.read(key, parse))

    def close(self) -> None:
        """Let go of the connections."""
        self._nodes.close()


class _Node:
    """A node, until when it needs not show anew that it is fit, and the newest ledger it told."""

    def __init__(self, chain: StellarChain, rpc: StellarRpc) -> None:
        self.rpc, self.host, self.close = rpc, rpc.host, rpc.close
        self._chain = chain
        self._until, self._latest = 0.0, 0

    def vouch(self) -> None:
        """Check that it serves our network and is well: else its "no such account" is empty."""
        if time.monotonic() <= self._until:
            return
        passphrase = self.rpc.call("getNetwork", {}).get("passphrase")
        if passphrase != self._chain.passphrase:
            raise WrongChain(f"{self.host} serves {passphrase!r}, not {self._chain.id}")
        health = self.rpc.call("getHealth", {})
        if health.get("status") != "healthy":
            raise NodeUnavailable(f"{self.host} is {health.get('status')!r}")
        self._latest = max(self._latest, _ledger(health))
        self._until = time.monotonic() + VOUCHED_SECONDS

    def forget(self) -> None:
        self._until, self._latest = 0.0, 0

    def read(self, key: str, parse: Callable[[str], T]) -> T | None:
        """The entry of the ledger, or None when it has none."""
        answer = self.rpc.call("getLedgerEntries", {"keys": [key]})
        latest = _ledger(answer)
        if latest < self._latest - MOST_LEDGERS_BEHIND:
            raise NodeBehind(f"{self.host}: answers of {latest} after {self._latest}")
        self._latest = max(self._latest, latest)
        try:
            entry = _entry_of(answer)
            return None if entry is None else parse(entry)
        except ValueError as error:
            raise InconsistentAnswer(f"{self.host}: {key}: {error}") from error


def _ledger(answer: Mapping[str, Any]) -> int:
    latest = answer.get("latestLedger")
    if not isinstance(latest, int) or isinstance(latest, bool) or latest < 1:
        raise InconsistentAnswer(f"latestLedger is {latest!r}")
    return latest


def _entry_of(answer: Mapping[str, Any]) -> str | None:
    """The one entry that was asked for, or None. Raises `ValueError` for any other answer."""
    # Nodes before RPC 22 write an empty list as null.
    entries = answer["entries"] if answer.get("entries") is not None else []
    if "entries" not in answer or not isinstance(entries, list) or len(entries) > 1:
        raise ValueError("not a list of at most one entry")
    if not entries:
        return None
    entry = entries[0].get("xdr") if isinstance(entries[0], dict) else None
    if not isinstance(entry, str):
        raise ValueError("an entry without its XDR")
    return entry


def _rules_of(entry: str, account: StellarAddress) -> SigningRules:
    rules = signing_rules(entry)
    if rules.account != account:
        raise ValueError(f"the entry is of {rules.account}")
    return rules


def _trustline_of(entry: str, account: StellarAddress, asset: AssetId) -> Trustline:
    line = trustline(entry)
    if (line.account, line.asset) != (account, asset):
        raise ValueError(f"the entry is of {line.account} and {line.asset}")
    return line
