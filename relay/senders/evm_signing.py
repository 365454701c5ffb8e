"""EVM transactions as signed bytes (EIP-1559, type 2). Pure but for the key."""

from dataclasses import dataclass

import rlp
from eth_utils.crypto import keccak

from relay.keys import EvmKey, evm_signature
from relay.nonces import SignedTransaction
from warehouse_schema.identifiers import EvmAddress, TxHash, Wei

_TYPE = b"\x02"
NO_VALUE = Wei(0)


@dataclass(frozen=True, slots=True)
class GasBid:
    """Fees of a transaction, per unit of gas."""

    most: Wei
    """maxFeePerGas."""
    tip: Wei
    """maxPriorityFeePerGas."""


@dataclass(frozen=True, slots=True)
class ContractCall:
    """Call of a contract."""

    to: EvmAddress
    data: bytes
    value: Wei = NO_VALUE
    price: "ContractCall | None" = None
    """View call that returns the value to send, in place of `value`; read at each signing."""


def sign_evm(
    key: EvmKey, chain: int, nonce: int, call: ContractCall, gas: int, bid: GasBid
) -> SignedTransaction:
    """Sign a call for one chain only, by its EIP-155 number. Raises `WrongSignature`."""
    fields: list[object] = [
        *(chain, nonce, bid.tip, bid.most, gas),
        *(bytes.fromhex(call.to[2:]), call.value, call.data, []),
    ]
    parity, r, s = evm_signature(key, keccak(_TYPE + rlp.encode(fields)))
    raw = _TYPE + rlp.encode([*fields, parity, r, s])
    max_cost = Wei(gas * bid.most + call.value)
    return SignedTransaction(TxHash("0x" + keccak(raw).hex()), raw, max_cost)


def read_call(raw: bytes) -> ContractCall:
    """The call in a signed transaction."""
    fields = rlp.decode(raw[1:])
    value = Wei(int.from_bytes(fields[6], "big"))
    return ContractCall(EvmAddress(f"0x{fields[5].hex()}"), fields[7], value)
