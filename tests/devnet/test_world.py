"""Both chains of the devnet, bridged to each other and described in the network file."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from devnet.bridges import Bridges, Burned
from devnet.evm import DOMAIN, EID, dev_account, expected_addresses
from devnet.evm_node import CHAIN_ID, Reverted
from devnet.stellar.accounts import PASSPHRASE, USDC, USDT0, address, keypair
from devnet.stellar.client import Refused
from devnet.stellar.registry import LOCAL_DOMAIN, LOCAL_EID, devnet_contracts
from devnet.supervisor import Supervisor
from devnet.world import EVM_PORT, STELLAR_PORT, Pace, World, start_world
from indexer.addresses import evm_address
from indexer.config.networks import load_network

UNIT = 10**6
STROOPS = 10**7
HOLDER, PAYEE, RELAYER = dev_account(1), dev_account(2), dev_account(3)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with (
        Supervisor(tmp_path_factory.mktemp("world"), print) as supervisor,
        start_world(supervisor, evm_port=0, stellar_port=0, pace=Pace()) as world,
    ):
        world.evm.faucet_usdc(HOLDER.address, 1_000 * UNIT)
        world.evm.faucet_usdt0(HOLDER.address, 1_000 * UNIT)
        world.stellar.open_account("alice", usdc=100 * STROOPS, usdt0=100 * STROOPS)
        yield world


@pytest.fixture
def bridges(world: World) -> Bridges:
    return Bridges(world.evm, world.stellar)


def test_usdc_moves_from_evm_to_stellar(world: World, bridges: Bridges) -> None:
    before = world.stellar.balance(address("alice"), USDC)
    burned = bridges.burn_on_evm(HOLDER, address("alice"), 12_345_678)
    minted = bridges.mint_on_stellar(burned)
    assert minted.amount_out == 123_456_780
    assert world.stellar.balance(address("alice"), USDC) - before == 123_456_780


def test_fast_transfer_pays_its_fee_to_the_fee_recipient(world: World, bridges: Bridges) -> None:
    alice, fees = address("alice"), address("cctp fee recipient")
    before = [world.stellar.balance(each, USDC) for each in (alice, fees)]
    burned = bridges.burn_on_evm(HOLDER, alice, 10 * UNIT, max_fee=1_300)
    bridges.mint_on_stellar(burned, fee=1_300)
    after = [world.stellar.balance(each, USDC) for each in (alice, fees)]
    assert after == [before[0] + 10 * STROOPS - 13_000, before[1] + 13_000]


def test_usdc_moves_from_stellar_to_evm(world: World, bridges: Bridges) -> None:
    alice = keypair("alice")
    stellar_before = world.stellar.balance(alice.public_key, USDC)
    evm_before = world.evm.balance_of(world.evm.addresses.usdc, PAYEE.address)
    burned = bridges.burn_on_stellar(alice, PAYEE.address, 12_345_670)
    minted = bridges.mint_on_evm(burned, RELAYER)
    assert minted.amount_out == 1_234_567
    assert stellar_before - world.stellar.balance(alice.public_key, USDC) == 12_345_670
    assert world.evm.balance_of(world.evm.addresses.usdc, PAYEE.address) - evm_before == 1_234_567


def test_usdt0_moves_both_ways(world: World, bridges: Bridges) -> None:
    alice = keypair("alice")
    stellar_before = world.stellar.balance(alice.public_key, USDT0)
    evm_before = world.evm.balance_of(world.evm.addresses.usdt0, PAYEE.address)
    sent = bridges.send_from_evm(HOLDER, alice.public_key, 7 * UNIT)
    bridges.verify_on_stellar(sent)
    bridges.deliver_on_stellar(sent, alice.public_key)
    assert world.stellar.balance(alice.public_key, USDT0) - stellar_before == 7 * STROOPS
    bridges.deliver_on_evm(bridges.send_from_stellar(alice, PAYEE.address, 3 * STROOPS))
    assert world.stellar.balance(alice.public_key, USDT0) - stellar_before == 4 * STROOPS
    assert world.evm.balance_of(world.evm.addresses.usdt0, PAYEE.address) - evm_before == 3 * UNIT


def test_burn_is_minted_once_on_either_chain(world: World, bridges: Bridges) -> None:
    inward = bridges.burn_on_evm(HOLDER, address("alice"), UNIT)
    bridges.mint_on_stellar(inward)
    with pytest.raises(Refused):
        bridges.mint_on_stellar(inward)
    outward = bridges.burn_on_stellar(keypair("alice"), PAYEE.address, STROOPS)
    bridges.mint_on_evm(outward, RELAYER)
    with pytest.raises(Reverted):
        bridges.mint_on_evm(outward, RELAYER)


STRANGER = bytes(31) + b"\x01"


def from_a_stranger(burned: Burned) -> Burned:
    """The burn's message with another sender (bytes 44 to 75 of a CCTP V2 message)."""
    message = burned.message
    return replace(burned, message=message[:44] + STRANGER + message[76:])


