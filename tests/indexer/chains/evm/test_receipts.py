"""Receipt roots, header hashes and blooms against a real node, and against the empty trie."""

from collections.abc import Iterator
from typing import Any

import pytest
import rlp
from hypothesis import given
from hypothesis import strategies as st

from devnet.evm_node import AnvilProcess
from indexer.chains.evm.blooms import bloom_of, may_hold
from indexer.chains.evm.jsonrpc import JsonRpc
from indexer.chains.evm.receipts import (
    UnknownReceiptType,
    encoded_receipt,
    header_hash,
    receipts_root,
    rlp_encode,
)

EMPTY_TRIE = "0x56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421"
"""keccak256 of the RLP of nothing (Yellow Paper, appendix D)."""
EMITTER_CODE = "0x606036036060600037604035602035600035606036036000a300"
"""LOG3 of calldata words 0 to 2, the rest as data."""
REVERTER_CODE = "0x60006000fd"
EMITTER, REVERTER = "0x" + "11" * 20, "0x" + "22" * 20


class Blocks:
    """A real node, and one block with the given transactions in it."""

    def __init__(self, rpc: JsonRpc) -> None:
        self.rpc = rpc
        self.accounts = self.ask("eth_accounts")
        self.ask("anvil_setCode", EMITTER, EMITTER_CODE)
        self.ask("anvil_setCode", REVERTER, REVERTER_CODE)
        self.ask("evm_setAutomine", False)

    def ask(self, method: str, *params: Any) -> Any:
        return self.rpc.call(method, list(params))

    def mined(self, *calls: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Header and receipts."""
        for number, call in enumerate(calls):
            sender = self.accounts[number % 5]
            self.ask("eth_sendTransaction", {"from": sender, "gas": hex(200_000), **call})
        self.ask("evm_mine")
        header = self.ask("eth_getBlockByNumber", "latest", False)
        receipts = self.ask("eth_getBlockReceipts", "latest")
        assert len(receipts) == len(calls)
        return header, receipts


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Blocks]:
    with AnvilProcess(tmp_path_factory.mktemp("anvil") / "anvil.log") as process:
        rpc = JsonRpc(process.rpc_url, timeout=10.0)
        yield Blocks(rpc)
        rpc.close()


def emission(size: int = 32) -> dict[str, Any]:
    """A call that emits one log with so many bytes of data."""
    topics = "".join(f"{number:064x}" for number in (1, 2, 3))
    return {"to": EMITTER, "data": "0x" + topics + "ab" * size}


LEGACY = {"gasPrice": hex(3 * 10**9)}
ACCESS_LIST = {"gasPrice": hex(3 * 10**9), "accessList": [{"address": EMITTER, "storageKeys": []}]}
DYNAMIC_FEE = {"maxFeePerGas": hex(3 * 10**9), "maxPriorityFeePerGas": "0x1"}


@pytest.mark.parametrize("count", [0, 1, 2, 16, 17, 129, 200])
def test_receipts_root_equals_the_header_for_any_count(blocks: Blocks, count: int) -> None:
    # Beyond 127 the keys of the trie get longer than a byte.
    header, receipts = blocks.mined(*(emission(number) for number in range(count)))
    assert receipts_root(receipts) == header["receiptsRoot"]


def test_receipts_of_every_type_and_status_give_the_root(blocks: Blocks) -> None:
    calls = [emission() | kind for kind in (LEGACY, ACCESS_LIST, DYNAMIC_FEE)]
    failing = [{"to": REVERTER} | kind for kind in (LEGACY, ACCESS_LIST, DYNAMIC_FEE)]
    header, receipts = blocks.mined(*calls, *failing, {"to": blocks.accounts[0], "value": "0x1"})
    assert {receipt["type"] for receipt in receipts} == {"0x0", "0x1", "0x2"}
    assert {receipt["status"] for receipt in receipts} == {"0x0", "0x1"}
    assert receipts_root(receipts) == header["receiptsRoot"]


@pytest.mark.parametrize(
    "forge",
    [
        lambda receipts: receipts[:-1],
        lambda receipts: receipts[::-1],
        lambda receipts: [{**receipts[0], "status": "0x0"}, *receipts[1:]],
        lambda receipts: [{**receipts[0], "cumulativeGasUsed": "0x1"}, *receipts[1:]],
        lambda receipts: [{**receipts[0], "logs": []}, *receipts[1:]],
        lambda receipts: [{**receipts[0], "type": "0x0"}, *receipts[1:]],
        lambda receipts: [
            {**receipts[0], "logs": [{**receipts[0]["logs"][0], "data": "0x00"}]},
            *receipts[1:],
        ],
    ],
    ids=["cut", "turned", "status", "gas", "no logs", "type", "data"],
)
def test_changed_receipts_give_another_root(blocks: Blocks, forge) -> None:
    header, receipts = blocks.mined(emission(), emission(), emission(7))
    assert receipts_root(receipts) == header["receiptsRoot"]
    assert receipts_root(forge(receipts)) != header["receiptsRoot"]


def test_no_receipts_give_the_root_of_the_empty_trie() -> None:
    assert receipts_root([]) == EMPTY_TRIE


def plain_receipt(**fields: Any) -> dict[str, Any]:
    bloom = "0x" + "00" * 256
    return {
        "status": "0x1",
        "cumulativeGasUsed": "0x5208",
        "logsBloom": bloom,
        "logs": [],
        **fields,
    }


def test_typed_receipt_is_type_byte_and_untyped_encoding() -> None:
    legacy = encoded_receipt(plain_receipt())
    for kind in (1, 2, 3, 4):
        assert encoded_receipt(plain_receipt(type=hex(kind))) == bytes([kind]) + legacy


def test_pre_byzantium_receipt_has_a_state_root() -> None:
    root = "0x" + "5a" * 32
    old = {name: each for name, each in plain_receipt(root=root).items() if name != "status"}
    assert bytes.fromhex(root[2:]) in encoded_receipt(old)


def test_op_stack_deposit_receipt_has_nonce_since_canyon() -> None:
    before = encoded_receipt(plain_receipt(type="0x7e"))
    since = encoded_receipt(
        plain_receipt(type="0x7e", depositNonce="0x77359", depositReceiptVersion="0x1")
    )
    assert before == b"\x7e" + encoded_receipt(plain_receipt())
    # Two more items at the end of the list: 0x077359 and 1.
    assert since.endswith(bytes.fromhex("8307735901"))
    assert len(since) == len(before) + 5


@pytest.mark.parametrize("kind", ["0x64", "0x65", "0x66", "0x68", "0x69", "0x6a"])
def test_arbitrum_receipt_is_encoded_as_typed(kind: str) -> None:
    plain = encoded_receipt(plain_receipt())
    assert encoded_receipt(plain_receipt(type=kind)) == bytes([int(kind, 16)]) + plain


@pytest.mark.parametrize("kind", ["0x5", "0x67", "0x78", "0x7f"])
def test_receipt_of_unknown_type_is_refused(kind: str) -> None:
    with pytest.raises(UnknownReceiptType):
        receipts_root([plain_receipt(type=kind)])


def test_header_hash_changes_with_any_field(blocks: Blocks) -> None:
    header, _ = blocks.mined(emission())
    assert header_hash(header) == header["hash"]
    genesis = blocks.ask("eth_getBlockByNumber", "0x0", False)
    assert header_hash(genesis) == genesis["hash"]
    for name in ("receiptsRoot", "logsBloom", "stateRoot", "timestamp", "parentHash"):
        last = header[name][-1]
        changed = header[name][:-1] + ("0" if last != "0" else "1")
        assert header_hash({**header, name: changed}) != header["hash"]


def test_bloom_of_block_logs_equals_the_header(blocks: Blocks) -> None:
    header, receipts = blocks.mined(emission(), emission(3))
    items = [
        item
        for receipt in receipts
        for log in receipt["logs"]
        for item in (log["address"], *log["topics"])
    ]
    bloom = int(header["logsBloom"], 16)
    assert bloom_of(items) == bloom
    assert all(may_hold(bloom, item) for item in items)
    assert not may_hold(bloom, REVERTER)


rlp_items = st.recursive(
    st.binary(max_size=70) | st.integers(min_value=0, max_value=2**256),
    lambda items: st.lists(items, max_size=20),
)


@given(rlp_items)
def test_rlp_is_that_of_the_library(item: Any) -> None:
    assert rlp_encode(item) == rlp.encode(item)


@pytest.mark.parametrize("size", [0, 1, 55, 56, 255, 256, 70_000])
def test_rlp_of_long_bytes_and_lists_is_that_of_the_library(size: int) -> None:
    for item in (b"\x7f" * size, [b"\x80"] * size, b"\x80" * size):
        assert rlp_encode(item) == rlp.encode(item)
