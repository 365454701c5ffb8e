"""Tokens and blocks of the local EVM chain."""

from pathlib import Path

import pytest

from devnet.evm import EvmDevnet
from devnet.evm_deployment import deploy
from devnet.evm_node import AnvilProcess, Reverted, encode_call
from tests.devnet.evm.stand import ALICE, BOB, REMOTES, names


def test_plain_transfer_moves_usdc(devnet: EvmDevnet):
    receipt = devnet.transfer(ALICE, devnet.addresses.usdc, BOB.address, 5)
    assert names(receipt) == ["Transfer"]
    assert devnet.balance_of(devnet.addresses.usdc, BOB.address) == 5
    with pytest.raises(Reverted) as refused:
        devnet.transfer(BOB, devnet.addresses.usdc, ALICE.address, 6)
    assert refused.value.name == "ERC20: transfer amount exceeds balance"


def test_only_minters_mint(devnet: EvmDevnet):
    mint = encode_call("mint(address,uint256)", ALICE.address, 1)
    for token in (devnet.addresses.usdc, devnet.addresses.usdt0):
        with pytest.raises(Reverted, match="caller is not a minter"):
            devnet.send(ALICE, token, mint)


def test_failing_transaction_can_be_mined(devnet: EvmDevnet):
    call = encode_call("transfer(address,uint256)", ALICE.address, 1)
    receipt = devnet.send(BOB, devnet.addresses.usdc, call, gas=100_000)
    assert not receipt.succeeded
    assert receipt.logs == ()


def test_transactions_share_a_block_without_automine(devnet: EvmDevnet):
    devnet.set_automine(False)
    transfer = encode_call("transfer(address,uint256)", BOB.address, 1)
    hashes = [devnet.submit(ALICE, devnet.addresses.usdc, transfer) for _ in range(3)]
    devnet.mine()
    receipts = [devnet.wait(each) for each in hashes]
    devnet.set_automine(True)
    assert len({receipt.block_hash for receipt in receipts}) == 1
    assert [receipt.logs[0].index for receipt in receipts] == [0, 1, 2]


def test_next_block_time_can_be_set(devnet: EvmDevnet):
    later = int(devnet.rpc("eth_getBlockByNumber", "latest", False)["timestamp"], 16) + 1000
    devnet.set_next_block_timestamp(later)
    devnet.mine()
    block = devnet.rpc("eth_getBlockByNumber", "latest", False)
    assert int(block["timestamp"], 16) == later


def test_reorg_replaces_blocks_and_drops_their_transactions(tmp_path: Path):
    with (
        AnvilProcess(log_file=tmp_path / "anvil.log") as anvil,
        deploy(anvil.rpc_url, REMOTES) as devnet,
    ):
        usdc = devnet.addresses.usdc
        kept = devnet.faucet_usdc(ALICE.address, 1)
        dropped = devnet.faucet_usdc(ALICE.address, 2)
        again = devnet.transfer(ALICE, usdc, BOB.address, 1)
        devnet.mine(2)
        head = devnet.block_number()
        before = [devnet.block_hash(n) for n in range(kept.block_number, head + 1)]

        fork = devnet.reorg(4, remine=[again.transaction_hash])

        after = [devnet.block_hash(n) for n in range(kept.block_number, head + 1)]
        assert fork == kept.block_number
        assert devnet.block_number() == head
        assert before[0] == after[0]
        assert not set(before[1:]) & set(after[1:])
        assert devnet.rpc("eth_getTransactionReceipt", dropped.transaction_hash) is None
        remined = devnet.wait(again.transaction_hash)
        assert (remined.block_number, remined.block_hash) == (head, after[-1])
        assert devnet.balance_of(usdc, ALICE.address) == 0
        assert devnet.balance_of(usdc, BOB.address) == 1


def test_second_reorg_of_same_depth_changes_blocks_again(devnet: EvmDevnet):
    devnet.mine(3)
    head = devnet.block_number()
    seen = [devnet.block_hash(head)]
    for _ in range(2):
        devnet.reorg(2)
        seen.append(devnet.block_hash(head))
    assert len(set(seen)) == 3
