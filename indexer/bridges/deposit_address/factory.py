"""Deposit addresses: from them money can go to its owner on Stellar or back, nowhere else.

Addresses are computed from public data, without a node. The calls that move a deposit are encoded
here too, because they contain the terms that the address is the hash of. Contracts: `contracts/`;
their design: docs/deposit-addresses.md.

Amounts, also minima, are base units of the token on the EVM chain (6 decimals).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from indexer.addresses import account_as_bytes32, contract_as_bytes32, stellar_account
from indexer.config.networks import EvmChain, Network
from indexer.config.routes import BRIDGE_STEP, Bridge
from indexer.errors import ConfigurationError
from warehouse_schema.identifiers import (
    BaseUnits,
    Bytes32,
    ChainId,
    EvmAddress,
    StellarAddress,
    UnixSeconds,
    bytes32,
)

DETERMINISTIC_DEPLOYER = EvmAddress("0x4e59b44847b379578588920ca78fbf26c0b4956c")
"""The deployer that most EVM chains have at this address (github.com/Arachnid/
deterministic-deployment-proxy): 32 bytes of salt and creation code in, a contract by CREATE2."""

FACTORY = EvmAddress("0x1c0dece7d4d8d0eccd71e0035848f48b077cb106")
"""Address of `DepositFactory` by that deployer with a salt of zeros, on every chain. Other code
would have another address."""

FORWARDER_CODE_HASH = Bytes32("0x874ee8de1c236fd36bb33b892a01e220b84012d19165a82ec963aba3397ef776")
"""keccak256 of the creation code of `DepositForwarder`."""

RELEASE_AFTER = 86_400
"""Seconds after a deposit's `expires_at` after which anyone may refund it."""

_TERMS = "(uint256,address,uint256,uint256,bytes16,address,address,uint64)"
_ROUTES = {"cctp": "(address,uint32,bytes32,bytes)", "oft": "(address,uint32,bytes32)"}
_SEND_PARAM = "(uint32,bytes32,uint256,uint256,bytes,bytes,bytes)"
_NAMES: dict[bytes, Literal["burn", "send", "refund", "refundNative"]] = {
    keccak(text=f"burn({_TERMS},{_ROUTES['cctp']},uint256,uint32)")[:4]: "burn",
    keccak(text=f"send({_TERMS},{_ROUTES['oft']})")[:4]: "send",
    keccak(text=f"refund({_TERMS},bytes32,address)")[:4]: "refund",
    keccak(text=f"refundNative({_TERMS},bytes32)")[:4]: "refundNative",
}
_ZERO_ADDRESS = EvmAddress("0x" + "00" * 20)


@dataclass(frozen=True, slots=True)
class Deposit:
    """The terms of a deposit; every member is part of its address.

    Raises `ValueError` for impossible terms: no amount, a minimum above the amount, no refund
    address, an owner that is no Stellar account.
    """

    chain: ChainId
    """Chain of the payment."""
    bridge: Bridge
    """CCTP for USDC, the OFT for USDT0."""
    owner: StellarAddress
    """The `G…` account that receives it."""
    transfer_id: UUID
    amount: BaseUnits
    """Exact amount to be paid."""
    min_received: BaseUnits
    """Minimum that arrives; the rest is the maximum of the fees."""
    refund_to: EvmAddress
    operator: EvmAddress
    """The account that moves it on, the only one until the release. It cannot take it."""
    expires_at: UnixSeconds

    def __post_init__(self) -> None:
        stellar_account(self.owner)
        if not 0 < self.min_received <= self.amount:
            raise ValueError(f"{self.min_received} of {self.amount} cannot be what arrives")
        if _ZERO_ADDRESS in (self.refund_to, self.operator):
            raise ValueError("a deposit needs somebody to refund and somebody to move it on")
        if not 0 < self.expires_at < 2**63:
            raise ValueError(f"{self.expires_at} is no time to expire at")


