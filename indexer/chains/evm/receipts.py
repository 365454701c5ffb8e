"""Receipts root and header hash of a block, recomputed from JSON-RPC objects.

A node that forges a receipt has to forge the root in the header, and with it the block's hash,
which other nodes and the next block's parent hash name too.

Sources: Yellow Paper 4.3 (header), appendices B (RLP) and H (trie); EIP-2718 (typed receipts); OP
Stack's deposit receipts (execution engine specification, Canyon); Arbitrum's transaction types
(OffchainLabs/go-ethereum, `core/types/receipt.go`: its receipts are encoded as typed ones).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from eth_hash.auto import keccak

from warehouse_schema.identifiers import BlockHash, parse_bytes32

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
            batch[rlp_encode(index)] = encoded_receipt(receipt)
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
    encoded = rlp_encode(fields)
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
    return BlockHash(parse_bytes32("0x" + keccak(rlp_encode(fields)).hex()))


def _int(quantity: str) -> int:
    return int(quantity, 16)


def _bytes(data: str) -> bytes:
    if not data.startswith("0x"):
        raise ValueError(f"{data[:20]!r} is not 0x and hex digits")
    return bytes.fromhex(data[2:])


# RLP. The library takes as long to import as all of `indexer.chains.evm`, and reads its own
# declarations again for each header.


def rlp_encode(item: Any) -> bytes:
    """RLP (Yellow Paper, appendix B) of bytes, of an integer that is not negative, or of a list."""
    if isinstance(item, int):
        item = item.to_bytes((item.bit_length() + 7) // 8, "big")
    if isinstance(item, bytes):
        if len(item) == 1 and item[0] < 0x80:
            return item
        return _rlp_prefix(len(item), 0x80) + item
    content = b"".join(map(rlp_encode, item))
    return _rlp_prefix(len(content), 0xC0) + content


def _rlp_prefix(length: int, offset: int) -> bytes:
    if length < 56:
        return bytes([offset + length])
    size = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([offset + 55 + len(size)]) + size
