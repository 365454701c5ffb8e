"""Strict reading of ABI-encoded logs. Every function raises `Undecodable`.

An ABI encoder leaves the unused high bits of a word zero. A word that has them set did not come
from the expected contract, so it is refused, not truncated.
"""

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from eth_hash.auto import keccak

from indexer.chains.events import Event
from indexer.chains.raw import EvmLog
from indexer.config.networks import EvmChain
from indexer.errors import ConfigurationError, Undecodable
from warehouse_schema.identifiers import Address, BaseUnits, Bytes32, bytes32, parse_bytes32

LogDecoder: TypeAlias = Callable[[EvmLog, EvmChain], Event | None]
"""A log of one event → the typed event; None for a log that concerns others."""
Known = TypeVar("Known")

WORD = 32


def topic_of(signature: str) -> str:
    """Topic 0 of an event: keccak256 of its signature."""
    return "0x" + keccak(signature.encode()).hex()


TRANSFER_TOPIC = topic_of("Transfer(address,address,uint256)")
"""ERC-20 transfers; log filters select them by recipient."""


def topics(log: EvmLog, count: int, *, words: int | None = None) -> tuple[str, ...]:
    """The topics of a log that must have `count` of them, and `words` words of data if given."""
    if len(log.topics) != count:
        raise Undecodable(f"it has {len(log.topics)} topics, not {count}")
    if words is not None and len(log.data) != words * WORD:
        raise Undecodable(f"its data has {len(log.data)} bytes, not {words * WORD}")
    return log.topics


def topic_bytes32(topic: str) -> Bytes32:
    """A topic as `0x` and 64 hex digits."""
    try:
        return parse_bytes32(topic)
    except ValueError as error:
        raise Undecodable(f"topic {error}") from error


def topic_uint(topic: str, bits: int) -> int:
    """A topic as an unsigned integer of that width."""
    return _narrow(int(topic_bytes32(topic), 16), bits)


def topic_address(topic: str) -> Address:
    """A topic as an address."""
    return Address(f"0x{topic_uint(topic, 160):040x}")


def word_bytes32(log: EvmLog, index: int) -> Bytes32:
    """A word of the data as `0x` and 64 hex digits."""
    return bytes32(_slice(log.data, index * WORD, WORD))


def uint(log: EvmLog, index: int, bits: int) -> int:
    """A word of the data as an unsigned integer of that width."""
    return _narrow(int.from_bytes(_slice(log.data, index * WORD, WORD), "big"), bits)


def amount(log: EvmLog, index: int) -> BaseUnits:
    """A uint256 of base units."""
    return BaseUnits(uint(log, index, 256))


def shared_amount(log: EvmLog, index: int) -> BaseUnits:
    """An amount with CCTP's 6 decimals. 252 bits: ten times as much, on Stellar, fits 256."""
    return BaseUnits(uint(log, index, 252))


def address(log: EvmLog, index: int) -> Address:
    """A word of the data as an address."""
    return Address(f"0x{uint(log, index, 160):040x}")


def dynamic_bytes(log: EvmLog, index: int) -> bytes:
    """A `bytes` argument: its word holds the offset of a length and that many bytes."""
    start = uint(log, index, 256)
    length = int.from_bytes(_slice(log.data, start, WORD), "big")
    return _slice(log.data, start + WORD, length)


def _slice(data: bytes, start: int, size: int) -> bytes:
    if start + size > len(data):
        raise Undecodable(
            f"its data has {len(data)} bytes, and {size} at offset {start} are asked for"
        )
    return data[start : start + size]


def _narrow(value: int, bits: int) -> int:
    if value >> bits:
        raise Undecodable(f"{value:#x} does not fit {bits} bits")
    return value


def required(value: Known | None, key: str) -> Known:
    """A setting that the network file must give along with the log's contract."""
    if value is None:
        raise ConfigurationError(f"{key} is missing: the chain has contracts that need it")
    return value
