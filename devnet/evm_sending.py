"""Transactions on the local EVM chain: signed, sent, and waited for."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from eth_account.signers.local import LocalAccount
from eth_utils.address import to_checksum_address

from devnet.evm_node import JsonRpc, NotMined

GAS_PRICE = 2 * 10**9
"""Wei, fixed so that the same actions give the same transaction hashes."""


@dataclass(frozen=True)
class Log:
    """A log: 32-byte topics, and its index in the block."""

    address: str
    topics: tuple[bytes, ...]
    data: bytes
    index: int


@dataclass(frozen=True)
class Receipt:
    """A transaction in a block."""

    transaction_hash: str
    block_number: int
    block_hash: str
    succeeded: bool
    logs: tuple[Log, ...]

    @classmethod
    def from_rpc(cls, receipt: dict[str, Any]) -> Receipt:
        """Parses the answer of eth_getTransactionReceipt."""
        return cls(
            transaction_hash=receipt["transactionHash"],
            block_number=int(receipt["blockNumber"], 16),
            block_hash=receipt["blockHash"],
            succeeded=receipt["status"] == "0x1",
            logs=tuple(_log(each) for each in receipt["logs"]),
        )


def _log(log: dict[str, Any]) -> Log:
    return Log(
        address=log["address"].lower(),
        topics=tuple(bytes.fromhex(topic[2:]) for topic in log["topics"]),
        data=bytes.fromhex(log["data"][2:]),
        index=int(log["logIndex"], 16),
    )


def signed(
    rpc: JsonRpc,
    account: LocalAccount,
    to: str | None,
    data: bytes,
    *,
    value: int,
    gas: int,
    nonce: int,
) -> str:
    """A transaction of type 2 in hex, ready to be sent; `to` is None for a contract creation."""
    transaction: dict[str, Any] = {
        "type": 2,
        "chainId": rpc.chain_id,
        "nonce": nonce,
        "value": value,
        "data": data,
        "gas": gas,
        "maxFeePerGas": GAS_PRICE,
        "maxPriorityFeePerGas": GAS_PRICE // 2,
    }
    if to is not None:
        transaction["to"] = to_checksum_address(to)
    return in_hex(bytes(account.sign_transaction(transaction).raw_transaction))


def submit(
    rpc: JsonRpc,
    account: LocalAccount,
    to: str | None,
    data: bytes,
    *,
    value: int = 0,
    gas: int | None = None,
) -> str:
    """Send a transaction and return its hash; `EvmDevnet.submit` says what `gas` does."""
    if gas is None:
        request = {"from": account.address, "to": to, "data": in_hex(data), "value": hex(value)}
        # A quarter more: the estimate is exact, and the state may move before the block.
        gas = int(rpc("eth_estimateGas", request, "pending"), 16) * 5 // 4
    nonce = int(rpc("eth_getTransactionCount", account.address, "pending"), 16)
    raw = signed(rpc, account, to, data, value=value, gas=gas, nonce=nonce)
    transaction_hash: str = rpc("eth_sendRawTransaction", raw)
    return transaction_hash


def wait(rpc: JsonRpc, transaction_hash: str, timeout: float) -> Receipt:
    """The receipt, polled for. Raises NotMined after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        receipt = rpc("eth_getTransactionReceipt", transaction_hash)
        if receipt is not None:
            return Receipt.from_rpc(receipt)
        time.sleep(0.02)
    raise NotMined(f"{transaction_hash} has no receipt after {timeout} s")


def in_hex(data: bytes) -> str:
    """`0x` and two digits a byte."""
    return "0x" + data.hex()
