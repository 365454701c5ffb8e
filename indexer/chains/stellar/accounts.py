"""Accounts, trustlines and simulated calls on Stellar, read from RPC nodes on request.

None means that a checked node, of our network and up to date, has no such entry; every other
response is an error. One node is trusted for what a contract enforces itself (`min_amount_ld`, the
fee of a call) and for footprints: a wrong value makes the transaction fail, and moves nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from indexer.chains.http.node_pool import REQUEST_SECONDS, NodePool
from indexer.chains.http.operators import http_urls
from indexer.chains.stellar.checked_nodes import CheckedStellarNode, inconsistent_on_error
from indexer.chains.stellar.xdr.ledger_entries import (
    SigningRules,
    Trustline,
    account_key,
    parse_account,
    sequence_ledger,
    signing_rules,
    trustline,
    trustline_key,
)
from indexer.chains.stellar.xdr.simulation import SimulationResult, parse_simulation
from indexer.config.networks import StellarChain
from warehouse_schema.identifiers import AssetId, Height, StellarAddress

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AccountSnapshot:
    """An account as of the end of a ledger."""

    ledger: Height
    sequence: int
    """Of its last transaction."""
    sequence_ledger: Height
    """The ledger that set the sequence number, or a later one before the next change."""
    rules: SigningRules


class AccountReader:
    """Reads accounts and simulates calls, with failover. Thread-safe."""

    def __init__(
        self, chain: StellarChain, urls: Sequence[str], *, timeout: float = REQUEST_SECONDS
    ) -> None:
        """`timeout` is seconds. Raises `ConfigurationError` without an http URL."""
        nodes = [CheckedStellarNode(chain, url, timeout) for url in http_urls(urls)]
        self._nodes = NodePool(chain.id, nodes)

    def close(self) -> None:
        """Close the connections."""
        self._nodes.close()

    def snapshot(self, account: StellarAddress) -> AccountSnapshot | None:
        """Signers and sequence number; None without such an account.

        Raises as `signing_rules` does.
        """

        def ask(node: CheckedStellarNode) -> AccountSnapshot | None:
            answer = _entries(node, account_key(account))
            with inconsistent_on_error(node.host):
                entry = _entry_of(answer)
                if entry is None:
                    return None
                rules = _rules_of(entry, account)
                data = parse_account(entry)
                changed = sequence_ledger(data)
                if changed is None:
                    # Every payment to the account changes the entry; seqLedger changes with the
                    # number only.
                    modified = answer["entries"][0].get("lastModifiedLedgerSeq")
                    if not isinstance(modified, int) or isinstance(modified, bool) or modified < 1:
                        raise ValueError(f"lastModifiedLedgerSeq is {modified!r}")
                    changed = Height(modified)
                sequence = data.seq_num.sequence_number.int64
                return AccountSnapshot(node.ledger_of(answer), sequence, changed, rules)

        return self._nodes.failover(ask)

    def signing_rules(self, account: StellarAddress) -> SigningRules | None:
        """Signers of an account; None without such an account.

        Raises `RetryableChainError`, or `PermanentChainError` when every node is unfit.
        """
        key = account_key(account)
        return self._nodes.failover(
            lambda node: read_entry(node, key, lambda entry: _rules_of(entry, account))
        )

    def trustline(self, account: StellarAddress, asset: AssetId) -> Trustline | None:
        """Trustline of the account for an asset; None without a trustline or account.

        Raises as `signing_rules` does.
        """

        def parse(entry: str) -> Trustline:
            line = trustline(entry)
            if (line.account, line.asset) != (account, asset):
                raise ValueError(f"the entry is of {line.account} and {line.asset}")
            return line

        key = trustline_key(account, asset)
        return self._nodes.failover(lambda node: read_entry(node, key, parse))

    def simulate_call(self, envelope: str) -> SimulationResult:
        """Simulate a transaction of one contract call (base64 XDR), signed or not.

        Raises `CallReverted` when it would fail, without failover; else as `signing_rules` does.
        """
        return self._nodes.failover(lambda node: simulate(node, envelope))


def simulate(node: CheckedStellarNode, envelope: str) -> SimulationResult:
    """As `AccountReader.simulate_call`, of one node."""
    # Address credentials are not ours to sign, so the older form suffices.
    params = {"transaction": envelope, "useUpgradedAuth": False}
    answer = node.call("simulateTransaction", params)
    node.ledger_of(answer)
    with inconsistent_on_error(node.host):
        return parse_simulation(answer)


def read_entry(node: CheckedStellarNode, key: str, parse: Callable[[str], T]) -> T | None:
    """Entry of a node's newest ledger, or None. Raises as nodes do."""
    answer = _entries(node, key)
    with inconsistent_on_error(node.host):
        entry = _entry_of(answer)
        return None if entry is None else parse(entry)


def _entries(node: CheckedStellarNode, key: str) -> Mapping[str, Any]:
    answer = node.call("getLedgerEntries", {"keys": [key]})
    node.ledger_of(answer)
    return answer


def _entry_of(answer: Mapping[str, Any]) -> str | None:
    """The requested entry, or None. Raises `ValueError` for any other response."""
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
