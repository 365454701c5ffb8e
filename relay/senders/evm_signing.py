"""EVM transactions as bytes, signed (EIP-1559, type 2). Pure but for the key.

The chain's number is inside of what is signed, so that nobody can play it on another chain.
"""

from dataclasses import dataclass

import rlp
from eth_utils.crypto import keccak

from relay.keys import EvmKey, evm_signature
from relay.nonces import SignedTransaction
from warehouse_schema.identifiers import EvmAddress, TxHash

_TYPE = b"\x02"


@dataclass(frozen=True, slots=True)
class GasBid:
    """What a transaction bids, wei for a unit of gas."""

    most: int
    """maxFeePerGas."""
    tip: int
    """maxPriorityFeePerGas."""


@dataclass(frozen=True, slots=True)
class ContractCall:
    """What a transaction does."""

    to: EvmAddress
    data: bytes
    value: int = 0
    """Wei."""
    price: "ContractCall | None" = None
    """A view that says how much wei it has to carry, in place of `value`: asked at each signing."""


def sign_evm(
    key: EvmKey, chain: int, nonce: int, call: ContractCall, gas: int, fees: GasBid
) -> SignedTransaction:
    """Sign a call for a chain's EIP-155 number. Raises `WrongSignature`."""
    fields: list[object] = [
        *(chain, nonce, fees.tip, fees.most, gas),
        *(bytes.fromhex(call.to[2:]), call.value, call.data, []),
    ]
    parity, r, s = evm_signature(key, keccak(_TYPE + rlp.encode(fields)))
    raw = _TYPE + rlp.encode([*fields, parity, r, s])
    return SignedTransaction(TxHash("0x" + keccak(raw).hex()), raw, gas * fees.most + call.value)
