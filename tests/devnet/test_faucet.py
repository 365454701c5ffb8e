"""Test money for an address of the local chains."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator

import pytest
from eth_account import Account
from stellar_sdk import Keypair

from devnet.stellar.accounts import USDC, USDT0
from devnet.supervisor import Supervisor
from devnet.world import Pace, World, start_world
from indexer.cli.main import main
from indexer.config.networks import load_network


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with (
        Supervisor(tmp_path_factory.mktemp("faucet"), print) as supervisor,
        start_world(supervisor, evm_port=0, stellar_port=0, pace=Pace()) as world,
    ):
        yield world


def pay(world: World, *arguments: str) -> int:
    return main(["faucet", *arguments, "--evm", world.evm_url, "--stellar", world.stellar_url])


def held_on_evm(world: World, address: str) -> list[int]:
    tokens = (world.evm.addresses.usdc, world.evm.addresses.usdt0)
    ether = int(world.evm.rpc("eth_getBalance", address, "latest"), 16)
    return [ether, *(world.evm.balance_of(token, address) for token in tokens)]


def send(world: World, address: str) -> str:
    """Hash of a transaction that the node sends for the address."""
    return str(world.evm.rpc("eth_sendTransaction", {"from": address, "to": address}))


def held_on_stellar(world: World, address: str) -> list[int]:
    return [world.stellar.balance(address, asset) for asset in (USDC, USDT0)]


def test_evm_address_gets_ether_and_both_tokens(world: World) -> None:
    address = Account.create().address
    assert pay(world, address, "--amount", "7") == 0
    assert held_on_evm(world, address) == [10**18, 7_000_000, 7_000_000]


def test_stellar_address_gets_account_then_trusted_assets(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    key = Keypair.random()
    assert pay(world, key.public_key) == 0
    assert f"no trustline for USDC:{USDC.issuer}" in capsys.readouterr().out
    world.stellar.trust(key, USDC)
    assert pay(world, key.public_key, "--amount", "5") == 0
    assert held_on_stellar(world, key.public_key) == [50_000_000, 0]
    assert f"no trustline for USDT0:{USDT0.issuer}" in capsys.readouterr().out


def test_new_keys_hold_both_tokens_on_both_chains(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pay(world, "--new") == 0
    printed = shlex.split(capsys.readouterr().out, comments=True)
    keys = dict(each.split("=") for each in printed if each != "export")
    payer = Account.from_key(keys["EVM_KEY"])
    owner = Keypair.from_secret(keys["STELLAR_KEY"])
    assert (payer.address, owner.public_key) == (keys["EVM_ADDRESS"], keys["STELLAR_ADDRESS"])
    assert int(send(world, payer.address), 16) != 0
    assert held_on_evm(world, payer.address)[1:] == [100_000_000, 100_000_000]
    assert held_on_stellar(world, owner.public_key) == [1_000_000_000, 1_000_000_000]


@pytest.mark.parametrize(
    ("address", "message"),
    [
        pytest.param("0x12", "0x12 is no EVM address", id="short"),
        pytest.param("someone", "neither an EVM address", id="neither"),
    ],
)
def test_invalid_address_is_named(
    world: World, capsys: pytest.CaptureFixture[str], address: str, message: str
) -> None:
    assert pay(world, address) == 1
    assert message in capsys.readouterr().err


def test_faucet_without_running_demo_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = "http://127.0.0.1:1"
    assert main(["faucet", "--new", "--evm", nowhere, "--stellar", nowhere]) == 1
    assert "start `make demo` first" in capsys.readouterr().err


def test_wallet_passphrase_stand_in_has_the_same_contracts() -> None:
    """As child processes of a demo see it, which has the variable set."""
    code = (
        "from devnet.stellar.accounts import PASSPHRASE\n"
        "from devnet.stellar.registry import devnet_contracts\n"
        "at = devnet_contracts()\n"
        "print(PASSPHRASE, at.escrow, at.cctp_forwarder, at.usdc_sac, sep='|')"
    )
    environment = {**os.environ, "ISTHMUS_DEVNET_PASSPHRASE": "testnet"}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    passphrase = load_network("testnet").stellar.passphrase
    expected = load_network("devnet", passphrase=passphrase).stellar
    assert result.stdout.strip().split("|") == [
        *(passphrase, expected.escrow, expected.cctp_forwarder, expected.usdc_contract),
    ]
