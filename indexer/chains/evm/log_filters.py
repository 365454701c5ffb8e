"""JSON-RPC queries for headers, and for logs by contract, topic and recipient."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from indexer.addresses import evm_as_bytes32
from indexer.chains.evm.abi import TRANSFER_TOPIC
from indexer.chains.evm.blooms import may_hold
from indexer.chains.evm.jsonrpc import RpcCall
from indexer.config.networks import EvmChain
from warehouse_schema.identifiers import Bytes32, EvmAddress, parse_evm_address

RECIPIENTS_PER_QUERY = 500
"""Watched recipients of one transfer query; nodes limit the size of a filter."""
MAX_RECIPIENTS = 2_000
"""Watched recipients up to which queries list them. With more, all transfers of the tokens are read
and the recipients looked up here, so that the cost of a block has a bound. The queries for 2,000
have 136 KB, as much as some 200 logs."""

EventTopics: TypeAlias = Callable[[EvmChain], Mapping[EvmAddress, tuple[str, ...]]]
"""First topics to read, by contract of a chain."""


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Logs of these contracts with these first topics; for transfers, to these recipients."""

    contracts: frozenset[EvmAddress]
    first_topics: frozenset[str]
    recipients: frozenset[Bytes32] | None = None
    """Third topics; None takes any log."""

    def query(self, where: Mapping[str, str]) -> RpcCall:
        """Query for `fromBlock` to `toBlock`, or for a `blockHash`, canonical or not (EIP-234)."""
        topics: list[Any] = [sorted(self.first_topics)]
        if self.recipients is not None:
            topics += [None, sorted(self.recipients)]
        return "eth_getLogs", [{**where, "address": sorted(self.contracts), "topics": topics}]

    def wants(self, address: str, topics: Sequence[str]) -> bool:
        """Whether a log matches."""
        if address not in self.contracts or not topics or topics[0] not in self.first_topics:
            return False
        return self.recipients is None or (len(topics) > 2 and topics[2] in self.recipients)

    def may_be_in(self, bloom: int) -> bool:
        """Whether a block with that bloom may have a log that matches."""
        return (
            any(may_hold(bloom, contract) for contract in self.contracts)
            and any(may_hold(bloom, topic) for topic in self.first_topics)
            and (self.recipients is None or any(may_hold(bloom, each) for each in self.recipients))
        )


def transfer_filters(chain: EvmChain, listed: Collection[str] | None) -> list[LogFilter]:
    """Transfers of known tokens to listed recipients, in parts; None: to anybody."""
    tokens, transfer = frozenset(chain.tokens), frozenset({TRANSFER_TOPIC})
    if not tokens:
        return []
    if listed is None:
        return [LogFilter(tokens, transfer)]
    recipients = sorted(recipient_topics(listed))
    return [
        LogFilter(tokens, transfer, frozenset(recipients[start : start + RECIPIENTS_PER_QUERY]))
        for start in range(0, len(recipients), RECIPIENTS_PER_QUERY)
    ]


def recipient_topics(addresses: Collection[str]) -> frozenset[Bytes32]:
    """Third topics of transfers to these addresses."""
    return frozenset(evm_as_bytes32(parse_evm_address(each)) for each in addresses)


def union_filter(filters: Sequence[LogFilter]) -> LogFilter:
    """One filter that matches the logs of all of these, and maybe a few more."""
    return LogFilter(
        frozenset(contract for each in filters for contract in each.contracts),
        frozenset(topic for each in filters for topic in each.first_topics),
    )


def header_call(block: str) -> RpcCall:
    """A header by its height in hex, or by its tag."""
    return "eth_getBlockByNumber", [block, False]