def test_message_of_unknown_sender_is_not_minted(world: World, bridges: Bridges) -> None:
    inward = bridges.burn_on_evm(HOLDER, address("alice"), UNIT)
    with pytest.raises(Refused):
        bridges.mint_on_stellar(from_a_stranger(inward))
    outward = bridges.burn_on_stellar(keypair("alice"), PAYEE.address, STROOPS)
    with pytest.raises(Reverted):
        bridges.mint_on_evm(from_a_stranger(outward), RELAYER)


def test_network_file_names_the_deployed_contracts() -> None:
    network = load_network("devnet")
    [evm], stellar = network.evm, network.stellar
    there, here = expected_addresses(), devnet_contracts()
    assert (
        evm.usdc,
        evm.cctp_token_messenger,
        evm.cctp_message_transmitter,
        evm.usdt0,
        evm.oft,
        evm.lz_endpoint,
    ) == (
        there.usdc,
        there.token_messenger,
        there.message_transmitter,
        there.usdt0,
        there.oft,
        there.endpoint,
    )
    assert (
        stellar.usdc_contract,
        stellar.usdt0_contract,
        stellar.cctp_token_messenger,
        stellar.cctp_message_transmitter,
        stellar.cctp_forwarder,
        stellar.oft,
        stellar.lz_endpoint,
        stellar.escrow,
        stellar.rail_terms,
    ) == (
        here.usdc_sac,
        here.usdt0_sac,
        here.token_messenger_minter,
        here.message_transmitter,
        here.cctp_forwarder,
        here.oft,
        here.endpoint,
        here.escrow,
        here.rail_terms,
    )


def test_network_file_describes_both_chains() -> None:
    network = load_network("devnet")
    [evm], stellar = network.evm, network.stellar
    assert (evm.id, evm.number, evm.cctp_domain, evm.lz_eid) == (
        f"eip155:{CHAIN_ID}",
        CHAIN_ID,
        DOMAIN,
        EID,
    )
    assert evm.rpc == (f"http://127.0.0.1:{EVM_PORT}", f"ws://127.0.0.1:{EVM_PORT}")
    assert (stellar.id, stellar.passphrase) == ("stellar:devnet", PASSPHRASE)
    assert (stellar.cctp_domain, stellar.lz_eid) == (LOCAL_DOMAIN, LOCAL_EID)
    assert stellar.rpc == (f"http://127.0.0.1:{STELLAR_PORT}",)
    assert stellar.usdc == f"stellar:USDC:{USDC.issuer}"
    assert stellar.usdt0 == f"stellar:USDT0:{USDT0.issuer}"


def test_demo_accounts_are_watched() -> None:
    network = load_network("devnet")
    assert network.stellar.watched == (address("alice"), address("bob"))
    people = (HOLDER, PAYEE)
    assert network.evm[0].watched == tuple(evm_address(each.address) for each in people)
