"""Who may sign for a Stellar account, and what it can be paid, asked of RPC nodes while somebody
waits for the answer.

An account that is not there is told from one that could not be read: None is what a node of our
network said that is well and not behind; everything else is an error. Threads may share a reader.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from indexer.chains.stellar_rpc import StellarRpc
from indexer.decode.accounts import (
    SigningRules,
    Trustline,
    account_key,
    signing_rules,
    trustline,
    trustline_key,
)
from indexer.errors import (
    ConfigurationError,
    InconsistentAnswer,
    IndexerError,
    NodeBehind,
    NodeUnavailable,
    PermanentChainError,
    RetryableChainError,
    WrongChain,
)
from indexer.networks import StellarChain
from warehouse_schema.identifiers import AssetId, StellarAddress

logger = logging.getLogger(__name__)

T = TypeVar("T")

REQUEST_SECONDS = 2.0
"""Of each request's pieces; a whole answer may take three times that."""
PATIENCE_SECONDS = 6.0
"""After this no further node is asked."""
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
        urls = [url for url in urls if url.startswith(("http://", "https://"))]
        if not urls:
            raise ConfigurationError(f"{chain.id} needs an http(s) URL of a Stellar RPC node")
        self._chain = chain
        self._nodes = tuple(_Vouched(StellarRpc(url, timeout=timeout)) for url in urls)
        self._first = 0

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
        deadline = time.monotonic() + PATIENCE_SECONDS
        first, number = self._first, len(self._nodes)
        failure: IndexerError | None = None
        for turn in [(first + step) % number for step in range(number)]:
            if failure is not None and time.monotonic() > deadline:
                break
            try:
                found = self._read(self._nodes[turn], key, parse)
            except (RetryableChainError, PermanentChainError) as error:
                logger.warning("account not read node=%s: %s", self._nodes[turn].rpc.host, error)
                self._nodes[turn].forget()
                failure = error
            else:
                self._first = turn
                return found
        raise failure or NodeUnavailable(f"{self._chain.id} has no node")

    def close(self) -> None:
        """Let go of the connections."""
        for node in self._nodes:
            node.rpc.close()

    def _read(self, node: "_Vouched", key: str, parse: Callable[[str], T]) -> T | None:
        if time.monotonic() > node.until:
            self._vouch(node)
        answer = node.rpc.call("getLedgerEntries", {"keys": [key]})
        latest = _ledger(answer)
        if latest < node.latest - MOST_LEDGERS_BEHIND:
            raise NodeBehind(f"{node.rpc.host}: answers of {latest} after {node.latest}")
        node.latest = max(node.latest, latest)
        try:
            entry = _entry_of(answer)
            return None if entry is None else parse(entry)
        except ValueError as error:
            raise InconsistentAnswer(f"{node.rpc.host}: {key}: {error}") from error

    def _vouch(self, node: "_Vouched") -> None:
        """Check that a node serves our network and is well: else its "no such account" is empty."""
        passphrase = node.rpc.call("getNetwork", {}).get("passphrase")
        if passphrase != self._chain.passphrase:
            raise WrongChain(f"{node.rpc.host} serves {passphrase!r}, not {self._chain.id}")
        health = node.rpc.call("getHealth", {})
        if health.get("status") != "healthy":
            raise NodeUnavailable(f"{node.rpc.host} is {health.get('status')!r}")
        node.latest = max(node.latest, _ledger(health))
        node.until = time.monotonic() + VOUCHED_SECONDS


class _Vouched:
    """A node, until when it needs not show anew that it is fit, and the newest ledger it told."""

    def __init__(self, rpc: StellarRpc) -> None:
        self.rpc = rpc
        self.forget()

    def forget(self) -> None:
        """It has to show anew that it is fit."""
        self.until = 0.0
        self.latest = 0


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
