"""Receipts root, bloom and header hash of a block, recomputed from JSON-RPC objects.

A node that forges a receipt has to forge the root in the header, and with it the block's hash,
which other nodes and the next block's parent hash name too.

Sources: Yellow Paper 4.3 (bloom, header) and appendix H (trie); EIP-2718 (typed receipts); the OP
Stack's deposit receipts (execution engine specification, Canyon); Arbitrum's transaction types
(OffchainLabs/go-ethereum, `core/types/receipt.go`: its receipts are encoded as typed ones).
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import rlp
from eth_utils.crypto import keccak

from warehouse_schema.identifiers import BlockHash, parse_bytes32

BLOOM_BITS = 2048

_ETHEREUM_TYPES = range(5)
"""Legacy, EIP-2930, EIP-1559, EIP-4844 and EIP-7702: one receipt shape."""
_ARBITRUM_TYPES = frozenset({0x64, 0x65, 0x66, 0x68, 0x69, 0x6A})
"""Deposit, unsigned, contract, retry, submit retryable and internal: Ethereum's receipt shape."""
_OP_DEPOSIT = 0x7E


class UnknownReceiptType(ValueError):
    """A transaction type whose receipt we cannot encode: its block's root cannot be recomputed."""


def receipts_root(receipts: Sequence[Mapping[str, Any]]) -> str:
    """Root of the trie of a block's receipts (`eth_getBlockReceipts`), in block order; 0x + hex.

    Raises `UnknownReceiptType`, and `KeyError`, `TypeError` or `ValueError` for malformed ones.
    """
    # Imported here, because every reader imports this module and few check roots.
    from trie.hexary import HexaryTrie

    trie = HexaryTrie({})
    with trie.squash_changes() as batch:
        for index, receipt in enumerate(receipts):
            batch[rlp.encode(index)] = encoded_receipt(receipt)
    return f"0x{trie.root_hash.hex()}"


def encoded_receipt(receipt: Mapping[str, Any]) -> bytes:
    """The receipt as in its block's trie."""
    kind = _int(receipt.get("type") or "0x0")
    outcome = receipt.get("status")
    fields: list[Any] = [
        # Before Byzantium a receipt had the state's root in place of a status.
        _bytes(receipt["root"]) if outcome is None else _int(outcome),
        _int(receipt["cumulativeGasUsed"]),
        _bytes(receipt["logsBloom"]),
        [
            [
                _bytes(log["address"]),
                [_bytes(topic) for topic in log["topics"]],
                _bytes(log["data"]),
            ]
            for log in receipt["logs"]
        ],
    ]
    if kind == _OP_DEPOSIT:
        if receipt.get("depositReceiptVersion") is not None:
            fields += [_int(receipt["depositNonce"]), _int(receipt["depositReceiptVersion"])]
    elif kind not in _ETHEREUM_TYPES and kind not in _ARBITRUM_TYPES:
        raise UnknownReceiptType(f"receipts of transaction type {kind:#x}")
    encoded: bytes = rlp.encode(fields)
    return encoded if kind == 0 else bytes([kind]) + encoded


# The header

_NUMBERS = frozenset(
    {
        *("difficulty", "number", "gasLimit", "gasUsed", "timestamp"),
        *("baseFeePerGas", "blobGasUsed", "excessBlobGas"),
    }
)
_ALWAYS = (
    *("parentHash", "sha3Uncles", "miner", "stateRoot", "transactionsRoot", "receiptsRoot"),
    *("logsBloom", "difficulty", "number", "gasLimit", "gasUsed", "timestamp", "extraData"),
    *("mixHash", "nonce"),
)
_SINCE = (
    "baseFeePerGas",  # London
    "withdrawalsRoot",  # Shanghai
    "blobGasUsed",  # Cancun, with the next two
    "excessBlobGas",
    "parentBeaconBlockRoot",
    "requestsHash",  # Prague
)
"""Fields that forks of Ethereum appended, in order."""


def header_hash(header: Mapping[str, Any]) -> BlockHash:
    """Hash of a header with Ethereum's fields (`eth_getBlockByNumber`).

    It proves nothing on chains whose headers have fields of their own.
    Raises `KeyError`, `TypeError` or `ValueError` when a field is missing or malformed.
    """
    names = [*_ALWAYS, *(name for name in _SINCE if header.get(name) is not None)]
    fields = [_int(header[name]) if name in _NUMBERS else _bytes(header[name]) for name in names]
    return BlockHash(parse_bytes32("0x" + keccak(rlp.encode(fields)).hex()))


def bloom_of(items: Iterable[str]) -> int:
    """Bloom of these addresses and topics, as one integer."""
    bloom = 0
    for item in items:
        bloom |= _bloom_mask(item)
    return bloom


def may_hold(bloom: int, item: str) -> bool:
    """Whether an address or topic may be among the logs of a bloom."""
    mask = _bloom_mask(item)
    return bloom & mask == mask


@lru_cache(maxsize=65_536)
def _bloom_mask(item: str) -> int:
    """The three bits of an address or topic in a block's bloom (Yellow Paper 4.3.1)."""
    digest = keccak(hexstr=item)
    bits = (int.from_bytes(digest[i : i + 2], "big") % BLOOM_BITS for i in (0, 2, 4))
    return sum({1 << bit for bit in bits})


def _int(quantity: str) -> int:
    return int(quantity, 16)


def _bytes(data: str) -> bytes:
    if not data.startswith("0x"):
        raise ValueError(f"{data[:20]!r} is not 0x and hex digits")
    return bytes.fromhex(data[2:])
