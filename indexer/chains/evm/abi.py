"""Words of ABI-encoded logs, read strictly.

An ABI encoder leaves the unused high bits of a word zero. A word that has them set did not come
from the contract we think it did, so it is refused, not truncated. Every function raises
`Undecodable`.
"""

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from eth_utils.crypto import keccak

from indexer.chains.events import Event
from indexer.chains.raw import EvmLog
from indexer.config.networks import EvmChain
from indexer.errors import ConfigurationError, Undecodable
from warehouse_schema.identifiers import Address, BaseUnits, Bytes32, bytes32, parse_bytes32

LogDecoder: TypeAlias = Callable[[EvmLog, EvmChain], Event | None]
"""A log of one event → the typed event; None for what the contract says to others."""
Known = TypeVar("Known")

WORD = 32


def topic_of(signature: str) -> str:
    """Topic 0 of an event: keccak256 of its signature."""
    return "0x" + keccak(text=signature).hex()


TRANSFER_TOPIC = topic_of("Transfer(address,address,uint256)")
"""Of ERC-20 transfers, which log filters ask for by recipient."""


def topics(log: EvmLog, count: int) -> tuple[str, ...]:
    """The topics of a log that must have so many."""
    if len(log.topics) != count:
        raise Undecodable(f"it has {len(log.topics)} topics, not {count}")
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


def expect_words(log: EvmLog, count: int) -> None:
    """Check that the data has so many words."""
    if len(log.data) != count * WORD:
        raise Undecodable(f"its data has {len(log.data)} bytes, not {count * WORD}")


def _word(log: EvmLog, index: int) -> bytes:
    return _slice(log.data, index * WORD, WORD)


def word_bytes32(log: EvmLog, index: int) -> Bytes32:
    """A word of the data as `0x` and 64 hex digits."""
    return bytes32(_word(log, index))


def uint(log: EvmLog, index: int, bits: int) -> int:
    """A word of the data as an unsigned integer of that width."""
    return _narrow(int.from_bytes(_word(log, index), "big"), bits)


def amount(log: EvmLog, index: int) -> BaseUnits:
    """A uint256 of base units."""
    return BaseUnits(uint(log, index, 256))


def shared_amount(log: EvmLog, index: int) -> BaseUnits:
    """An amount of CCTP's 6 decimals; ten times as much, as Stellar has it, is a uint256 too."""
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
    """A setting that the network file gives along with the contract whose log this is."""
    if value is None:
        raise ConfigurationError(f"{key} is missing: the chain has contracts that need it")
    return value
