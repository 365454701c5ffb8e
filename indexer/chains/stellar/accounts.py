"""Who may sign for a Stellar account, and what it can be paid, asked of RPC nodes while somebody
waits for the answer.

An account that is not there is told from one that could not be read: None is what a node of our
network said that is well and not behind; everything else is an error. Threads may share a reader.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from indexer.chains.http.failover import REQUEST_SECONDS
from indexer.chains.stellar.checked_nodes import (
    CheckedStellarNode,
    inconsistent_on_error,
    open_nodes,
)
from indexer.chains.stellar.xdr.ledger_entries import (
    SigningRules,
    Trustline,
    account_key,
    sequence,
    sequence_ledger,
    signing_rules,
    trustline,
    trustline_key,
)
from indexer.config.networks import StellarChain
from warehouse_schema.identifiers import AssetId, Height, StellarAddress

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AccountSnapshot:
    """An account as of the end of a ledger."""

    ledger: Height
    sequence: int
    """The number that its last transaction spent."""
    sequence_ledger: Height
    """The ledger that spent it, or a later one: no ledger after it has spent another."""
    rules: SigningRules


class AccountReader:
    """Reads accounts from the first node that answers well; it stays the first until it fails."""

    def __init__(
        self, chain: StellarChain, urls: Sequence[str], *, timeout: float = REQUEST_SECONDS
    ) -> None:
        """`timeout` is seconds. Raises `ConfigurationError` without an http URL."""
        self._nodes = open_nodes(chain, urls, timeout)

    def snapshot(self, account: StellarAddress) -> AccountSnapshot | None:
        """Who may sign for an account and what it has signed; None without such an account.

        Raises as `signing_rules` does.
        """
        return self._nodes.ask(lambda node: _seen(node, account))

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
        return self._nodes.ask(lambda node: read_entry(node, key, parse))

    def close(self) -> None:
        """Let go of the connections."""
        self._nodes.close()


def _seen(node: CheckedStellarNode, account: StellarAddress) -> AccountSnapshot | None:
    answer = _entries(node, account_key(account))
    with inconsistent_on_error(node.host):
        entry = _entry_of(answer)
        if entry is None:
            return None
        rules = _rules_of(entry, account)
        # The entry changes with each payment to the account; its own field only with its number.
        changed = sequence_ledger(entry) or _last_modified(answer)
        return AccountSnapshot(node.told(answer), sequence(entry), changed, rules)


def read_entry(node: CheckedStellarNode, key: str, parse: Callable[[str], T]) -> T | None:
    """An entry of a node's newest ledger, or None when it has none. Raises what nodes raise."""
    answer = _entries(node, key)
    with inconsistent_on_error(node.host):
        entry = _entry_of(answer)
        return None if entry is None else parse(entry)


def _entries(node: CheckedStellarNode, key: str) -> Mapping[str, Any]:
    answer = node.rpc.call("getLedgerEntries", {"keys": [key]})
    node.told(answer)
    return answer


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


def _last_modified(answer: Mapping[str, Any]) -> Height:
    """The ledger that last changed the one entry of an answer."""
    modified = answer["entries"][0].get("lastModifiedLedgerSeq")
    if not isinstance(modified, int) or isinstance(modified, bool) or modified < 1:
        raise ValueError(f"lastModifiedLedgerSeq is {modified!r}")
    return Height(modified)


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
