"""Mined transactions of an account, found by their nonce.

A node's transaction counts at past blocks locate the block. The transaction is encoded again from
the block's fields: equal bytes have the same hash, so a node cannot alter what it returns.
"""

from dataclasses import dataclass
from typing import Any

import rlp
from eth_keys.datatypes import Signature
from eth_keys.exceptions import BadSignature
from eth_utils.crypto import keccak
from eth_utils.exceptions import ValidationError

from indexer.chains.evm.jsonrpc import JsonRpc, parse_quantity
from indexer.errors import InconsistentAnswer
from warehouse_schema.identifiers import EvmAddress, Height, TxHash

_TYPE_2 = b"\x02"
_FIELDS = ("chainId", "nonce", "maxPriorityFeePerGas", "maxFeePerGas", "gas", "to", "value")


@dataclass(frozen=True, slots=True)
class FoundTransaction:
    """Transaction of an account, by hash and signed bytes."""

    tx: TxHash
    raw: bytes | None
    """None for a type that Isthmus does not sign: then a node's word is all that the hash has."""


def find_by_nonce(
    node: JsonRpc, chain: int, account: EvmAddress, nonce: int
) -> FoundTransaction | None:
    """The mined transaction of an account with a nonce; None while there is none.

    `chain` is the EIP-155 number: one key may sign for several chains, with equal nonces.

    Doubles its distance from the head until the nonce was unused, then bisects: it reads states at
    most twice as old as the transaction. Raises errors of the node, `NodeUnavailable` when it has
    pruned such a state, `InconsistentAnswer` when its answers contradict each other.
    """
    head = parse_quantity(node.call("eth_blockNumber", []), node.host)
    if _count(node, account, head) <= nonce:
        return None
    used, distance = head, 1
    while used > 0 and _count(node, account, unused := max(0, head - distance)) > nonce:
        used, distance = unused, 2 * distance
    unused = max(-1, head - distance)
    while used - unused > 1:
        middle = (used + unused) // 2
        if _count(node, account, middle) > nonce:
            used = middle
        else:
            unused = middle
    block = node.call("eth_getBlockByNumber", [hex(used), True])
    transactions = block.get("transactions") if isinstance(block, dict) else None
    for each in transactions if isinstance(transactions, list) else []:
        sender, number = str(each.get("from")).lower(), parse_quantity(each["nonce"], node.host)
        if sender == account and number == nonce:
            return _checked(each, chain, account, Height(used), node.host)
    raise InconsistentAnswer(f"{node.host}: block {used} has no nonce {nonce} of {account}")


def _count(node: JsonRpc, account: EvmAddress, height: int) -> int:
    answer = node.call("eth_getTransactionCount", [account, hex(height)])
    return parse_quantity(answer, node.host)


def _checked(
    fields: dict[str, Any], chain: int, account: EvmAddress, height: Height, host: str
) -> FoundTransaction:
    """Encode a transaction of type 2; hash and signer must be the reported ones, on this chain."""
    tx = TxHash(str(fields.get("hash")))
    if fields.get("type") != "0x2" or not fields.get("to"):
        return FoundTransaction(tx, None)
    numbers = {name: parse_quantity(fields[name], host) for name in (*_FIELDS[:5], "value")}
    access = [
        [_bytes(entry["address"]), [_bytes(key) for key in entry["storageKeys"]]]
        for entry in fields.get("accessList") or []
    ]
    body: list[Any] = [numbers[name] for name in _FIELDS[:5]]
    body += [_bytes(fields["to"]), numbers["value"], _bytes(fields["input"]), access]
    parity = parse_quantity(fields.get("yParity", fields["v"]), host)
    r, s = parse_quantity(fields["r"], host), parse_quantity(fields["s"], host)
    raw = _TYPE_2 + rlp.encode([*body, parity, r, s])
    try:
        signature = Signature(vrs=(parity, r, s))
        digest = keccak(_TYPE_2 + rlp.encode(body))
        signer = signature.recover_public_key_from_msg_hash(digest).to_address()
    except (BadSignature, ValidationError) as error:
        raise InconsistentAnswer(f"{host}: {tx} in block {height}: {error}") from error
    if (f"0x{keccak(raw).hex()}", signer, numbers["chainId"]) != (tx, account, chain):
        raise InconsistentAnswer(
            f"{host}: {tx} in block {height} is not signed by {account} for eip155:{chain}"
        )
    return FoundTransaction(tx, raw)


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))
