"""Identifiers and units: chains, assets, hashes, addresses, amounts.

Each is a `NewType`, so that a type checker keeps them apart and nothing costs at run time.
The parsers below are for the edges (network files, requests, settings); inside, a value of one of
these types is already known to be good.
"""

import re
from typing import NewType, TypeAlias

ChainId = NewType("ChainId", str)
"""CAIP-2: `eip155:1`, `stellar:pubnet`."""

AssetId = NewType("AssetId", str)
"""CAIP-19 on EVM chains (`eip155:1/erc20:0x…`), `stellar:CODE:ISSUER` on Stellar."""

BaseUnits = NewType("BaseUnits", int)
"""Integer amount in an asset's smallest unit. The containing type defines the asset."""

Wei = NewType("Wei", int)
"""10^-18 of an EVM chain's native coin, also per unit of gas."""

Stroops = NewType("Stroops", int)
"""10^-7 XLM."""

NativeAmount: TypeAlias = Wei | Stroops
"""Amount in the smallest unit of a chain's native coin. The containing type defines the chain."""

Height = NewType("Height", int)
"""EVM block number, or Stellar ledger sequence."""

MAX_HEIGHT = Height(2**63 - 1)
"""The largest that a column of heights holds, above every block."""

UnixSeconds = NewType("UnixSeconds", int)
"""Seconds since 1970 UTC, as blocks and ledgers carry them."""

LAST_SECOND = 253_402_300_799
"""9999-12-31T23:59:59Z: the last second with a year of four digits, where Python's dates end."""

UnixMilliseconds = NewType("UnixMilliseconds", int)
"""Milliseconds since 1970 UTC, as ledgers carry them from protocol 30 on."""

BlockHash = NewType("BlockHash", str)
"""EVM block hash (`0x` + 64 hex) or Stellar ledger hash (64 hex); lower-case."""

TxHash = NewType("TxHash", str)
"""EVM: `0x` + 64 lower-case hex. Stellar: 64 lower-case hex without prefix, as explorers do."""

EvmAddress = NewType("EvmAddress", str)
"""`0x` + 40 hex, lower-case."""

StellarAddress = NewType("StellarAddress", str)
"""A strkey (SEP-23): `G…` account, `C…` contract, `M…` muxed account, `W…` muxed contract, `B…`
claimable balance, `L…` pool."""

Address = NewType("Address", str)
"""An `EvmAddress` or a `StellarAddress`, where one column holds either."""

Bytes32 = NewType("Bytes32", str)
"""`0x` + 64 lower-case hex: CCTP recipients and nonces, LayerZero guids and peers."""

_CHAIN_ID = re.compile(r"[-a-z0-9]{3,8}:[-_a-zA-Z0-9]{1,32}")
_EVM_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_BYTES32 = re.compile(r"0x[0-9a-fA-F]{64}")


def parse_chain_id(text: str) -> ChainId:
    """Read a CAIP-2 chain id. Raises `ValueError` that quotes the text."""
    if not _CHAIN_ID.fullmatch(text):
        raise ValueError(f"{text!r} is not a CAIP-2 chain id such as eip155:1 or stellar:pubnet")
    return ChainId(text)


def evm_chain_number(chain: ChainId) -> int:
    """EIP-155 number of an EVM chain. Raises `ValueError` for another namespace."""
    namespace, _, reference = chain.partition(":")
    if namespace != "eip155" or not reference.isdecimal():
        raise ValueError(f"{chain!r} is not an EVM chain id such as eip155:1")
    return int(reference)


def is_evm(chain: ChainId) -> bool:
    """Whether the chain is of the `eip155` namespace."""
    return chain.startswith("eip155:")


def native_amount(chain: ChainId, amount: int) -> NativeAmount:
    """Amount of a chain's native coin, such as a number of a column that holds either unit."""
    return Wei(amount) if is_evm(chain) else Stroops(amount)


def parse_evm_address(text: str) -> EvmAddress:
    """Read an EVM address in any case, without looking at its EIP-55 checksum.

    Raises `ValueError` that quotes the text. Where a person typed the address, use
    `indexer.addresses`, which checks the checksum too.
    """
    if not _EVM_ADDRESS.fullmatch(text):
        raise ValueError(f"{text!r} is not an EVM address (0x and 40 hex digits)")
    return EvmAddress(text.lower())


def parse_bytes32(text: str) -> Bytes32:
    """Read 32 bytes written as `0x` + 64 hex. Raises `ValueError` that quotes the text."""
    if not _BYTES32.fullmatch(text):
        raise ValueError(f"{text!r} is not 32 bytes (0x and 64 hex digits)")
    return Bytes32(text.lower())


def bytes32(raw: bytes) -> Bytes32:
    """Name 32 raw bytes. Raises `ValueError` on another length."""
    if len(raw) != 32:
        raise ValueError(f"expected 32 bytes, got {len(raw)}")
    return Bytes32("0x" + raw.hex())
