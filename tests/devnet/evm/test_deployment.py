"""Deployment of the contracts to the local EVM chain, and the process of its node."""

from pathlib import Path

import pytest

from devnet.evm import EvmDevnet, create_address, deployer, expected_addresses
from devnet.evm_deployment import StellarRemotes, deploy, deployment_plan
from devnet.evm_node import AnvilFailed, AnvilProcess, JsonRpc, WrongDeployment
from tests.devnet.evm.stand import ALICE, REMOTES


def test_contract_addresses_follow_from_the_deployer():
    assert expected_addresses().usdc == "0x5fbdb2315678afecb367f032d93f642f64180aa3"
    assert expected_addresses().oft == create_address(deployer().address, 6)
    with pytest.raises(ValueError, match="0 to 127"):
        create_address(deployer().address, 128)


def test_contracts_are_deployed_at_expected_addresses(network: EvmDevnet):
    at = expected_addresses()
    assert network.addresses == at
    assert network.call(at.message_transmitter, "localDomain()", returns="(uint32)") == (0,)
    assert network.call(at.endpoint, "eid()", returns="(uint32)") == (30101,)
    assert network.call(at.oft, "token()", returns="(address)") == (at.usdt0,)
    assert network.call(at.token_messenger, "minFee()", returns="(uint256)") == (0,)
    assert network.call(at.usdc, "decimals()", returns="(uint8)") == (6,)


def test_second_deployment_only_attaches(network: EvmDevnet):
    height = network.block_number()
    with deploy(network.rpc.url, REMOTES) as again:
        assert again.addresses == network.addresses
    assert network.block_number() == height


def test_deployment_with_other_remotes_is_refused(network: EvmDevnet):
    other = StellarRemotes(REMOTES.token_messenger_minter, REMOTES.usdc_sac, oft=bytes(31) + b"\1")
    with pytest.raises(WrongDeployment, match="other remotes"):
        deploy(network.rpc.url, other)


def test_interrupted_deployment_is_resumed(tmp_path: Path):
    with AnvilProcess(log_file=tmp_path / "anvil.log") as anvil:
        complete = deployment_plan(REMOTES)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("devnet.evm_deployment.deployment_plan", lambda _: complete[:5])
            with pytest.raises(WrongDeployment, match="no code at usdt0"):
                deploy(anvil.rpc_url, REMOTES)
        with deploy(anvil.rpc_url, REMOTES) as devnet:
            assert devnet.block_number() == len(complete)


def test_other_transaction_of_the_deployer_is_detected(tmp_path: Path):
    with AnvilProcess(log_file=tmp_path / "anvil.log") as anvil:
        transfer = {"from": deployer().address, "to": ALICE.address, "value": "0x1"}
        with JsonRpc(anvil.rpc_url) as rpc:
            rpc("eth_sendTransaction", transfer)
        with pytest.raises(WrongDeployment, match="no code at usdc"):
            deploy(anvil.rpc_url, REMOTES)


# The process


def test_chain_survives_a_node_restart(tmp_path: Path):
    anvil = AnvilProcess(log_file=tmp_path / "anvil.log", state_file=tmp_path / "chain.json")
    with anvil, deploy(anvil.rpc_url, REMOTES) as devnet:
        devnet.faucet_usdc(ALICE.address, 9)
        height, head = devnet.block_number(), devnet.block_hash(devnet.block_number())
    with anvil, deploy(anvil.rpc_url, REMOTES) as devnet:
        assert devnet.block_number() == height
        assert devnet.block_hash(height) == head
        assert devnet.balance_of(devnet.addresses.usdc, ALICE.address) == 9
        filters = {"fromBlock": hex(height), "toBlock": hex(height)}
        assert len(devnet.rpc("eth_getLogs", filters)) == 2


def test_node_with_block_interval_takes_the_deployment(tmp_path: Path):
    log_file = tmp_path / "anvil.log"
    with (
        AnvilProcess(log_file=log_file, block_time=0.25, chain_id=1337) as anvil,
        deploy(anvil.rpc_url, REMOTES) as devnet,
    ):
        assert devnet.rpc.chain_id == 1337
        assert devnet.faucet_usdc(ALICE.address, 9).succeeded


def test_taken_port_is_an_error(tmp_path: Path):
    with AnvilProcess(log_file=tmp_path / "first.log") as first:
        second = AnvilProcess(log_file=tmp_path / "second.log", port=first.port)
        with pytest.raises(AnvilFailed, match="ended with"):
            second.start()
        second.stop()
