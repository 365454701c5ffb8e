"""Puts the contracts of the development network on a fresh EVM chain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from eth_abi.abi import encode

from devnet.evm import (
    DOMAIN,
    EID,
    NATIVE_FEE,
    STELLAR_DOMAIN,
    STELLAR_EID,
    EvmAddresses,
    EvmDevnet,
    deployer,
    expected_addresses,
    fee_recipient,
    packet_verifier,
)
from devnet.evm_messages import ZERO_WORD, Attesters, address_word
from devnet.evm_node import DEPOSIT_ARTIFACTS, JsonRpc, WrongDeployment, artifact, encode_call
from devnet.evm_sending import signed, wait
from indexer.bridges.deposit_address.factory import DETERMINISTIC_DEPLOYER

MAX_UINT256 = 2**256 - 1

BURN_LIMIT = 10_000_000 * 10**6
"""USDC base units of one CCTP burn, the limit that Circle documents."""
ENFORCED_OPTIONS = bytes.fromhex("0003010011010000000000000000000000000007a120")
"""Type 3, one lzReceive option of 500,000 gas: what the Ethereum USDT0 adapter enforces."""


@dataclass(frozen=True)
class StellarRemotes:
    """Raw contract ids (32 bytes) of the Stellar side."""

    token_messenger_minter: bytes
    usdc_sac: bytes
    oft: bytes


@dataclass(frozen=True)
class PlannedTransaction:
    """A step of the deployment; `to` is None for a contract creation."""

    to: str | None
    data: bytes


def deployment_plan(remotes: StellarRemotes) -> tuple[PlannedTransaction, ...]:
    """The deployer's first transactions: the one at position i has nonce i."""
    at = expected_addresses()
    return (*_creations(at), *_settings(at, remotes), _deposit_factory())


def _creations(at: EvmAddresses) -> Iterator[PlannedTransaction]:
    yield _create("Usdc")
    yield _create(
        "MessageTransmitter", ["uint32", "address[]", "uint256"], DOMAIN, Attesters().addresses, 2
    )
    yield _create(
        "TokenMessenger", ["address", "address"], at.message_transmitter, fee_recipient().address
    )
    yield _create("TokenMinter", ["address"], at.token_messenger)
    yield _create(
        "OftEndpoint", ["uint32", "address", "uint256"], EID, packet_verifier().address, NATIVE_FEE
    )
    yield _create("Usdt0")
    yield _create("Oft", ["address", "address"], at.usdt0, at.endpoint)


def _create(name: str, types: Sequence[str] = (), *arguments: Any) -> PlannedTransaction:
    return PlannedTransaction(None, artifact(name).bytecode + encode(types, arguments))


def _settings(at: EvmAddresses, remotes: StellarRemotes) -> Iterator[PlannedTransaction]:
    owner = deployer().address
    options = [(STELLAR_EID, 1, ENFORCED_OPTIONS)]
    configure_minter = "configureMinter(address,uint256)"
    yield _set(at.usdc, configure_minter, at.token_minter, MAX_UINT256)
    yield _set(at.usdc, configure_minter, owner, MAX_UINT256)
    yield _set(at.token_minter, "setMaxBurnAmountPerMessage(address,uint256)", at.usdc, BURN_LIMIT)
    yield _set(
        at.token_minter,
        "linkTokenPair(address,uint32,bytes32)",
        at.usdc,
        STELLAR_DOMAIN,
        remotes.usdc_sac,
    )
    yield _set(at.token_messenger, "addLocalMinter(address)", at.token_minter)
    yield _set(
        at.token_messenger,
        "addRemoteTokenMessenger(uint32,bytes32)",
        STELLAR_DOMAIN,
        remotes.token_messenger_minter,
    )
    yield _set(at.usdt0, "setMinter(address,bool)", at.oft, True)
    yield _set(at.usdt0, "setMinter(address,bool)", owner, True)
    yield _set(at.oft, "setEnforcedOptions((uint32,uint16,bytes)[])", options)
    yield _set(at.oft, "setPeer(uint32,bytes32)", STELLAR_EID, remotes.oft)


def _deposit_factory() -> PlannedTransaction:
    """Salt of zeros, then the creation code; the factory takes no arguments."""
    creation_code = artifact("DepositFactory", DEPOSIT_ARTIFACTS).bytecode
    return PlannedTransaction(DETERMINISTIC_DEPLOYER, ZERO_WORD + creation_code)


def _set(to: str, signature: str, *arguments: Any) -> PlannedTransaction:
    return PlannedTransaction(to, encode_call(signature, *arguments))


def deploy(rpc_url: str, remotes: StellarRemotes) -> EvmDevnet:
    """Deploys what is missing and returns the network.

    The deployer's nonce says how far an earlier call came, so that a second call only attaches and
    an interrupted one is taken up again. Raises WrongDeployment when the chain holds something
    else: another use of the deployer's account, or other remotes.
    """
    rpc = JsonRpc(rpc_url)
    try:
        _send_missing(rpc, deployment_plan(remotes))
        devnet = EvmDevnet(rpc, expected_addresses())
        _require_deployment(devnet, remotes)
    except BaseException:
        rpc.close()
        raise
    return devnet


def _send_missing(rpc: JsonRpc, plan: Sequence[PlannedTransaction]) -> None:
    done = int(rpc("eth_getTransactionCount", deployer().address, "latest"), 16)
    # All at once: a node that mines on a beat takes them into one or two blocks.
    hashes = [
        rpc("eth_sendRawTransaction", _signed_step(rpc, step, nonce))
        for nonce, step in enumerate(plan)
        if nonce >= done
    ]
    for nonce, transaction_hash in enumerate(hashes, start=done):
        if not wait(rpc, transaction_hash, timeout=60.0).succeeded:
            raise WrongDeployment(f"step {nonce} of the deployment failed: {transaction_hash}")


def _signed_step(rpc: JsonRpc, step: PlannedTransaction, nonce: int) -> str:
    gas = 4_000_000 if step.to in (None, DETERMINISTIC_DEPLOYER) else 400_000
    return signed(rpc, deployer(), step.to, step.data, value=0, gas=gas, nonce=nonce)


def _require_deployment(devnet: EvmDevnet, remotes: StellarRemotes) -> None:
    at = devnet.addresses
    for each in fields(EvmAddresses):
        if devnet.rpc("eth_getCode", getattr(at, each.name), "latest") == "0x":
            raise WrongDeployment(f"no code at {each.name}: the deployer's account was used before")
    for to, signature, arguments, expected in (
        (
            at.token_messenger,
            "remoteTokenMessengers(uint32)",
            (STELLAR_DOMAIN,),
            remotes.token_messenger_minter,
        ),
        (
            at.token_minter,
            "getLocalToken(uint32,bytes32)",
            (STELLAR_DOMAIN, remotes.usdc_sac),
            address_word(at.usdc),
        ),
        (at.oft, "peers(uint32)", (STELLAR_EID,), remotes.oft),
    ):
        # An address is a word like the others when it is read as one.
        [actual] = devnet.call(to, signature, *arguments, returns="(bytes32)")
        if actual != expected:
            raise WrongDeployment(
                f"deployed with other remotes: {signature} is 0x{actual.hex()},"
                f" not 0x{expected.hex()}"
            )