@dataclass(frozen=True, slots=True)
class FactoryCall:
    """A transaction for the operator (a refund, after the release, for anyone), or a view call."""

    to: EvmAddress
    data: bytes


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """What a call of the factory does."""

    name: Literal["burn", "send", "refund", "refundNative"]
    transfer: str
    """32 hex digits, from the terms."""
    token: EvmAddress | None
    """Of `refund`."""


def deposit_of_transfer(
    *,
    transfer: str,
    chain: ChainId,
    mechanism: str,
    source_address: str,
    dest_address: str,
    amount_in: int,
    amount_out: int,
    operator: str,
    expires_at: datetime,
) -> Deposit:
    """The deposit of a transfer, for issuing its address and for emptying it.

    `transfer` is 32 hex digits, `amount_out` base units on Stellar. Raises `ValueError`.
    """
    if mechanism not in _ROUTES:
        raise ValueError(f"{mechanism} carries no deposit from an address")
    return Deposit(
        chain=chain,
        bridge="cctp" if mechanism == "cctp" else "oft",
        owner=StellarAddress(dest_address),
        transfer_id=UUID(hex=transfer),
        amount=BaseUnits(int(amount_in)),
        min_received=BaseUnits(int(amount_out) // BRIDGE_STEP),
        refund_to=EvmAddress(source_address),
        operator=EvmAddress(operator),
        expires_at=UnixSeconds(int(expires_at.timestamp())),
    )


def deposit_address(network: Network, deposit: Deposit) -> EvmAddress:
    """A deposit's address: the CREATE2 address of its forwarder.

    Raises `ConfigurationError` when its chain has no factory of this build, or not its bridge.
    """
    route = _raw(route_hash(network, deposit))
    salt = keccak(encode([_TERMS, "bytes32"], [_terms(network, deposit), route]))
    code_hash = bytes.fromhex(FORWARDER_CODE_HASH[2:])
    factory = _factory(_chain(network, deposit))
    return create2_address(factory, salt, code_hash)


def create2_address(deployer: EvmAddress, salt: bytes, code_hash: bytes) -> EvmAddress:
    """CREATE2 address of creation code with that hash (EIP-1014)."""
    preimage = b"\xff" + bytes.fromhex(deployer[2:]) + salt + code_hash
    return EvmAddress("0x" + keccak(preimage)[12:].hex())


def burn_call(
    network: Network, deposit: Deposit, *, max_fee: BaseUnits, min_finality: int
) -> FactoryCall:
    """Burns a deposit through CCTP; reverts while the balance is below its amount.

    Raises `ValueError` for a fee above the terms, or a deposit that CCTP does not carry.
    """
    _require_bridge(deposit, "cctp")
    if not 0 <= max_fee <= deposit.amount - deposit.min_received:
        raise ValueError(f"a fee of {max_fee} is not within the terms of the deposit")
    return _call(
        network,
        deposit,
        "burn",
        (_ROUTES["cctp"], _route(network, deposit)),
        ("uint256", max_fee),
        ("uint32", min_finality),
    )


def send_call(network: Network, deposit: Deposit) -> FactoryCall:
    """Sends a deposit through the OFT; the call's value pays the message, an excess is refunded.

    Raises `ValueError` for a deposit that the OFT does not carry.
    """
    _require_bridge(deposit, "oft")
    return _call(
        network,
        deposit,
        "send",
        (_ROUTES["oft"], _route(network, deposit)),
    )


def message_fee_call(network: Network, deposit: Deposit) -> FactoryCall:
    """View call of the OFT; its first word is the message fee of `send_call` in wei."""
    _require_bridge(deposit, "oft")
    oft, eid, recipient = _route(network, deposit)
    param = (eid, recipient, deposit.amount, deposit.min_received, b"", b"", b"")
    selector = keccak(text=f"quoteSend({_SEND_PARAM},bool)")[:4]
    return FactoryCall(oft, selector + encode([_SEND_PARAM, "bool"], [param, False]))


def refund_call(network: Network, deposit: Deposit, token: EvmAddress) -> FactoryCall:
    """Refunds the whole balance of a token, its own or any other."""
    return _call(
        network,
        deposit,
        "refund",
        ("bytes32", _raw(route_hash(network, deposit))),
        ("address", token),
    )


def refund_native_call(network: Network, deposit: Deposit) -> FactoryCall:
    """Refunds the whole balance of the chain's native coin."""
    return _call(
        network,
        deposit,
        "refundNative",
        ("bytes32", _raw(route_hash(network, deposit))),
    )


def parse_call(data: bytes) -> ParsedCall | None:
    """Inverse of the calls above; None for any other call. Raises `ValueError` for a short one."""
    name = _NAMES.get(data[:4])
    if name is None:
        return None
    words = [data[start : start + 32] for start in range(4, len(data), 32)]
    if len(words) < 10 - (name == "refundNative"):
        raise ValueError(f"a call of {name} with {len(words)} words")
    token = EvmAddress(f"0x{words[9][12:].hex()}") if name == "refund" else None
    return ParsedCall(name, words[4][:16].hex(), token)


def route_hash(network: Network, deposit: Deposit) -> Bytes32:
    """Hash of the bridge part of the terms, as the factory's calls contain it."""
    route = _route(network, deposit)
    return bytes32(keccak(encode(["string", _ROUTES[deposit.bridge]], [deposit.bridge, route])))


def _call(
    network: Network, deposit: Deposit, name: str, *arguments: tuple[str, Any]
) -> FactoryCall:
    """A call of the factory; its first argument are the terms."""
    types = [_TERMS, *(kind for kind, _ in arguments)]
    selector = keccak(text=f"{name}({','.join(types)})")[:4]
    values = [_terms(network, deposit), *(value for _, value in arguments)]
    data = selector + encode(types, values)
    return FactoryCall(_factory(_chain(network, deposit)), data)


def _terms(network: Network, deposit: Deposit) -> tuple[Any, ...]:
    chain = _chain(network, deposit)
    return (
        chain.number,
        chain.usdc if deposit.bridge == "cctp" else chain.usdt0,
        deposit.amount,
        deposit.min_received,
        deposit.transfer_id.bytes,
        deposit.refund_to,
        deposit.operator,
        deposit.expires_at,
    )


def _route(network: Network, deposit: Deposit) -> tuple[Any, ...]:
    chain = _chain(network, deposit)
    stellar = network.stellar
    match deposit.bridge:
        case "cctp":
            if chain.cctp_token_messenger is None or stellar.cctp_forwarder is None:
                raise ConfigurationError(f"CCTP does not lead from {chain.id} to {stellar.id}")
            # The forwarder mints to itself and reads the owner's strkey from the hook.
            forwarder = _raw(contract_as_bytes32(stellar.cctp_forwarder))
            recipient = deposit.owner.encode()
            return (chain.cctp_token_messenger, stellar.cctp_domain, forwarder, recipient)
        case "oft":
            if chain.oft is None or stellar.oft is None:
                raise ConfigurationError(f"the OFT does not lead from {chain.id} to {stellar.id}")
            # The remote OFT pays the key in the owner's strkey.
            return (chain.oft, stellar.lz_eid, _raw(account_as_bytes32(deposit.owner)))


def _chain(network: Network, deposit: Deposit) -> EvmChain:
    chain = network.chain(deposit.chain)
    if not isinstance(chain, EvmChain):
        raise ConfigurationError(f"{chain.id} is not an EVM chain: no deposit addresses there")
    return chain


def _factory(chain: EvmChain) -> EvmAddress:
    if chain.deposit_factory is None:
        raise ConfigurationError(f"{chain.id} has no deposit_factory: no deposit addresses there")
    if chain.deposit_factory != FACTORY:
        raise ConfigurationError(
            f"deposit_factory {chain.deposit_factory} of {chain.id} is not this build's: {FACTORY}"
        )
    return chain.deposit_factory


def _require_bridge(deposit: Deposit, bridge: Bridge) -> None:
    if deposit.bridge != bridge:
        raise ValueError(f"{bridge} does not carry a deposit of {deposit.bridge}")


def _raw(word: Bytes32) -> bytes:
    return bytes.fromhex(word[2:])
